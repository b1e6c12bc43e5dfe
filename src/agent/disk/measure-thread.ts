import { parentPort } from 'node:worker_threads'
import { systemClock } from '../../shared/kernel/clock.ts'
import { treeBytes } from '../files/tree.ts'
import { threadCpuSeconds } from '../holder/proc.ts'

// The thread that counts the files of servers: a million of them would hold up all else. It is terminated when nobody waits.

/** A folder to count. */
export interface MeasureJob {
  readonly folder: string
  /** From here on it does not matter how much more there is. */
  readonly enoughBytes: number
}

/** What was counted, and what that has cost. */
export type MeasureAnswer = { readonly bytes: number; readonly cpuMs: number } | { readonly problem: string }

/** Answers are sent together, those of small folders at least: each time the agent is woken up. */
const TOGETHER_MS = 500

parentPort?.on('message', (jobs: readonly MeasureJob[]) => {
  void countAll(jobs)
})

/** Sends lists of answers, in the order of the jobs. */
async function countAll(jobs: readonly MeasureJob[]): Promise<void> {
  let answers: MeasureAnswer[] = []
  let sendAt = systemClock.monotonicMs() + TOGETHER_MS
  for (const [at, job] of jobs.entries()) {
    answers.push(await count(job))
    if (at < jobs.length - 1 && systemClock.monotonicMs() < sendAt) continue
    parentPort?.postMessage(answers)
    answers = []
    sendAt = systemClock.monotonicMs() + TOGETHER_MS
  }
}

async function count({ folder, enoughBytes }: MeasureJob): Promise<MeasureAnswer> {
  const before = threadCpuSeconds()
  try {
    const bytes = await treeBytes(folder, { signal: new AbortController().signal, enoughBytes })
    return { bytes, cpuMs: (threadCpuSeconds() - before) * 1000 }
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}
