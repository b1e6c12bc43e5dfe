import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { login } from '../../../src/shared/api/auth.ts'
import { createLocation } from '../../../src/shared/api/locations.ts'
import { createServer, updateServer } from '../../../src/shared/api/servers.ts'
import { createTemplate } from '../../../src/shared/api/templates.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { ConsoleReader, type WireFrame } from '../console-reader.ts'

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel()
})
afterAll(() => panel.close())

/** Follows a stream through many broken connections, each resumed where the one before was cut. */
async function followCut(
  path: string,
  done: (frames: readonly WireFrame[]) => boolean,
  begun: () => void,
): Promise<WireFrame[]> {
  const all: WireFrame[] = []
  let last: string | undefined
  for (let round = 0; !done(all); round++) {
    const headers: Record<string, string> = last === undefined ? {} : { 'last-event-id': last }
    const reader = new ConsoleReader(`${panel.url}${path}`, panel.adminToken, headers)
    const hello = await reader.until('connected', () => reader.of('connected')[0])
    expect([hello.data['missed'], hello.data['resumed']]).toEqual([false, round > 0])
    if (round === 0) {
      last = String(hello.data['lastEventId'])
      begun()
    }
    const enough = 5 + (round % 7) * 9
    await reader.until('some events', () => reader.frames.length > enough || done([...all, ...events(reader)]))
    reader.close()
    const got = events(reader)
    all.push(...got)
    last = got.at(-1)?.id ?? last
  }
  return all
}

const events = (reader: ConsoleReader): WireFrame[] => reader.frames.filter(({ id }) => id !== undefined)
const updates = (frames: readonly WireFrame[]) => frames.filter(({ event }) => event === 'server_updated')
const numberOf = ({ id }: WireFrame): number => Number(id?.split('-')[1])

describe('resuming by Last-Event-ID under load', () => {
  it('of the admin stream misses none and shows none twice', { tags: ['long'], timeout: 60_000 }, async () => {
    const writes: Promise<unknown>[] = []
    const load = (): void => {
      for (let i = 0; i < 300; i++) writes.push(panel.client.call(createLocation, { body: { name: `L${i}` } }))
    }
    const names = (frames: readonly WireFrame[]) =>
      frames.flatMap(({ event, data }) => (event === 'location_created' ? [data['locationName']] : []))
    const frames = await followCut('/api/admin/events', (seen) => names(seen).length >= 300, load)
    await Promise.all(writes)
    const numbers = frames.map(numberOf)
    expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, i) => (numbers[0] ?? 0) + i))
    expect(names(frames).sort()).toEqual(Array.from({ length: 300 }, (_, i) => `L${i}`).sort())
  })

  it('of one server shows its events once each, in order, and no other server', { timeout: 60_000 }, async () => {
    const [mine, other] = [await server('mine', 45_001), await server('other', 45_002)]
    const writes: Promise<unknown>[] = []
    const load = (): void => {
      for (let i = 0; i < 150; i++) {
        for (const { id } of [mine, other])
          writes.push(panel.client.call(updateServer, { params: { serverId: id }, body: { description: `d ${i}` } }))
      }
    }
    const frames = await followCut(`/api/servers/${mine.id}/events`, (seen) => updates(seen).length >= 150, load)
    await Promise.all(writes)
    expect(new Set(frames.map(({ data }) => data['serverId']))).toEqual(new Set([mine.id]))
    const numbers = frames.map(numberOf)
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b))
    expect(updates(frames)).toHaveLength(150)
  })

  it('says that events are missing when it cannot know them', async () => {
    for (const id of ['other00000000000000000000000-5', 'nonsense', 'x-99999999']) {
      const reader = new ConsoleReader(`${panel.url}/api/admin/events`, panel.adminToken, { 'last-event-id': id })
      const hello = await reader.until('connected', () => reader.of('connected')[0])
      reader.close()
      expect([hello.data['missed'], hello.data['resumed']]).toEqual([true, false])
    }
  })
})

describe('all-servers', () => {
  it('shows each person the servers that he may see, and no event of others', async () => {
    const ann = { email: 'ann@example.org', username: 'ann', password: 'Correct-horse-1' }
    const { id: ownerId } = await panel.client.call(createUser, { body: ann })
    const { token } = await panel.as(undefined).call(login, { body: { email: ann.email, password: ann.password } })
    const [hers, foreign] = [await server('hers', 45_003, ownerId), await server('foreign', 45_004)]
    const path = `${panel.url}/api/servers/all-servers/events`
    const [reader, admin] = [new ConsoleReader(path, token), new ConsoleReader(path, panel.adminToken)]
    for (const one of [reader, admin]) await one.until('connected', () => one.of('connected')[0])
    for (const { id } of [foreign, hers, foreign, hers]) {
      await panel.client.call(updateServer, { params: { serverId: id }, body: { description: `${Math.random()}` } })
    }
    await admin.until('all four', () => admin.of('server_updated').length >= 4)
    await reader.until('both of hers', () => reader.of('server_updated').length >= 2)
    const seen = (one: ConsoleReader) => one.of('server_updated').map(({ data }) => data['serverId'])
    reader.close()
    admin.close()
    expect(seen(admin)).toEqual([foreign.id, hers.id, foreign.id, hers.id])
    expect(seen(reader)).toEqual([hers.id, hers.id])
    expect(new Set(events(reader).map(({ data }) => data['serverId']))).toEqual(new Set([hers.id]))
  })
})

let template: Promise<{ id: string }> | undefined

async function server(name: string, primaryPort: number, ownerId?: string): Promise<{ id: string }> {
  template ??= panel.client.call(createTemplate, { body: { name: 'Sleep', startup: 'sleep 1' } })
  const size = { allocatedMemoryMb: 16, allocatedCpuCores: 0.1, allocatedDiskMb: 16 }
  const at = { templateId: (await template).id, nodeId: panel.nodeId, locationId: panel.locationId }
  return panel.client.call(createServer, {
    body: { name, primaryPort, ...size, ...at, ...(ownerId === undefined ? {} : { ownerId }) },
  })
}
