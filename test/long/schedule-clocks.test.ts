// @module-tag long
import { afterAll, beforeAll, expect, test } from 'vitest'
import { previewTask } from '../../src/shared/api/schedules.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import { Stage } from '../daemon/servers/stage.ts'
import { quickClock } from '../daemon/webhooks/receiver.ts'

const QUARTER = 15 * 60_000
const HOUR = 4 * QUARTER
const [FROM, TO] = [Date.UTC(2026, 0, 1), Date.UTC(2027, 0, 1)]

/** What its clocks do in 2026: at which instant, and what they show before and after. */
const ZONES = {
  'Europe/Berlin': ['2026-03-29T01:00Z 02:00 03:00', '2026-10-25T01:00Z 03:00 02:00'],
  'America/New_York': ['2026-03-08T07:00Z 02:00 03:00', '2026-11-01T06:00Z 02:00 01:00'],
  // At midnight.
  'America/Santiago': ['2026-04-05T03:00Z 00:00 23:00', '2026-09-06T04:00Z 00:00 01:00'],
  // By half an hour.
  'Australia/Lord_Howe': ['2026-04-04T15:00Z 02:00 01:30', '2026-10-03T15:30Z 02:00 02:30'],
  // First back, for Ramadan.
  'Africa/Casablanca': ['2026-02-15T02:00Z 03:00 02:00', '2026-03-22T02:00Z 02:00 03:00'],
} as const
type Zone = keyof typeof ZONES
const NAMES = Object.keys(ZONES) as Zone[]

interface Rule {
  readonly cron: string
  /** Minute or hour begins with a star. */
  readonly repeats: boolean
  /** Whether the text names what the clocks show, as the parts of a UTC date. */
  readonly names: (wall: Date) => boolean
}

const at = (wall: Date, hours: readonly number[], minutes: readonly number[]): boolean =>
  hours.includes(wall.getUTCHours()) && minutes.includes(wall.getUTCMinutes())

const RULES: readonly Rule[] = [
  { cron: '30 2 * * *', repeats: false, names: (wall) => at(wall, [2], [30]) },
  { cron: '0 0 * * *', repeats: false, names: (wall) => at(wall, [0], [0]) },
  { cron: '15,45 1,2,23 * * *', repeats: false, names: (wall) => at(wall, [1, 2, 23], [15, 45]) },
  { cron: '0 2 * * sun', repeats: false, names: (wall) => wall.getUTCDay() === 0 && at(wall, [2], [0]) },
  { cron: '*/15 * * * *', repeats: true, names: () => true },
  { cron: '45 * * * *', repeats: true, names: (wall) => wall.getUTCMinutes() === 45 },
  { cron: '*/30 2 * * *', repeats: true, names: (wall) => at(wall, [2], [0, 30]) },
]

let stage: Stage
let server: Server
const clock = quickClock()
beforeAll(async () => {
  stage = await Stage.open({ clock })
  server = await stage.create(await stage.template(), await stage.node())
})
afterAll(() => stage.close())

async function preview(schedule: string, timezone: string, after: number, count = 100) {
  const query = { schedule, timezone, after: new Date(after).toISOString(), count }
  return (await stage.admin.call(previewTask, { params: { serverId: server.id }, query: query as never })).runs
}

/** The times of a text after `from` and up to `to`, as the API says them. */
async function timesOf(cron: string, timezone: string, { from, to }: { from: number; to: number }): Promise<number[]> {
  const times: number[] = []
  for (let after = from; ; ) {
    const page = (await preview(cron, timezone, after)).map((run) => Date.parse(run.at))
    const within = page.filter((ms) => ms <= to)
    times.push(...within)
    if (within.length < page.length || page.length === 0) return times
    after = page.at(-1) ?? to
  }
}

/** What the clocks of a zone show at each quarter of an hour, as the runtime knows it. */
function wallsOf(timezone: string): { readonly ms: number; readonly wall: number }[] {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone: timezone, dateStyle: 'short', timeStyle: 'medium' })
  const walls: { ms: number; wall: number }[] = []
  for (let ms = FROM - 24 * HOUR; ms <= TO + 24 * HOUR; ms += QUARTER) {
    walls.push({ ms, wall: Date.parse(`${format.format(ms).replace(' ', 'T')}Z`) })
  }
  return walls
}

/** The times by the rule as the page says it, found by going through the year. */
function expected({ names, repeats }: Rule, walls: ReturnType<typeof wallsOf>): number[] {
  if (repeats) return walls.filter(({ wall }) => names(new Date(wall))).map(({ ms }) => ms)
  const due = new Set<number>()
  let shown = walls[0]?.wall ?? 0
  for (const { ms, wall } of walls) {
    // What was left out on the way here is due now; what was shown before is not due again.
    for (; shown < wall; shown += QUARTER) if (names(new Date(shown + QUARTER))) due.add(ms)
  }
  return [...due]
}

test.each(NAMES)('every change of a year in %s is as the rule says', async (zone) => {
  const walls = wallsOf(zone)
  const changes = walls.filter(({ wall }, at) => at > 0 && wall - (walls[at - 1]?.wall ?? 0) !== QUARTER)
  expect(changes.map(({ ms }) => ms)).toEqual(ZONES[zone].map((change) => Date.parse(change.split(' ')[0] ?? '')))
  for (const rule of RULES) {
    const all = expected(rule, walls)
    const spans = rule.repeats
      ? changes.map(({ ms }) => ({ from: ms - 26 * HOUR, to: ms + 26 * HOUR }))
      : [{ from: FROM, to: TO }]
    for (const span of spans) {
      const found = await timesOf(rule.cron, zone, span)
      const wanted = all.filter((ms) => ms > span.from && ms <= span.to)
      expect([rule.cron, found.map(iso)]).toEqual([rule.cron, wanted.map(iso)])
    }
  }
})

const iso = (ms: number): string => new Date(ms).toISOString()

test('a set time that is left out is due at the change, once, and one that comes twice the first time', async () => {
  const local = async (cron: string, zone: Zone, after: string, count: number) =>
    (await preview(cron, zone, Date.parse(after), count)).map((run) => run.local)
  expect(await local('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', 2)).toEqual([
    '2026-03-29T03:00:00+02:00',
    '2026-03-30T02:30:00+02:00',
  ])
  expect(await local('0,15,30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', 2)).toEqual([
    '2026-03-29T03:00:00+02:00',
    '2026-03-30T02:00:00+02:00',
  ])
  expect(await local('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', 2)).toEqual([
    '2026-10-25T02:30:00+02:00',
    '2026-10-26T02:30:00+01:00',
  ])
  expect(await local('0 0 * * *', 'America/Santiago', '2026-09-05T12:00Z', 2)).toEqual([
    '2026-09-06T01:00:00-03:00',
    '2026-09-07T00:00:00-03:00',
  ])
  expect(await local('15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T12:00Z', 1)).toEqual([
    '2026-10-04T02:30:00+11:00',
  ])
  expect(await local('*/30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', 4)).toEqual([
    '2026-10-25T02:00:00+02:00',
    '2026-10-25T02:30:00+02:00',
    '2026-10-25T02:00:00+01:00',
    '2026-10-25T02:30:00+01:00',
  ])
})
