import { Cron } from 'croner'
import type { CronText } from './cron-text.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** Clocks are changed at full quarters of an hour. */
const QUARTER = HOUR / 4

/** The times of a cron line, one after the other. */
export interface DueTimes {
  /** The first one after an instant, both as milliseconds since the epoch; `null`: there is none. */
  nextAfter(afterMs: number): number | null
}

/**
 * Finds the first time after an instant (milliseconds since the epoch) that a cron text names on the clocks of a time zone;
 * `null`: there is none. croner says which wall-clock times the text names, and this rule what becomes of them where clocks are
 * changed:
 *
 * - Set times (neither minute nor hour begins with `*`): a time that is left out is due at the moment of the change, once
 *   however many were left out; one that comes twice is due the first time.
 * - Repeating ones follow the clock as it passes: what it leaves out is left out, what it shows twice is due twice.
 */
export function dueTimesOf({ pattern, isRepeating }: CronText, timezone: string): DueTimes {
  const cron = new Cron(pattern, { paused: true, mode: '5-part', utcOffset: 0 })
  const zone = zoneOf(timezone)
  const known = new Map<number, number | null>()
  const following = (wallMs: number): number | null => {
    const next = known.get(wallMs) ?? cron.nextRun(new Date(wallMs))?.getTime() ?? null
    known.set(wallMs, next)
    return next
  }
  const nextAfter = (afterMs: number): number | null => {
    // Near a change the clocks may show times again that they have shown before.
    const change = Math.abs(zone.offsetAt(afterMs + DAY) - zone.offsetAt(afterMs - DAY))
    let best: number | null = null
    let wall = following(zone.wallOf(afterMs) - change)
    for (; wall !== null; wall = following(wall)) {
      const instants = zone.instantsOf(wall)
      const first = instants[0] ?? zone.changeAt(wall)
      // Later times on the clock come no earlier than this.
      if (best !== null && first >= best) break
      const due = (isRepeating ? instants : [first]).find((ms) => ms > afterMs)
      if (due !== undefined && (best === null || due < best)) best = due
    }
    return best
  }
  return { nextAfter }
}

/** The instant on the clocks of a time zone, with their offset: `2026-03-29T03:00:00+02:00`. */
export function localTime(ms: number, timezone: string): string {
  const { offsetAt } = zoneOf(timezone)
  const offset = offsetAt(ms)
  const minutes = Math.round(Math.abs(offset) / 60_000)
  const two = (value: number): string => String(value).padStart(2, '0')
  const text = new Date(ms + offset).toISOString().slice(0, 19)
  return `${text}${offset < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`
}

interface Zone {
  /** What the zone's clocks are ahead of UTC at an instant. */
  offsetAt(ms: number): number
  /** What the clocks show at an instant, as if it were UTC. */
  wallOf(ms: number): number
  /** When the clocks show that: usually once, never where a change leaves it out, twice where it comes again; in order. */
  instantsOf(wallMs: number): readonly number[]
  /** The moment of the change that leaves a time out. */
  changeAt(wallMs: number): number
}

function zoneOf(timezone: string): Zone {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: timezone,
    hourCycle: 'h23',
    ...{ year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' },
  })
  /** By the quarter of an hour: asking for one costs more than all the rest. */
  const known = new Map<number, number>()
  const offsetAt = (ms: number): number => {
    const quarter = Math.floor(ms / QUARTER)
    const offset = known.get(quarter) ?? ask(quarter * QUARTER)
    known.set(quarter, offset)
    return offset
  }
  const ask = (ms: number): number => {
    const parts = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]))
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts
    return Date.UTC(year, month - 1, day, hour, minute, second) - ms
  }
  /** The offsets before and after any change near a time on the clock. */
  const around = (wallMs: number): readonly [number, number] => [offsetAt(wallMs - DAY), offsetAt(wallMs + DAY)]
  return {
    offsetAt,
    wallOf: (ms) => ms + offsetAt(ms),
    instantsOf: (wallMs) => {
      const instants = [...new Set(around(wallMs))].map((offset) => wallMs - offset)
      return instants.filter((ms) => ms + offsetAt(ms) === wallMs).sort((a, b) => a - b)
    },
    changeAt: (wallMs) => {
      const [before] = around(wallMs)
      let [low, high] = [Math.floor((wallMs - DAY) / QUARTER), Math.ceil((wallMs + DAY) / QUARTER)]
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2)
        if (offsetAt(middle * QUARTER) === before) low = middle
        else high = middle
      }
      return high * QUARTER
    },
  }
}
