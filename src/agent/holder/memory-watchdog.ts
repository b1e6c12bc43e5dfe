import { statfsSync } from 'node:fs'
import type { Clock } from '../../shared/kernel/time.ts'
import { enforcedMemoryMb } from './memory-limit.ts'
import { processMemory } from './proc.ts'
import { type RunScope, runPids } from './run-processes.ts'

/** How often is looked at a run that is near its limit; each look goes over the processes of the machine. */
const NEAR_MS = 5000
/** And at one that uses so much of it at most. */
const FURTHER: readonly { readonly share: number; readonly everyMs: number }[] = [
  { share: 0.25, everyMs: 15_000 },
  { share: 0.5, everyMs: 10_000 },
]
const MIB = 1024 * 1024
const TMPFS = 0x01021994

/** Resolves when the run uses more memory than it may, measured every 5 s near the limit; never when `signal` aborts first. */
export async function watchMemory(
  scope: RunScope,
  memoryMb: number,
  at: { clock: Clock; signal: AbortSignal },
): Promise<void> {
  const limit = enforcedMemoryMb(memoryMb) * MIB
  for (let pauseMs = NEAR_MS; !at.signal.aborted; ) {
    await at.clock.sleep(pauseMs, at.signal)
    if (at.signal.aborted) break
    const used = usedMemory(scope)
    if (used > limit) return
    pauseMs = FURTHER.find(({ share }) => used <= limit * share)?.everyMs ?? NEAR_MS
  }
  await new Promise<never>(() => undefined)
}

/** What the processes have for themselves, and what they share or keep in their private folders, whichever is more. */
function usedMemory(scope: RunScope): number {
  const pids = runPids(scope)
  let own = 0
  let shared = 0
  for (const pid of pids) {
    const memory = processMemory(pid)
    own += memory.own
    shared += memory.shared
  }
  return own + Math.max(shared, scope.isolation.mounts ? scratchBytes(pids) : 0)
}

/** What is in the private folders of a run; they are in one room. */
function scratchBytes(pids: readonly number[]): number {
  for (const pid of pids) {
    try {
      const { type, bsize, blocks, bfree } = statfsSync(`/proc/${pid}/root/tmp`)
      return type === TMPFS ? (blocks - bfree) * bsize : 0
    } catch {
      // it ended in between; the next one sees the same folders
    }
  }
  return 0
}
