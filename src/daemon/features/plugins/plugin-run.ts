import { once } from 'node:events'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { FromPlugin, LogLevel } from '../../../shared/protocol/plugin-frames.ts'
import { Channel } from './channel.ts'
import { CallFailure, LoadProblem } from './failures.ts'
import { type Launch, type Launched, launchPlugin } from './launch.ts'
import { readLines } from './output-lines.ts'
import { killAll, memoryOf } from './processes.ts'

/** How often a plugin is looked at. */
const LOOK_MS = 1000
/** A plugin that lets so many looks pass without an answer is busy for ever. */
const MOST_UNANSWERED = 5
const LOAD_MS = 15_000
/** From the asking to end until SIGTERM, and from there until SIGKILL. */
const STOP_MS = 2000
const TERM_MS = 1000
/** Node itself needs about that much beside the plugin's heap. */
const BESIDE_HEAP_MB = 96
const MOST_CALLS = 64
const MOST_LAST_WORDS = 2000
/** How long what it has printed last may take to arrive. */
const LAST_WORDS_MS = 1000

/** What a run of a plugin is made of. */
export interface RunOf {
  readonly launch: Launch
  readonly main: string
  readonly config: Readonly<Record<string, unknown>>
  readonly handlers: readonly string[]
  readonly clock: Clock
  readonly log: (level: LogLevel, text: string, fields?: unknown) => void
  /** Answers a request of the plugin, or throws. */
  readonly request: (op: string, input: unknown) => Promise<unknown>
  /** How a thrown value is reported to the plugin. */
  readonly refusal: (error: unknown) => { code: string; message: string; status?: number; details?: unknown }
}

interface Waiting {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: CallFailure) => void
}

/** One process of a plugin, from its start to its end. It never starts again: {@link PluginLife} makes another one. */
export class PluginRun {
  readonly pid: number | undefined
  /** Resolves with why it ended, as a sentence part, when nothing of it is left. */
  readonly ended: Promise<string>
  readonly #of: RunOf
  readonly #launched: Launched
  readonly #channel: Channel
  readonly #over = new AbortController()
  readonly #calls = new Map<number, Waiting>()
  #ready: { resolve: () => void; reject: (error: LoadProblem) => void } | undefined
  #lastCall = 0
  #isReady = false
  #unanswered = 0
  #requests = 0
  #why: string | undefined
  #lastWords = ''

  constructor(of: RunOf) {
    this.#of = of
    this.#launched = launchPlugin(of.launch)
    const { child, pipe, outputs } = this.#launched
    this.pid = child.pid
    this.#channel = new Channel(pipe, of.clock, {
      frame: (frame) => this.#take(frame),
      trouble: (why) => this.kill(why),
    })
    this.ended = new Promise((resolve) => {
      child.on('error', (error) => resolve(this.#finish(`it could not be started: ${error.message}`)))
      child.on('exit', (code, signal) => resolve(this.#after(code, signal)))
    })
    const flood = (): void => this.kill('it floods its output')
    readLines(outputs[0], of.clock, { line: (text) => of.log('info', text), flood })
    readLines(outputs[1], of.clock, { line: (text) => this.#lastWord(text), flood })
    void this.#watch()
  }

  /** Loads the plugin. Fails with a LoadProblem, after which the process is ended. */
  async load(): Promise<void> {
    const { clock, launch, main, config, handlers } = this.#of
    const loaded = new Promise<void>((resolve, reject) => {
      this.#ready = { resolve, reject }
    })
    this.#channel.send({ t: 'start', name: launch.name, main, config, handlers })
    const late = new AbortController()
    const deadline = clock.sleep(LOAD_MS, late.signal).then(() => {
      if (!late.signal.aborted) this.kill(`it was not ready within ${LOAD_MS / 1000} s`)
    })
    try {
      await loaded
    } catch (error) {
      this.kill(error instanceof Error ? error.message : String(error))
      await this.ended
      throw error
    } finally {
      late.abort()
      await deadline
    }
  }

  /** Calls a handler. Fails with a CallFailure. */
  async call(handler: string, input: unknown, timeoutMs: number): Promise<unknown> {
    if (this.#over.signal.aborted) throw new CallFailure('gone', 'it has ended')
    if (this.#calls.size >= MOST_CALLS) throw new CallFailure('busy', `it is busy with ${MOST_CALLS} calls`)
    const id = ++this.#lastCall
    const answered = new AbortController()
    const answer = new Promise<unknown>((resolve, reject) => {
      this.#calls.set(id, { resolve, reject })
    })
    if (!this.#channel.send({ t: 'call', id, handler, input })) {
      this.#calls.delete(id)
      throw new CallFailure('busy', 'it does not read its pipe')
    }
    void this.#of.clock.sleep(timeoutMs, answered.signal).then(() => {
      if (answered.signal.aborted) return
      this.#calls.get(id)?.reject(new CallFailure('timeout', `${handler} did not answer within ${timeoutMs / 1000} s`))
    })
    try {
      return await answer
    } finally {
      answered.abort()
      this.#calls.delete(id)
    }
  }

  /** Asks it to end, then makes it; resolves when nothing of it is left. */
  async stop(): Promise<void> {
    const { clock } = this.#of
    const { signal } = this.#over
    this.#why ??= 'it was stopped'
    this.#channel.send({ t: 'stop' })
    await clock.sleep(STOP_MS, signal)
    if (!signal.aborted) this.#launched.child.kill('SIGTERM')
    await clock.sleep(TERM_MS, signal)
    this.kill('it was stopped')
    await this.ended
  }

  /** Ends it at once; `why` is a sentence part. */
  kill(why: string): void {
    if (this.#over.signal.aborted) return
    this.#why ??= why
    this.#launched.child.kill('SIGKILL')
  }

  #take(frame: FromPlugin): void {
    switch (frame.t) {
      case 'ready':
        this.#isReady = true
        this.#ready?.resolve()
        break
      case 'failed':
        this.#ready?.reject(problemOf(frame))
        break
      case 'pong':
        this.#unanswered = 0
        break
      case 'log':
        this.#of.log(frame.level, frame.text, frame.fields)
        break
      case 'request':
        void this.#serve(frame)
        break
      case 'result':
        this.#calls.get(frame.id)?.resolve(frame.value ?? null)
        break
      case 'error': {
        const { message, stack, code } = frame
        this.#calls.get(frame.id)?.reject(new CallFailure('threw', message, { stack, code }))
      }
    }
  }

  async #serve({ id, op, input }: FromPlugin & { t: 'request' }): Promise<void> {
    this.#requests += 1
    try {
      if (this.#requests > MOST_CALLS)
        throw new CallFailure('busy', `at most ${MOST_CALLS} requests may wait at a time`)
      const value = await this.#of.request(op, input)
      if (!this.#channel.send({ t: 'answer', id, value })) this.kill('it does not read its pipe')
    } catch (error) {
      this.#channel.send({ t: 'refusal', id, error: this.#of.refusal(error) })
    } finally {
      this.#requests -= 1
    }
  }

  /** Heartbeat and memory. A daemon that was itself held up counts one look, not many. */
  async #watch(): Promise<void> {
    const { clock, launch } = this.#of
    const limit = (launch.memoryMb + BESIDE_HEAP_MB) * 1024 * 1024
    for (let n = 0; !this.#over.signal.aborted; n++) {
      // Before it is ready, the time for loading counts.
      if (this.#unanswered >= MOST_UNANSWERED) return this.kill(`it did not answer for ${MOST_UNANSWERED} s`)
      if (memoryOf(this.pid ?? 0) > limit) return this.kill(`it used more memory than its ${launch.memoryMb} MiB`)
      if (this.#isReady) this.#unanswered += 1
      if (this.#isReady) this.#channel.send({ t: 'ping', n })
      await clock.sleep(LOOK_MS, this.#over.signal)
    }
  }

  #lastWord(text: string): void {
    this.#lastWords = `${this.#lastWords}${text}\n`.slice(-MOST_LAST_WORDS)
    this.#of.log('warn', text)
  }

  /** Ends what it has started and reads what it has said; both may outlive the process itself. */
  async #after(code: number | null, signal: string | null): Promise<string> {
    const { launch, clock } = this.#of
    this.#over.abort()
    killAll(launch)
    const waiting = new AbortController()
    const closed = once(this.#launched.child, 'close', { signal: waiting.signal }).catch(() => undefined) // waited long enough
    await Promise.race([closed, clock.sleep(LAST_WORDS_MS, waiting.signal)])
    waiting.abort()
    return this.#finish(this.#endOf(code, signal))
  }

  #endOf(code: number | null, signal: string | null): string {
    if (this.#why !== undefined) return this.#why
    if (/heap out of memory|allocation failed/i.test(this.#lastWords)) {
      return `it used more memory than its ${this.#of.launch.memoryMb} MiB`
    }
    const words = this.#lastWords.split('\n').find((line) => /^\w*Error\b|^Error:/.test(line))
    const how = signal === null ? `it ended with code ${code}` : `it was ended by ${signal}`
    return words === undefined ? how : `${how}: ${words}`
  }

  #finish(why: string): string {
    this.#why ??= why
    this.#over.abort()
    this.#channel.close()
    this.#ready?.reject(new LoadProblem(this.#why))
    for (const call of this.#calls.values()) call.reject(new CallFailure('gone', this.#why))
    return this.#why
  }
}

function problemOf({ message, stack }: { message: string; stack: string }): LoadProblem {
  const problem = new LoadProblem(message)
  if (stack !== '') problem.stack = stack
  return problem
}
