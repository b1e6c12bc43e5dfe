import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

/**
 * A client of tmux that stays: a question costs no start of a program, so that times taken with it are those of what is
 * asked about.
 */
export class Control {
  readonly #child: ChildProcess
  readonly #waiting: ((lines: string[]) => void)[] = []
  #block: string[] | undefined

  constructor(command: readonly string[], env: Readonly<Record<string, string | undefined>>) {
    const [program = '', ...words] = command
    this.#child = spawn(program, words, { env, stdio: ['pipe', 'pipe', 'ignore'] })
    this.#child.stdin?.on('error', () => {}) // tmux has ended; what still waits is told by the test's own deadline
    if (this.#child.stdout === null) throw new Error('no output of tmux')
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#take(line))
  }

  /** What tmux answers to a command of one line. */
  ask(command: string): Promise<string> {
    return new Promise((resolve) => {
      this.#waiting.push((lines) => resolve(lines.join('\n')))
      this.#child.stdin?.write(`${command}\n`)
    })
  }

  /** Milliseconds from sending a key to the first screen that satisfies `wanted`. */
  async answerTime(key: string, wanted: (screen: string) => boolean, ms = 10_000): Promise<number> {
    const start = performance.now()
    await this.ask(`send-keys ${key}`)
    for (;;) {
      const screen = await this.ask('capture-pane -p')
      const took = performance.now() - start
      if (wanted(screen)) return took
      if (took > ms) throw new Error(`no answer to ${key}; the screen shows:\n${screen}`)
      await new Promise((done) => setTimeout(done, 1))
    }
  }

  close(): void {
    this.#child.kill()
  }

  /** Answers stand between `%begin` and `%end`; those to our own questions carry the flag 1. */
  #take(line: string): void {
    if (this.#block === undefined) {
      if (/^%begin \d+ \d+ 1$/.test(line)) this.#block = []
    } else if (/^%(?:end|error) \d+ \d+ 1$/.test(line)) {
      this.#waiting.shift()?.(this.#block)
      this.#block = undefined
    } else {
      this.#block.push(line)
    }
  }
}
