import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { DIST, runPanel } from '../run-panel.ts'

/** A flag in front of it, and help goes by the tree of commands and not by the texts that the build has made. */
const BY_TREE = ['-o', 'table']

it.each([
  { words: ['--help'], same: [...BY_TREE, '--help'] },
  { words: [], same: [...BY_TREE, 'help'] },
  { words: ['servers', '-h'], same: [...BY_TREE, 'servers', '-h'] },
  { words: ['servers', 'list', '--help'], same: [...BY_TREE, 'servers', 'list', '--help'] },
  { words: ['help', 'console', 'attach'], same: [...BY_TREE, 'console', 'attach', '-h'] },
])('panel $words shows the help that the commands themselves have', async ({ words, same }) => {
  const [ready, made] = await Promise.all([runPanel(words), runPanel(same)])
  expect(ready).toEqual(made)
  expect(ready).toMatchObject({
    code: 0,
    signal: null,
    stderr: '',
    stdout: expect.stringContaining('Examples:\n  panel'),
  })
})

it.each([
  { words: ['help', 'servers', 'frob'], code: 2 },
  { words: ['help', 'constructor'], code: 2 },
  { words: ['servers list', '--help'], code: 0 },
  { words: ['server', 'ls', '-h'], code: 0 },
  { words: ['help', 'flags'], code: 0 },
])('panel $words is left to the commands', async ({ words, code }) => {
  expect(await runPanel(words)).toMatchObject({ code })
})

it('ends without a word when nobody reads its help', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'panel-help-'))
  try {
    // A pipe that is open for writing, and whose only reader has gone.
    const script = 'mkfifo pipe && exec 3<>pipe 4>pipe 3<&-; "$@" >&4; echo "code $?" >&2'
    const words = ['-c', script, 'sh', process.execPath, join(DIST, 'bin', 'panel.js'), '--help']
    expect(await promisify(execFile)('sh', words, { cwd: folder })).toEqual({ stdout: '', stderr: 'code 0\n' })
  } finally {
    await rm(folder, { recursive: true })
  }
})
