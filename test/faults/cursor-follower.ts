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
  #isEnough = (_text: string): boolean => false
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
    const child = spawn(process.execPath, [join(DIST, 'bin', 'panel.js'), ...this.#args], {
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text
      if (this.#isEnough(text)) child.kill('SIGTERM')
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
    await end(child, 'SIGTERM')
    // The last of its output may come after its exit.
    await until('the end of its output', async () => child.stdout?.closed === true)
    this.exits.push(child.exitCode)
    this.#child = undefined
  }

  /** Ends it in the moment in which it has written this line, with the next ones right behind, and starts it again. */
  async restartAt(line: string): Promise<void> {
    this.#isEnough = (text) => text.includes(`${line}\n`)
    if (this.#stdout.includes(`\n${line}\n`)) throw new Error(`the follower has passed "${line}" already`)
    const child = this.#child
    await until(
      `the follower has ended at "${line}"`,
      async () => child?.exitCode !== null || child.signalCode !== null,
    )
    this.#isEnough = () => false
    await this.stop()
    this.start()
  }

  async has(line: string, withinMs = 60_000): Promise<void> {
    const look = async (): Promise<boolean> =>
      this.#stdout.includes(`\n${line}\n`) || this.#stdout.startsWith(`${line}\n`)
    await until(`the follower has "${line}"`, look, withinMs).catch((error: unknown) => {
      throw new Error(`${String(error)}; last: ${this.#stdout.slice(-200)}; ${this.#stderr.slice(-1000)}`)
    })
  }
}
