import { afterAll, beforeAll, expect, test } from 'vitest'
import { touchObserved } from '../../src/daemon/features/servers/servers/observed-rows.ts'
import type { IsoTime } from '../../src/shared/kernel/time.ts'
import { recordStatements } from '../faulty-driver.ts'
import { report } from './agent-peer.ts'
import { FACTS, Stage, type StageNode, until } from './servers/stage.ts'

const SERVERS = 20
/** Beside the ends of the transaction in which it is online. */
const MOST_STATEMENTS = 7

let stage: Stage
let node: StageNode
let serverIds: string[]

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  const template = await stage.template()
  const servers = await Promise.all(
    Array.from({ length: SERVERS }, () => stage.serverIn(template, node, FACTS.running)),
  )
  serverIds = servers.map(({ id }) => id)
})
afterAll(() => stage.close())

/** Connects as an agent that has the servers; answers what the daemon has run until it has taken their reports. */
async function joins(pid: number): Promise<string[]> {
  const recorded = recordStatements()
  try {
    const peer = await stage.peer(node, { servers: serverIds.map((id) => report(id, { pid, uptimeMs: 1000 })) })
    await peer.until('the end of the handshake', () => peer.of('snapshot.ok')[0])
    return [...recorded.texts]
  } finally {
    recorded.remove()
  }
}

/** Written behind the handshake, and perhaps seen before it is left off. */
const FOLLOWS = /"is_online" = \?|^update "server" set "observed_at" = \? where/

/** What is written of nodes, servers and orders in the handshake; loops of the daemon write other things meanwhile. */
const writes = (statements: readonly string[]): string[] =>
  statements.filter(
    (sql) => /^\s*(insert into|update|delete from) "(node|server|command)"/.test(sql) && !FOLLOWS.test(sql),
  )

const observedAt = async (): Promise<(string | null)[]> => {
  const rows = await stage.db.read.selectFrom('server').select('observedAt').orderBy('id').execute()
  return rows.map((row) => row.observedAt)
}

test('an agent that comes in again as it was has nothing written of its node and servers, and takes few statements', async () => {
  await joins(11)
  const before = await observedAt()
  let least = await joins(11)
  for (let tries = 1; tries < 20 && least.length > MOST_STATEMENTS; tries++) {
    const next = await joins(11) // loops of the daemon run statements too, more of them on a busy machine
    if (next.length < least.length) least = next
  }
  expect(writes(least)).toEqual([])
  expect(least.length).toBeLessThanOrEqual(MOST_STATEMENTS)
  expect(least.filter((sql) => sql.includes('from "server"')).length).toBeGreaterThan(0)
  expect(await observedAt()).toEqual(before)
})

test('that its servers were observed is written after its handshake when they were not for long', async () => {
  await joins(11)
  const longAgo = '2020-01-01T00:00:00.000Z' as IsoTime
  await stage.db.write(({ q }) => q.updateTable('server').set({ observedAt: longAgo }).execute())
  expect(writes(await joins(11))).toEqual([])
  const observed = await until('all to be observed anew', async () => {
    const all = await observedAt()
    return all.every((at) => at !== longAgo) ? all : undefined
  })
  expect(observed.length).toBe(SERVERS)
})

test('that servers were observed as they were replaces nothing that is known of a later time', async () => {
  const earlier = '2020-01-01T00:00:00.000Z' as IsoTime
  const later = '2020-01-02T00:00:00.000Z' as IsoTime
  const ids = JSON.stringify(serverIds)
  const touch = (at: IsoTime) => stage.db.write(({ q }) => touchObserved(q, { ids, at }))
  await stage.db.write(({ q }) => q.updateTable('server').set({ observedAt: null }).execute())
  await touch(later)
  await touch(earlier)
  expect(new Set(await observedAt())).toEqual(new Set([later]))
})

test('one that comes in with other processes is believed', async () => {
  const statements = await joins(12)
  expect(writes(statements).filter((sql) => sql.startsWith('update "server"')).length).toBe(SERVERS)
  expect(await stage.get(serverIds[0] ?? '')).toMatchObject({ status: 'running', pid: 12 })
})
