import { execFile } from 'node:child_process'
import { TOOL_PATH } from '../holder/process/launcher.ts'

const TIMEOUT_MS = 15_000
const MOST_OUTPUT = 64 * 1024 * 1024

/** What a program has said; `ok`: it ended with exit code 0. */
export interface Said {
  readonly ok: boolean
  readonly stdout: string
  /** Its last words when it failed, in one line. */
  readonly problem: string
}

/** Runs a program of the machine, without a shell and with nothing of the agent's environment. Never rejects. */
export function runProgram(program: string, args: readonly string[], timeoutMs = TIMEOUT_MS): Promise<Said> {
  const options = { env: { PATH: TOOL_PATH, LC_ALL: 'C' }, cwd: '/', timeout: timeoutMs, maxBuffer: MOST_OUTPUT }
  return new Promise((resolve) => {
    execFile(program, args, options, (error, stdout, stderr) => {
      if (error === null) return resolve({ ok: true, stdout, problem: '' })
      const isMissing = error.code === 'ENOENT'
      const said = stderr.trim().split('\n').at(-1) ?? ''
      const problem = isMissing ? `the program ${program} is not installed` : `${program}: ${said || error.message}`
      resolve({ ok: false, stdout, problem: problem.slice(0, 300) })
    })
  })
}
