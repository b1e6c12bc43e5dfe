import { Cron } from 'croner'
import { fieldError } from '../../shared/kernel/errors.ts'
import { type IsoTime, isoTime } from '../../shared/kernel/time.ts'
import { type CronText, readCron } from './cron-text.ts'
import { type DueTimes, dueTimesOf } from './cron-times.ts'

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
  const nextMs = hasSeconds(cron)
    ? new Cron(cron, { paused: true, timezone: timeZone }).nextRun(new Date(afterMs))?.getTime()
    : dueTimesOf(textOf(cron), timeZone).nextAfter(afterMs)
  return nextMs == null ? null : isoTime(nextMs)
}

/** Whether this is a cron line of so many fields (five, or six with seconds first) that some time fits. */
export function isCronLine(cron: string, fields: readonly (5 | 6)[] = [5]): boolean {
  return (fields.includes(6) && hasSeconds(cron) ? problemWithSeconds(cron) : cronProblem(cron)) === undefined
}

/**
 * Refuses with VALIDATION_ERROR of `field` what is no line of five fields, a line that no time fits, and one whose times come closer
 * together than `leastMs`; answers its times. The time zone has been checked.
 */
export function checkCron(
  { cron, timeZone }: CronTimes,
  nowMs: number,
  { leastMs = 0, field = 'body.cron' }: { readonly leastMs?: number; readonly field?: string } = {},
): DueTimes {
  const problem = cronProblem(cron)
  if (problem !== undefined) throw fieldError(field, `${CRON_LINE}: ${problem}`.slice(0, 300))
  const times = dueTimesOf(textOf(cron), timeZone)
  if (leastMs === 0) return times
  let last = times.nextAfter(nowMs)
  for (let count = 1; last !== null && count < TIMES; count++) {
    const next = times.nextAfter(last)
    if (next !== null && next - last < leastMs) {
      throw fieldError(field, `must leave at least ${leastMs / 60_000} minutes between two times`)
    }
    last = next
  }
  return times
}

function textOf(cron: string): CronText {
  const read = readCron(cron)
  if ('problem' in read) throw new Error(`'${cron}' is no cron line: ${read.problem}`)
  return read
}

/** What is wrong with a cron line of five fields: it cannot be read, or no time fits it. `undefined`: nothing. */
export function cronProblem(cron: string): string | undefined {
  const read = readCron(cron)
  if ('problem' in read) return read.problem
  // Without a year a line fits times for ever or never, so that it does not matter from when on.
  return dueTimesOf(read, 'UTC').nextAfter(0) === null ? 'no time fits it' : undefined
}

/** Lines with seconds are those of plugins; at changes of the clock they follow croner's rule. */
function hasSeconds(cron: string): boolean {
  return cron.trim().split(/\s+/).length === 6
}

function problemWithSeconds(cron: string): string | undefined {
  try {
    return new Cron(cron, { paused: true }).nextRun(new Date(0)) === null ? 'no time fits it' : undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
