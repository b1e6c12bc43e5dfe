import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { getDbStatus } from '../../src/shared/api/overview.ts'
import { type Clock, systemClock } from '../../src/shared/time.ts'
import { startPanel, type TestPanel } from '../panel.ts'
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

const keptAnswers = async (panel: TestPanel): Promise<number | undefined> =>
  (await panel.client.call(getDbStatus, { query: {} })).tables.find(({ name }) => name === 'idempotency')?.rows

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
      () => keptAnswers(nextDay),
      (rows) => rows === 0,
    )
    // As a new request it is carried out, and refused because the first one has been.
    expect(await add(nextDay)).toEqual({ status: 409, replayed: null })
  } finally {
    await nextDay.close()
  }
})
