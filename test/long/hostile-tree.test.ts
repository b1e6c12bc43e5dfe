// @module-tag long
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { bytesByDu, nestFolders, ROOMY } from '../agent/files/hostile-tree.ts'
import { DIST } from '../run-panel.ts'

let base: string
beforeEach(() => {
  base = mkdtempSync(join(ROOMY, 'panel-hostile-'))
})
afterEach(() => {
  execFileSync('rm', ['-rf', base])
})

/** Counts and removes in a process of its own; what others would have waited, and its memory. */
const PROGRAM = `
const { treeBytes, removeFolder } = await import('${DIST}/src/agent/files/tree.js')
let longest = 0
let before = performance.now()
const beat = setInterval(() => {
  longest = Math.max(longest, performance.now() - before)
  before = performance.now()
}, 5)
const bytes = await treeBytes(process.argv[1], { signal: new AbortController().signal })
await removeFolder(process.argv[1])
clearInterval(beat)
console.log(JSON.stringify({ bytes, longest, maxRssMb: process.resourceUsage().maxRSS / 1024 }))
`

it('100,000 levels and a folder of a million files are counted and removed with few descriptors, and others get their turn', () => {
  const files = join(base, 'files')
  mkdirSync(files)
  nestFolders(files, 100_000)
  mkdirSync(join(files, 'many'))
  const make = `import os, sys\nos.chdir(sys.argv[1])\nfor i in range(1000000): os.close(os.open(f'f{i}', os.O_CREAT))`
  execFileSync('python3', ['-c', make, join(files, 'many')])
  mkdirSync(join(files, 'folders'))
  const folders = `import os, sys\nos.chdir(sys.argv[1])\nfor i in range(50000): os.mkdir(f'd{i}')`
  execFileSync('python3', ['-c', folders, join(files, 'folders')])
  writeFileSync(join(files, 'folders', 'd7', 'data'), 'x'.repeat(1024 * 1024))
  const expected = bytesByDu(files)
  const args = ['--nofile=90', process.execPath, '--input-type=module', '-e', PROGRAM, files]
  const { bytes, longest, maxRssMb } = JSON.parse(execFileSync('prlimit', args, { encoding: 'utf8' })) as {
    bytes: number
    longest: number
    maxRssMb: number
  } // printed by the program above
  expect(bytes).toBe(expected)
  expect(existsSync(files)).toBe(false)
  expect(maxRssMb).toBeLessThan(200)
  expect(longest).toBeLessThan(1000)
})
