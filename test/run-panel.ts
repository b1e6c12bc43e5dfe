import { spawn } from 'node:child_process'
import { join } from 'node:path'

/** What a run of the program came to. */
export interface Ran {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** How a run differs from a plain one. */
export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly input?: string
  /** Kills it. */
  readonly signal?: AbortSignal
  /** Ends it as Ctrl-C does. */
  readonly interrupt?: AbortSignal
  /** Called with the id of its process. */
  readonly onStart?: (pid: number) => void
  /** The user and group that it runs as; only root may choose. */
  readonly uid?: number
  /** The program's file, of another build than that of the tests. */
  readonly program?: string
  /** Called with everything on stdout so far; a signal that it answers is sent to the program. */
  readonly onOutput?: (stdout: string) => NodeJS.Signals | undefined
  /** The same for stderr. */
  readonly onError?: (stderr: string) => NodeJS.Signals | undefined
}

/** The folder with the compiled program. */
export const DIST = process.env['PANEL_TEST_DIST'] ?? join(import.meta.dirname, '..', 'dist')

/** Agents of tests take SSH connections on a port of their own. */
export const SFTP_HERE = { PANEL_SFTP__HOST: '127.0.0.1', PANEL_SFTP__PORT: '0' } as const

/** Runs the real binary and resolves when it has ended. Nothing of the caller's environment but PATH gets through. */
export function runPanel(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [options.program ?? join(DIST, 'bin', 'panel.js'), ...args], {
      env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm', ...SFTP_HERE, ...options.env },
      ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid, cwd: '/' }),
    })
    if (child.pid !== undefined) options.onStart?.(child.pid)
    options.signal?.addEventListener('abort', () => child.kill('SIGKILL'), { once: true })
    options.interrupt?.addEventListener('abort', () => child.kill('SIGINT'), { once: true })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
      const signal = options.onOutput?.(stdout)
      if (signal !== undefined) child.kill(signal)
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
      const signal = options.onError?.(stderr)
      if (signal !== undefined) child.kill(signal)
    })
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
    child.stdin.on('error', () => {}) // the program may end before it has read its input
    child.stdin.end(options.input ?? '')
  })
}
