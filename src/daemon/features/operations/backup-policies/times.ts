import { type CronTimes, checkCron, nextTime } from '../../../core/cron.ts'

/** Runs do not come closer together. */
const LEAST_MS = 5 * 60_000
const OVERDUE_LEAST_MS = 15 * 60_000
const DAY_MS = 24 * 3600_000

/** Refuses what is no cron line, one that never comes, and one that comes every minute. */
export function checkTimes(times: CronTimes, nowMs: number): void {
  checkCron(times, nowMs, { leastMs: LEAST_MS })
}

/** From when on a backup that is due since then is overdue: when the next run comes without it, at the latest after a day. */
export function overdueAtMs(times: CronTimes, dueMs: number): number {
  const next = nextTime(times, dueMs)
  const interval = next === null ? DAY_MS : Date.parse(next) - dueMs
  return dueMs + Math.min(DAY_MS, Math.max(OVERDUE_LEAST_MS, interval))
}
