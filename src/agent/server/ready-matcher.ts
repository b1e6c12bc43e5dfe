import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { MOST_PATTERN_STEPS, patternSteps } from '../../shared/kernel/pattern-steps.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { folderAbove } from '../../shared/platform/program-folder.ts'
import type { DoneRule } from '../../shared/protocol/server-spec.ts'
import { errorText } from '../logger.ts'
import type { MatchAnswer, MatchJob } from './ready-thread.ts'
import { SerialQueue } from './serial-queue.ts'

/** Looks for the line of one starting game that says that it is up. */
export interface ReadyMatcher {
  /** The place of the first line that a rule matches; `undefined` when none does, or when `signal` has aborted. */
  match(lines: readonly string[], signal: AbortSignal): Promise<number | undefined>
}

/** How a matcher looks at lines. */
export interface MatchOptions {
  readonly stripAnsi: boolean
  /** A rule is not looked at any more; `reason` is a sentence part, as in `is no valid regular expression`. */
  readonly switchedOff: (rule: DoneRule, reason: string) => void
}

/** One rule on one line. */
const MATCH_MS = 1000
/** All rules of a start on all its lines. */
const START_MS = 5000
/** The thread ends when nothing was to be looked at for so long. */
const IDLE_MS = 5000
const MEMORY = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 8 } as const

/** The thread's main file, from the folder that the program is built into. */
const THREAD = join('src', 'agent', 'server', 'ready-thread.js')
const TOO_SLOW = 'takes too long to match'
const TOO_LARGE = `has more than ${MOST_PATTERN_STEPS} steps`
const INVALID = 'is no valid regular expression'

/**
 * The thread of an agent that matches lines of games with ready rules. Rules come from templates and lines from games, so
 * that both may be made to take for ever: a match that takes too long ends with the thread, and its rule is switched off.
 */
export class ReadyThread {
  readonly #clock: Clock
  readonly #ending: AbortSignal
  readonly #jobs = new SerialQueue()
  #thread: MatchThread | undefined
  #waiting = 0
  #watchesIdle = false

  /** `ending` aborts when the agent ends; nothing is switched off after that. */
  constructor(clock: Clock, ending: AbortSignal) {
    this.#clock = clock
    this.#ending = ending
    ending.addEventListener('abort', () => this.#thread?.end())
  }

  /** A matcher for the rules of one start. */
  matcher(given: readonly DoneRule[], { stripAnsi, switchedOff }: MatchOptions): ReadyMatcher {
    const rules: (DoneRule | null)[] = [...given]
    let spentMs = 0
    const off = (number: number, reason: string): void => {
      const rule = rules[number]
      if (rule === null || rule === undefined) return
      rules[number] = null
      switchedOff(rule, reason)
    }
    for (const [number, rule] of given.entries()) {
      if (rule.kind === 'regex' && patternSteps(rule.value) > MOST_PATTERN_STEPS) off(number, TOO_LARGE)
    }
    const turn = async (lines: readonly string[]): Promise<MatchAnswer | undefined> => {
      const answer = await this.#inTurn({ rules, stripAnsi, lines })
      if (this.#ending.aborted) return undefined
      if ('failed' in answer) {
        for (const number of answer.rule === undefined ? rules.keys() : [answer.rule]) off(number, answer.failed)
        return undefined
      }
      for (const number of answer.invalid) off(number, INVALID)
      spentMs += answer.spentMs
      if (spentMs > START_MS) for (const number of rules.keys()) off(number, TOO_SLOW)
      return answer
    }
    return {
      match: async (lines, signal) => {
        let looked = 0
        while (looked < lines.length && !signal.aborted && rules.some((rule) => rule !== null)) {
          const answer = await turn(lines.slice(looked))
          if (answer === undefined) continue // with one rule less
          if (answer.found !== null) return looked + answer.found
          looked += answer.looked
        }
        return undefined
      },
    }
  }

  /** Jobs of all matchers, one after the other. */
  async #inTurn(job: MatchJob): Promise<MatchAnswer | Failure> {
    this.#waiting += 1
    try {
      return await this.#jobs.add(() => this.#liveThread().run(job))
    } catch (error) {
      // The machine has no room for a thread.
      return { failed: `cannot be matched: ${errorText(error)}`, rule: undefined }
    } finally {
      this.#waiting -= 1
      if (!this.#watchesIdle) void this.#endWhenIdle()
    }
  }

  #liveThread(): MatchThread {
    if (this.#thread === undefined || this.#thread.ended) this.#thread = new MatchThread(this.#clock)
    return this.#thread
  }

  /** One watch for all jobs: each would otherwise wait with a listener of its own. */
  async #endWhenIdle(): Promise<void> {
    this.#watchesIdle = true
    for (;;) {
      const thread = this.#thread
      const jobs = thread?.jobs
      await this.#clock.sleep(IDLE_MS, this.#ending)
      if (!this.#ending.aborted && (this.#waiting > 0 || thread !== this.#thread || thread?.jobs !== jobs)) continue
      this.#watchesIdle = false
      this.#thread = undefined
      thread?.end()
      return
    }
  }
}

/** A job that the thread has not survived, and by which rule, where that is known. */
interface Failure {
  readonly failed: string
  readonly rule: number | undefined
}

class MatchThread {
  readonly #clock: Clock
  readonly #worker: Worker
  readonly #progress = new Int32Array(new SharedArrayBuffer(8))
  /** How many jobs it has been given. */
  jobs = 0
  ended = false
  readonly #hasEnded = (): void => {
    this.ended = true
  }

  constructor(clock: Clock) {
    this.#clock = clock
    const folder = folderAbove(import.meta.dirname, THREAD)
    if (folder === undefined) throw new Error(`there is no built program above ${import.meta.dirname}`)
    const workerData = { progress: this.#progress.buffer }
    this.#worker = new Worker(join(folder, THREAD), { workerData, env: {}, resourceLimits: MEMORY, execArgv: [] })
    this.#worker.unref()
    this.#worker.once('exit', this.#hasEnded)
  }

  end(): void {
    this.ended = true
    void this.#worker.terminate()
  }

  async run(job: MatchJob): Promise<MatchAnswer | Failure> {
    this.jobs += 1
    const over = new AbortController()
    const answered = new Promise<MatchAnswer | Failure>((resolve) => {
      this.#worker.once('message', resolve)
      this.#worker.once('error', (error: Error) => {
        this.ended = true
        const isMemory = 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
        if (isMemory) resolve({ failed: 'needs too much memory', rule: Atomics.load(this.#progress, 1) })
        else resolve({ failed: `cannot be matched: ${error.message}`, rule: undefined })
      })
      // Listened to first is handled first: an error says more than the end that follows it.
      this.#worker.once('exit', () => resolve({ failed: 'cannot be matched: its thread has ended', rule: undefined }))
    })
    this.#worker.postMessage(job)
    try {
      return await Promise.race([answered, this.#overrun(over.signal)])
    } finally {
      over.abort()
      for (const event of ['message', 'error', 'exit']) this.#worker.removeAllListeners(event)
      this.#worker.on('error', () => {}) // of a thread that has been given up
      this.#worker.once('exit', this.#hasEnded)
    }
  }

  /** Resolves when one match takes too long, and ends the thread; never when `signal` aborts before. */
  async #overrun(signal: AbortSignal): Promise<Failure> {
    let before = -1
    while (!signal.aborted) {
      const begun = Atomics.load(this.#progress, 0)
      if (begun === before && begun > 0) {
        this.end()
        return { failed: TOO_SLOW, rule: Atomics.load(this.#progress, 1) }
      }
      before = begun
      await this.#clock.sleep(MATCH_MS, signal)
    }
    return new Promise(() => {})
  }
}
