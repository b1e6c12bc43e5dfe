import { parentPort } from 'node:worker_threads'
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

parentPort?.on('message', (job: MeasureJob) => {
  void count(job).then((answer) => parentPort?.postMessage(answer))
})

async function count({ folder, enoughBytes }: MeasureJob): Promise<MeasureAnswer> {
  const before = threadCpuSeconds()
  try {
    const bytes = await treeBytes(folder, { signal: new AbortController().signal, enoughBytes })
    return { bytes, cpuMs: (threadCpuSeconds() - before) * 1000 }
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}
