import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { folderAbove } from '../../shared/platform/program-folder.ts'
import { SerialQueue } from '../server/serial-queue.ts'
import type { MeasureAnswer, MeasureJob } from './measure-thread.ts'

/** The thread's main file, from the folder that the program is built into. */
const THREAD = join('src', 'agent', 'disk', 'measure-thread.js')
/** The thread ends when nothing was to be counted for so long. */
const IDLE_MS = 5000
const MEMORY = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 } as const

/** What was counted below a folder, and the processor time that it has cost. */
export interface Counted {
  readonly bytes: number
  readonly cpuMs: number
}

/** Counts folders in a thread, one after the other. */
export class FolderCounter {
  readonly #jobs = new SerialQueue()
  #worker: Worker | undefined
  #idle: NodeJS.Timeout | undefined

  /** Rejects when the folder cannot be counted; aborted, with the reason of the signal, in the middle of a folder as well. */
  async count(job: MeasureJob, signal: AbortSignal): Promise<Counted> {
    return await this.#jobs.add(async () => {
      signal.throwIfAborted()
      clearTimeout(this.#idle)
      const worker = this.#live()
      try {
        const answer = await answerOf(worker, job, signal)
        if ('problem' in answer) throw new Error(answer.problem)
        return answer
      } catch (error) {
        this.#end()
        throw error
      } finally {
        this.#idle = setTimeout(() => this.#end(), IDLE_MS).unref()
      }
    })
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

function answerOf(worker: Worker, job: MeasureJob, signal: AbortSignal): Promise<MeasureAnswer> {
  let over = (): void => undefined
  return new Promise<MeasureAnswer>((resolve, reject) => {
    const gone = (): void => reject(new Error('the thread that counts has ended'))
    const aborted = (): void => reject(signal.reason)
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', gone)
    signal.addEventListener('abort', aborted, { once: true })
    over = () => {
      worker.off('message', resolve).off('error', reject).off('exit', gone)
      signal.removeEventListener('abort', aborted)
    }
    worker.postMessage(job)
  }).finally(() => over())
}
