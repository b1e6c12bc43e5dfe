import { Cron } from 'croner'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'

const LEAST_MS = 15 * 60_000
const DAY_MS = 24 * 3600_000

/** The next time of a cron expression after `afterMs`, in the time zone; `null` when there is none. */
export function nextRun(cron: string, timeZone: string, afterMs: number): IsoTime | null {
  const next = new Cron(cron, { paused: true, timezone: timeZone }).nextRun(new Date(afterMs))
  return next === null ? null : isoTime(next.getTime())
}

/** Refuses an expression or a time zone that nothing can be made of, and one that never comes. */
export function checkTimes(cron: string, timeZone: string, nowMs: number): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone })
  } catch {
    throw fieldError('body.timeZone', 'must be a name of the IANA time zone database such as Europe/Berlin')
  }
  let next: IsoTime | null
  try {
    next = nextRun(cron, timeZone, nowMs)
  } catch (error) {
    throw fieldError('body.cron', `is no cron expression: ${error instanceof Error ? error.message : error}`.slice(0, 300))
  }
  if (next === null) throw fieldError('body.cron', 'names no time that is still to come')
}

/** From when on a backup that is due since then is overdue: when the next run has come without it. */
export function overdueAtMs({ cron, timeZone }: { readonly cron: string; readonly timeZone: string }, dueMs: number): number {
  const next = nextRun(cron, timeZone, dueMs)
  const interval = next === null ? DAY_MS : Date.parse(next) - dueMs
  return dueMs + Math.max(LEAST_MS, interval)
}
