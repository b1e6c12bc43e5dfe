import type { Clock } from '../../shared/time.ts'
import { processFacts } from './proc.ts'
import { type RunScope, runPids } from './run-processes.ts'

const EVERY_MS = 5000
/** Shared pages count for each process, so a run may show a little more than it uses. */
const TOLERANCE = 1.2

/** Resolves when the run uses more than 120 % of its memory, measured every 5 s; never when `signal` aborts first. */
export async function watchMemory(
  scope: RunScope,
  memoryMb: number,
  at: { clock: Clock; signal: AbortSignal },
): Promise<void> {
  const limit = memoryMb * 1024 * 1024 * TOLERANCE
  while (!at.signal.aborted) {
    await at.clock.sleep(EVERY_MS, at.signal)
    let used = 0
    for (const pid of runPids(scope)) used += processFacts(pid)?.rssBytes ?? 0
    if (used > limit && !at.signal.aborted) return
  }
  await new Promise<never>(() => undefined)
}
