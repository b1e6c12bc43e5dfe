import { Cron } from 'croner'
import { fieldError } from '../../shared/kernel/errors.ts'
import { type IsoTime, isoTime } from '../../shared/kernel/time.ts'

/** When something comes again and again: a cron line, and the time zone that its fields are read in. */
export interface CronTimes {
  readonly cron: string
  readonly timeZone: string
}

/** What every refusal of a line begins with. */
export const CRON_LINE = 'must be a cron line of five fields such as 30 3 * * *'

/** How many of the next times are looked at for their distance. */
const TIMES = 60

/** The first time after `afterMs`; `null` when there is none. Throws for what is no line, which checks refuse before it is kept. */
export function nextTime({ cron, timeZone }: CronTimes, afterMs: number): IsoTime | null {
  const next = new Cron(cron, { paused: true, timezone: timeZone }).nextRun(new Date(afterMs))
  return next === null ? null : isoTime(next.getTime())
}

/** Whether this is a cron line of so many fields (five, or six with seconds first) that some time fits. */
export function isCronLine(cron: string, fields: readonly (5 | 6)[] = [5]): boolean {
  return problemOf(cron, fields) === undefined
}

/**
 * Refuses with VALIDATION_ERROR of `body.cron` what is no line of five fields, a line that no time fits, and one whose times come closer
 * together than `leastMs`. The time zone has been checked.
 */
export function checkCron({ cron, timeZone }: CronTimes, nowMs: number, leastMs = 0): void {
  const problem = problemOf(cron, [5])
  if (problem !== undefined) throw fieldError('body.cron', `${CRON_LINE}: ${problem}`.slice(0, 300))
  const times = new Cron(cron, { paused: true, timezone: timeZone }).nextRuns(TIMES, new Date(nowMs))
  const isTooOften = times.some((time, index) => time.getTime() - (times[index - 1]?.getTime() ?? 0) < leastMs)
  if (!isTooOften) return
  throw fieldError('body.cron', `must leave at least ${leastMs / 60_000} minutes between two times`)
}

function problemOf(cron: string, fields: readonly number[]): string | undefined {
  const count = cron.trim().split(/\s+/).length
  // The library also takes nicknames such as @daily and single dates, which are no lines.
  if (!fields.includes(count)) return `it has ${count} of them`
  try {
    // Without a year a line fits times for ever or never, so that it does not matter from when on.
    return new Cron(cron, { paused: true }).nextRun(new Date(0)) === null ? 'no time fits it' : undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
