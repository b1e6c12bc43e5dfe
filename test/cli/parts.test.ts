import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { betweenLooks } from '../looks.ts'
import { DIST, runPanel } from '../run-panel.ts'

const PARTS = join(DIST, 'bin', 'parts')
const CACHE = `.${process.version}-${process.arch}.cache`
const caches = readdirSync(PARTS).filter((name) => name.endsWith('.cache'))

const copies: string[] = []
afterAll(() => {
  for (const copy of copies) rmSync(copy, { recursive: true, force: true })
})

/** A copy of the build, whose caches `change` has changed. */
async function copyWith(change: (file: string) => void): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'panel-parts-'))
  copies.push(copy)
  for (const name of ['bin', 'package.json']) cpSync(join(DIST, name), join(copy, name), { recursive: true })
  for (const name of ['node_modules', 'src', 'templates']) symlinkSync(join(DIST, name), join(copy, name))
  for (const name of caches) change(join(copy, 'bin', 'parts', name))
  return copy
}

describe('what V8 has made of the parts of the program', () => {
  it('lies beside all that are loaded, and is taken by this V8', () => {
    expect(caches.length).toBeGreaterThan(50)
    // In a process of its own: V8 takes compiled code only under the flags that it was made under, and tests before this one may have set some.
    const program = `
      const { readFileSync } = require('node:fs')
      const { Script } = require('node:vm')
      const refused = JSON.parse(process.argv[1]).filter((cache) => {
        const filename = cache.slice(0, -process.argv[2].length)
        const cachedData = readFileSync(cache)
        return new Script(readFileSync(filename, 'latin1'), { filename, cachedData }).cachedDataRejected
      })
      console.log(JSON.stringify(refused))`
    const files = JSON.stringify(caches.map((name) => join(PARTS, name)))
    const refused: unknown = JSON.parse(
      execFileSync(process.execPath, ['-e', program, files, CACHE], { encoding: 'utf8' }),
    )
    expect(refused).toEqual([])
  })

  it.each<[string, (file: string) => void]>([
    ['is not there', (file) => rmSync(file)],
    ['is of another V8', (file) => writeFileSync(file, Buffer.alloc(4096, 7))],
    ['is cut off', (file) => truncateSync(file, 1000)],
  ])('is not missed where it %s', async (_, change) => {
    const copy = await copyWith(change)
    // A home of its own: the user who runs the tests may have a panel.
    const ran = await runPanel(['servers', 'list'], { program: join(copy, 'bin', 'panel.js'), env: { HOME: copy } })
    expect(ran).toMatchObject({ code: 4, stdout: '' })
    expect(ran.stderr).toContain('no panel is chosen')
  })
})

describe('a build', () => {
  /** The command lines of processes that name this folder. */
  const naming = (folder: string): string[] =>
    readdirSync('/proc').flatMap((name) => {
      try {
        const line = /^\d+$/.test(name) ? readFileSync(join('/proc', name, 'cmdline'), 'latin1') : ''
        return line.includes(folder) ? [line] : []
      } catch {
        return [] // it has ended meanwhile
      }
    })
  const until = async (what: string, holds: () => boolean): Promise<void> => {
    for (const start = performance.now(); !holds(); await betweenLooks(start)) {
      if (performance.now() > start + 20_000) throw new Error(`it never came that ${what}`)
    }
  }

  const trialsIn = (copy: string): string[] =>
    readdirSync(join(copy, 'bin')).filter((name) => name.startsWith('.trial-'))
  /** Has the parts of a copy compiled once more, with a folder for what is temporary. */
  const compile = async (copy: string): Promise<{ readonly build: ChildProcess; readonly temporary: string }> => {
    const temporary = await mkdtemp(join(tmpdir(), 'panel-parts-'))
    copies.push(temporary)
    // The program's file has both in it: what loads the parts, and the name of the one that runs.
    const program = readFileSync(join(DIST, 'bin', 'panel.js'), 'utf8')
    const [, loader, entry] =
      /const exports = \{\}\n(.*)\nexports[.]openParts\(.*load\("(panel-.+[.]js)"\)/s.exec(program) ?? []
    const work = [join(copy, 'bin', 'parts'), { loader, entry, names: [] }].map((part) => JSON.stringify(part))
    const script = join(import.meta.dirname, '../../scripts/compile-parts.mjs')
    const code = `import { compileParts } from ${JSON.stringify(script)}\nawait compileParts(${work.join(', ')})`
    const build = spawn(process.execPath, ['--input-type=module', '-e', code], {
      env: { PATH: process.env['PATH'] ?? '', TMPDIR: temporary },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    return { build, temporary }
  }

  it('tries a daemon with its commands, and leaves nothing behind', async () => {
    const copy = await copyWith(() => undefined)
    const { build, temporary } = await compile(copy)
    let said = ''
    build.stderr?.on('data', (text) => (said += String(text)))
    const [code] = await once(build, 'close')
    expect({ code, said }).toEqual({ code: 0, said: '' })
    expect([...trialsIn(copy), ...readdirSync(temporary)]).toEqual([])
  })

  it('that is killed leaves neither its trial daemon nor its folders behind', async () => {
    const copy = await copyWith(() => undefined)
    const { build, temporary } = await compile(copy)
    await until('a daemon is tried', () => naming(copy).some((line) => line.includes('trial.cjs\0daemon')))
    build.kill('SIGKILL')
    await until('all has ended', () => naming(copy).length === 0)
    await until('the folders are gone', () => readdirSync(temporary).length + trialsIn(copy).length === 0)
  })
})
