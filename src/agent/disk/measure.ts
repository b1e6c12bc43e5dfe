import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { folderAbove } from '../../shared/platform/program-folder.ts'
import type { MeasureAnswer, MeasureJob } from './measure-thread.ts'

/**
 * The thread's main file, from the folder that the program is built into: one file for all of it, because it is started every minute and
 * Node reads each module of the newer kind by several errands of other threads.
 */
const THREAD = join('bin', 'threads', 'measure-thread.js')
/** The thread ends when nothing was to be counted for so long. */
const IDLE_MS = 5000
const MEMORY = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 } as const

/** What was counted below a folder, and the processor time that it has cost. */
export interface Counted {
  readonly bytes: number
  readonly cpuMs: number
}

/** A count that somebody waits for. */
interface Task {
  readonly job: MeasureJob
  readonly signal: AbortSignal
  readonly resolve: (counted: Counted) => void
  readonly reject: (reason: unknown) => void
  /** It was asked for together with others when the thread ended. */
  isAlone: boolean
}

/** Counts folders in a thread, one after the other; those that wait together are handed to it together. */
export class FolderCounter {
  #waiting: Task[] = []
  #isCounting = false
  #worker: Worker | undefined
  #idle: NodeJS.Timeout | undefined

  /** Rejects when the folder cannot be counted; aborted, with the reason of the signal, in the middle of a folder as well. */
  async count(job: MeasureJob, signal: AbortSignal): Promise<Counted> {
    signal.throwIfAborted()
    return await new Promise<Counted>((resolve, reject) => {
      this.#waiting.push({ job, signal, resolve, reject, isAlone: false })
      if (!this.#isCounting) void this.#countWaiting()
    })
  }

  async #countWaiting(): Promise<void> {
    this.#isCounting = true
    clearTimeout(this.#idle)
    for (let tasks = this.#next(); tasks.length > 0; tasks = this.#next()) {
      const unanswered = await this.#countAll(tasks)
      // Whoever has ended the thread is found by having each counted by itself.
      for (const task of unanswered) task.isAlone = true
      this.#waiting.unshift(...unanswered)
    }
    this.#idle = setTimeout(() => this.#end(), IDLE_MS).unref()
    this.#isCounting = false
  }

  /** Those that are counted next. What was called off meanwhile is not. */
  #next(): Task[] {
    for (const { signal, reject } of this.#waiting) if (signal.aborted) reject(signal.reason)
    const waiting = this.#waiting.filter(({ signal }) => !signal.aborted)
    const isAlone = waiting[0]?.isAlone === true
    const tasks = isAlone ? waiting.slice(0, 1) : waiting.filter((one) => !one.isAlone)
    this.#waiting = waiting.filter((one) => !tasks.includes(one))
    return tasks
  }

  /** Settles the tasks; answers those that are left when the thread has ended under several. */
  async #countAll(tasks: readonly Task[]): Promise<Task[]> {
    const left = [...tasks]
    const take = (answers: readonly MeasureAnswer[]): void => {
      for (const answer of answers) {
        const task = left.shift()
        if ('problem' in answer) task?.reject(new Error(answer.problem))
        else task?.resolve(answer)
      }
    }
    try {
      const worker = this.#live()
      const answered = answersOf(worker, { tasks, left, take })
      worker.postMessage(tasks.map(({ job }) => job))
      await answered
    } catch (error) {
      this.#end()
      const [first] = left
      if (tasks.length > 1 && first !== undefined && !first.signal.aborted) return left
      for (const task of left) task.reject(task.signal.aborted ? task.signal.reason : error)
    }
    return []
  }

  #live(): Worker {
    if (this.#worker !== undefined) return this.#worker
    const folder = folderAbove(import.meta.dirname, THREAD)
    if (folder === undefined) throw new Error(`the program has no ${THREAD}; build it again`)
    const worker = new Worker(join(folder, THREAD), { env: {}, resourceLimits: MEMORY, execArgv: [] })
    worker.unref()
    this.#worker = worker
    return worker
  }

  #end(): void {
    void this.#worker?.terminate()
    this.#worker = undefined
  }
}

/** Resolves when nothing is left; rejects when the thread ends before that, or when a task is called off. */
function answersOf(
  worker: Worker,
  { tasks, left, take }: { tasks: readonly Task[]; left: readonly Task[]; take: (answers: MeasureAnswer[]) => void },
): Promise<void> {
  let over = (): void => undefined
  return new Promise<void>((resolve, reject) => {
    const answered = (answers: MeasureAnswer[]): void => {
      take(answers)
      if (left.length === 0) resolve()
    }
    const gone = (): void => reject(new Error('the thread that counts has ended'))
    const aborted = (): void => reject(new Error('a count was called off'))
    const signals = new Set(tasks.map(({ signal }) => signal))
    worker.on('message', answered)
    worker.once('error', reject)
    worker.once('exit', gone)
    for (const signal of signals) signal.addEventListener('abort', aborted, { once: true })
    over = () => {
      worker.off('message', answered).off('error', reject).off('exit', gone)
      for (const signal of signals) signal.removeEventListener('abort', aborted)
    }
  }).finally(() => over())
}
