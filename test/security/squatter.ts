import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../e2e/wait.ts'

/** The user that strangers of these tests run as. */
export const STRANGER = 65_534

/**
 * How the squatter behaves: `listen` only reads; `answer` refuses like a panel; `greet` answers before it is asked;
 * `accept-and-leave` gives the port up as soon as somebody has come.
 */
type Manner = 'listen' | 'answer' | 'greet' | 'accept-and-leave'

/** A program of another user that waits for a port and writes down what it is sent. */
export class Squatter {
  readonly #child: ChildProcess
  #said = ''

  /** Waits for each address until it can have it; resolves when it listens, or at once with `wait: false`. */
  static async settle(
    places: readonly string[],
    options: { readonly manner?: Manner; readonly uid?: number; readonly wait?: boolean } = {},
  ): Promise<Squatter> {
    const squatter = new Squatter(places, options.manner ?? 'listen', options.uid ?? STRANGER)
    if (options.wait !== false) await squatter.listens(places.length)
    return squatter
  }

  private constructor(places: readonly string[], manner: Manner, uid: number) {
    // Its text is handed over: the stranger may not be able to reach the tests.
    const script = readFileSync(join(import.meta.dirname, 'squatter.js'), 'utf8')
    this.#child = spawn(process.execPath, ['--input-type=module', '-e', script, manner, ...places], {
      stdio: ['ignore', 'pipe', 'inherit'],
      cwd: '/',
      env: {},
      ...(uid === process.getuid?.() ? {} : { uid, gid: uid }),
    })
    this.#child.stdout?.on('data', (chunk: Buffer) => {
      this.#said += chunk.toString()
    })
  }

  /** Everything that was sent to it, ended connections or not. */
  get sent(): string[] {
    return this.#lines('sent').map((text) => JSON.parse(text) as string) // written by the squatter as JSON
  }

  get visits(): number {
    return this.#lines('connected').length
  }

  async listens(times: number): Promise<void> {
    await until('the squatter listens', async () => this.#lines('listening').length >= times, 20_000)
  }

  /** What it was sent, as soon as everybody has gone who came; at least `visits` did. */
  async loot(visits = 1): Promise<string[]> {
    await until(
      'the visitors have gone',
      async () => this.visits >= visits && this.#lines('closed').length === this.visits,
    )
    return this.sent
  }

  async leave(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const gone = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await gone
  }

  #lines(word: string): string[] {
    const lines = this.#said.split('\n').slice(0, -1)
    return lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1))
  }
}
