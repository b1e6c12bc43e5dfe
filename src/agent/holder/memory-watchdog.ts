import { statfsSync } from 'node:fs'
import type { Clock } from '../../shared/kernel/time.ts'
import { enforcedMemoryMb } from './memory-limit.ts'
import { processMemory } from './proc.ts'
import { type RunScope, runPids } from './run-processes.ts'

const EVERY_MS = 5000
const MIB = 1024 * 1024
const TMPFS = 0x01021994

/** Resolves when the run uses more memory than it may, measured every 5 s; never when `signal` aborts first. */
export async function watchMemory(
  scope: RunScope,
  memoryMb: number,
  at: { clock: Clock; signal: AbortSignal },
): Promise<void> {
  const limit = enforcedMemoryMb(memoryMb) * MIB
  while (!at.signal.aborted) {
    await at.clock.sleep(EVERY_MS, at.signal)
    if (usedMemory(scope) > limit && !at.signal.aborted) return
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
