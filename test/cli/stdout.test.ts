import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { until } from '../e2e/wait.ts'
import { DIST, runPanel } from '../run-panel.ts'

const PROGRAM = join(DIST, 'bin', 'panel.js')

/** Runs the program with a redirection of a shell. */
function redirected(args: readonly string[], to: string) {
  const { status, stderr } = spawnSync('sh', ['-c', `exec "$0" "$@" ${to}`, process.execPath, PROGRAM, ...args], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'] },
  })
  return { status, stderr }
}

describe('a stdout that takes nothing', () => {
  it.each([[['commands', '--json']], [['commands']], [['help', 'servers', 'frobnicate', '-h']]])(
    'is a full disk, exit 14, with what to do: %j',
    (args) => {
      const { status, stderr } = redirected(args, '> /dev/full')
      expect(stderr).toMatch(/stdout cannot be written: the disk is full.*free some space/s)
      expect(stderr).not.toMatch(/\n\s+at /)
      expect(status).toBe(14)
    },
  )

  it('is named as briefly by what needs nothing but itself', () => {
    for (const args of [['--version'], ['--help'], ['help', 'servers']]) {
      expect(redirected(args, '> /dev/full')).toEqual({
        status: 14,
        stderr: 'panel: stdout cannot be written (ENOSPC)\n',
      })
    }
  })

  it('is exit 2 where it is open for reading only', () => {
    const { status, stderr } = redirected(['commands'], '1< /dev/null')
    expect(stderr).toBe('panel: stdout cannot be written (EBADF) (FILE_UNREADABLE)\n')
    expect(status).toBe(2)
  })
})

describe('--jq', () => {
  const jq = (expression: string) => runPanel(['commands', '--jq', expression])

  it('prints empty lines and blanks where they are', async () => {
    const expression = '("", " a", "", [1], "\\n\\"b", " ", "") | if type == "string" then ascii_downcase else . end'
    expect((await jq(expression)).stdout).toBe('\n a\n\n[1]\n\n"b\n \n\n')
  })

  it('says so when an expression takes all memory', async () => {
    const { code, stderr } = await jq('def f: f + 1; f')
    expect(stderr).toContain('the jq expression failed: it takes more memory than jq has')
    expect(code).toBe(2)
  })

  it.each(['SIGTERM', 'SIGINT'] as const)('ends by %s while an expression runs that has no end', async (name) => {
    let pid = 0
    const ended = runPanel(['commands', '--jq', 'def f: f; f'], {
      onStart: (started) => {
        pid = started
      },
    })
    // Its own handlers are there, as for every command, before jq is.
    const bit = name === 'SIGTERM' ? 14 : 1
    await until('the handlers', async () => {
      const mask = /SigCgt:\s*([\da-f]+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]
      return mask !== undefined && (BigInt(`0x${mask}`) >> BigInt(bit)) % 2n === 1n
    })
    let isOver = false
    const sent = until('the end', async () => isOver || !process.kill(pid, name))
    const { signal, code } = await ended
    isOver = true
    await sent
    expect(signal ?? code).toBe(signal === null ? (name === 'SIGTERM' ? 143 : 130) : name)
  })
})
