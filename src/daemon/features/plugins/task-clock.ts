import { Cron } from 'croner'
import { type Clock, type IsoTime, isoTime } from '../../../shared/kernel/time.ts'

/** A clock may be set and a zone changed while a task waits: no longer than this until it is looked at again. */
const LOOK_AGAIN_MS = 60_000

/** The next time of a cron pattern after `afterMs`, in the time zone; `null` when there is none. */
export function nextRun(pattern: string, afterMs: number, timezone: string): IsoTime | null {
  const next = new Cron(pattern, { paused: true, timezone }).nextRun(new Date(afterMs))
  return next === null ? null : isoTime(next.getTime())
}

/**
 * Calls `work` at each time of the pattern until `signal` aborts. Times that pass while it works, or while nobody runs this,
 * are left out. `work` must not fail.
 */
export async function runAtTimes(
  pattern: string,
  at: { clock: Clock; timezone: () => string; signal: AbortSignal },
  work: () => Promise<void>,
): Promise<void> {
  const { clock, signal } = at
  let afterMs = clock.nowMs()
  while (!signal.aborted) {
    const next = nextRun(pattern, afterMs, at.timezone())
    if (next === null) return
    const waitMs = Date.parse(next) - clock.nowMs()
    if (waitMs > 0) {
      await clock.sleep(Math.min(waitMs, LOOK_AGAIN_MS), signal)
      continue
    }
    await work()
    afterMs = Math.max(clock.nowMs(), Date.parse(next))
  }
}
