import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { until } from '../e2e/wait.ts'
import { DIST } from '../run-panel.ts'
import { end } from './process-end.ts'

/** `panel console logs --follow --cursor-file`, ended and started again on the same file; its outputs are one text. */
export class CursorFollower {
  readonly #args: readonly string[]
  readonly #env: Readonly<Record<string, string>>
  #child: ChildProcess | undefined
  #stdout = ''
  #stderr = ''
  readonly exits: (number | null)[] = []

  constructor(serverId: string, cursorFile: string, env: Readonly<Record<string, string>>) {
    this.#args = ['console', 'logs', serverId, '--follow', '--cursor-file', cursorFile]
    this.#env = env
    this.start()
  }

  get lines(): string[] {
    return this.#stdout.split('\n').slice(0, -1)
  }

  get stderr(): string {
    return this.#stderr
  }

  start(): void {
    const options = { env: { ...this.#env }, stdio: ['ignore', 'pipe', 'pipe'] } as const
    const child = spawn(process.execPath, [join(DIST, 'bin', 'panel.js'), ...this.#args], options)
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    this.#child = child
  }

  /** Ends it as a service manager does, and waits for the last of its output. */
  async stop(): Promise<void> {
    const child = this.#child
    if (child === undefined) return
    const drained = new Promise<void>((resolve) => child.once('close', () => resolve()))
    await end(child, 'SIGTERM')
    await drained
    this.exits.push(child.exitCode)
    this.#child = undefined
  }

  async has(line: string, withinMs = 60_000): Promise<void> {
    const look = async (): Promise<boolean> =>
      this.#stdout.includes(`\n${line}\n`) || this.#stdout.startsWith(`${line}\n`)
    await until(`the follower has "${line}"`, look, withinMs).catch((error: unknown) => {
      throw new Error(`${String(error)}; last: ${this.#stdout.slice(-200)}; ${this.#stderr.slice(-1000)}`)
    })
  }
}
