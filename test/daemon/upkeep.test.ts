import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createLocation } from '../../src/shared/api/locations.ts'
import { getDbStatus } from '../../src/shared/api/overview.ts'
import { type Clock, systemClock } from '../../src/shared/kernel/time.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { ConsoleReader } from './console-reader.ts'
import { eventually } from './gateway-stage.ts'

let dataDir: string
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'panel-upkeep-'))
})
afterAll(() => rm(dataDir, { recursive: true }))

/** The machine's clock, so many hours ahead. */
const ahead = (hours: number): Clock => ({
  ...systemClock,
  nowMs: () => systemClock.nowMs() + hours * 3_600_000,
})

async function add(panel: TestPanel): Promise<{ status: number; replayed: string | null }> {
  const headers = {
    authorization: `Bearer ${panel.adminToken}`,
    'content-type': 'application/json',
    'idempotency-key': 'once a day',
  }
  const request = { method: 'POST', headers, body: JSON.stringify({ name: 'Once' }) }
  const response = await fetch(`${panel.url}/api/locations`, request)
  await response.arrayBuffer()
  return { status: response.status, replayed: response.headers.get('idempotency-replayed') }
}

const rowsOf = async (panel: TestPanel, table: string): Promise<number | undefined> =>
  (await panel.client.call(getDbStatus, { query: {} })).tables.find(({ name }) => name === table)?.rows

it('keeps the answer to a repeated request for a day, and forgets it then', { timeout: 60_000 }, async () => {
  const first = await startPanel({ dataDir })
  expect(await add(first)).toEqual({ status: 201, replayed: null })
  await first.close()
  const nextMorning = await startPanel({ dataDir, clock: ahead(23) })
  expect(await add(nextMorning)).toEqual({ status: 201, replayed: 'true' })
  await nextMorning.close()
  const nextDay = await startPanel({ dataDir, clock: ahead(25) })
  try {
    await eventually(
      () => rowsOf(nextDay, 'idempotency'),
      (rows) => rows === 0,
    )
    // As a new request it is carried out, and refused because the first one has been.
    expect(await add(nextDay)).toEqual({ status: 409, replayed: null })
  } finally {
    await nextDay.close()
  }
})

/** What a stream answers to a marker, and the numbers of the events that it sends up to `last`. */
async function resume(panel: TestPanel, marker?: string) {
  const headers: Record<string, string> = marker === undefined ? {} : { 'last-event-id': marker }
  const reader = new ConsoleReader(`${panel.url}/api/admin/events`, panel.adminToken, headers)
  const { data } = await reader.until('the greeting', (r) => r.of('connected')[0])
  const [epoch = '', last = ''] = String(data['lastEventId']).split('-')
  const numbers = () => reader.frames.flatMap(({ id }) => (id === undefined ? [] : [Number(id.split('-')[1])]))
  const behind = Number(marker?.split('-')[1] ?? last) < Number(last)
  if (data['resumed'] === true && behind) await reader.until('the last event', () => numbers().at(-1) === Number(last))
  reader.close()
  return { epoch, last: Number(last), resumed: data['resumed'], missed: data['missed'], numbers: numbers() }
}

it('forgets events after a day, and says to who comes back with an older marker that some are missed', {
  timeout: 60_000,
}, async () => {
  const before = await startPanel({ dataDir, clock: ahead(30) })
  for (const name of ['One', 'Two', 'Three']) await before.client.call(createLocation, { body: { name } })
  const { epoch, last } = await resume(before)
  // All that happened in the first panel is more than a day old by now, and what happened since is not.
  const kept = (await rowsOf(before, 'event')) ?? 0
  const first = last - kept + 1
  expect(first).toBeGreaterThan(2)
  try {
    const everyone = { epoch, last }
    const upTo = (from: number) => Array.from({ length: last - from + 1 }, (_, i) => from + i)
    expect(await resume(before, `${epoch}-${first - 2}`)).toEqual({
      ...everyone,
      resumed: false,
      missed: true,
      numbers: [],
    })
    // The next event that this viewer has not seen is the oldest that is kept.
    expect(await resume(before, `${epoch}-${first - 1}`)).toEqual({
      ...everyone,
      resumed: true,
      missed: false,
      numbers: upTo(first),
    })
    expect(await resume(before, `${epoch}-${last - 1}`)).toMatchObject({ missed: false, numbers: [last] })
    expect(await resume(before, `${epoch}-${last}`)).toMatchObject({ resumed: true, missed: false, numbers: [] })
    expect(await resume(before, `${epoch}-${last + 1}`)).toMatchObject({ resumed: false, missed: true, numbers: [] })
  } finally {
    await before.close()
  }
})
