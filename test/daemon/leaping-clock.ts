import { type Clock, systemClock } from '../../src/shared/kernel/time.ts'

/** The machine's clock, which a test can put forward: sleepers wake when it has passed their time, others sleep on. */
export interface LeapingClock extends Clock {
  leap(ms: number): void
  /** How many are in a sleep now: of this length, or of any. */
  sleepers(ms?: number): number
}

export function leapingClock(): LeapingClock {
  let ahead = 0
  const monotonicMs = (): number => systemClock.monotonicMs() + ahead
  const sleeping = new Set<{ readonly ms: number; readonly dueMs: number; readonly leapt: AbortController }>()
  return {
    nowMs: () => systemClock.nowMs() + ahead,
    monotonicMs,
    sleep: async (ms, signal) => {
      const dueMs = monotonicMs() + ms
      for (let left = ms; left > 0 && signal?.aborted !== true; left = dueMs - monotonicMs()) {
        const leapt = new AbortController()
        const sleeper = { ms, dueMs, leapt }
        sleeping.add(sleeper)
        await systemClock.sleep(left, signal === undefined ? leapt.signal : AbortSignal.any([signal, leapt.signal]))
        sleeping.delete(sleeper)
      }
    },
    leap: (ms) => {
      ahead += ms
      for (const { leapt } of [...sleeping].sort((a, b) => a.dueMs - b.dueMs)) leapt.abort()
    },
    sleepers: (ms) => [...sleeping].filter((sleeper) => ms === undefined || sleeper.ms === ms).length,
  }
}
