import { Cron } from 'croner'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'

/** Runs do not come closer together. */
const LEAST_MS = 5 * 60_000
/** How many of the next times are looked at for that. */
const TIMES = 60
const OVERDUE_LEAST_MS = 15 * 60_000
const DAY_MS = 24 * 3600_000

/** When a policy runs. */
interface Times {
  readonly cron: string
  readonly timeZone: string
}

/** The next time of a cron expression of five fields after `afterMs`, in the time zone; `null` when there is none. */
export function nextRun({ cron, timeZone }: Times, afterMs: number): IsoTime | null {
  const next = parsed({ cron, timeZone }).nextRun(new Date(afterMs))
  return next === null ? null : isoTime(next.getTime())
}

function parsed({ cron, timeZone }: Times): Cron {
  return new Cron(cron, { paused: true, timezone: timeZone, mode: '5-part' })
}

/** Refuses an expression or a time zone that nothing can be made of, one that never comes, and one that comes every minute. */
export function checkTimes({ cron, timeZone }: Times, nowMs: number): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone })
  } catch {
    throw fieldError('body.timeZone', 'must be a name of the IANA time zone database such as Europe/Berlin')
  }
  let times: number[]
  try {
    times = parsed({ cron, timeZone })
      .nextRuns(TIMES, new Date(nowMs))
      .map((time) => time.getTime())
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    const message = `must be a cron expression of five fields such as "0 4 * * *": ${why}`
    throw fieldError('body.cron', message.slice(0, 300))
  }
  if (times.length === 0) throw fieldError('body.cron', 'names no time that is still to come')
  const isTooOften = times.some((time, index) => index > 0 && time - (times[index - 1] ?? 0) < LEAST_MS)
  if (isTooOften) throw fieldError('body.cron', 'must leave at least five minutes between two runs')
}

/** From when on a backup that is due since then is overdue: when the next run comes without it, at the latest after a day. */
export function overdueAtMs(times: Times, dueMs: number): number {
  const next = nextRun(times, dueMs)
  const interval = next === null ? DAY_MS : Date.parse(next) - dueMs
  return dueMs + Math.min(DAY_MS, Math.max(OVERDUE_LEAST_MS, interval))
}
