import { afterAll, beforeAll, expect, test } from 'vitest'
import { statusOf } from '../../../src/daemon/features/servers/servers/view.ts'
import { listServers, type Server } from '../../../src/shared/api/servers.ts'
import type { Client } from '../../../src/shared/client.ts'
import { PowerState, ServerActivity, ServerStatus } from '../../../src/shared/kernel/server-life.ts'
import { raw, Stage, type StageNode } from './stage.ts'

let stage: Stage
let nodes: StageNode[]
let servers: Server[]

const NAMES = ['alpha', 'Beta', '100%_sure', 'gamma 1', 'Käsekuchen', 'ÄPFEL', 'zeta', 'plain']
/** Characters that a name may not have come by import. */
const IMPORTED = '100%_sure'

beforeAll(async () => {
  stage = await Stage.open()
  nodes = [await stage.node(), await stage.node()]
  const templates = [await stage.template(), await stage.template()]
  servers = []
  for (const [i, name] of NAMES.entries()) {
    const made = await stage.create(at(templates, i), at(nodes, i), { name: name === IMPORTED ? 'x' : name })
    if (name === IMPORTED) await stage.set(made.id, { name })
    servers.push({ ...made, name })
  }
})
afterAll(() => stage.close())

function at<T>(list: readonly T[], i: number): T {
  const item = list[i % list.length]
  if (item === undefined) throw new Error('the list is empty')
  return item
}

async function list(query: Record<string, unknown> = {}, client: Client = stage.admin) {
  return await client.page(listServers, { query: query as never })
}
const names = async (query: Record<string, unknown>, client?: Client) =>
  (await list(query, client)).data.map(({ name }) => name)

test('answers pages, clamps the limit and refuses junk', async () => {
  const seen: string[] = []
  for (const page of [1, 2, 3]) {
    const { data, pagination } = await list({ page, limit: 3 })
    expect(pagination).toEqual({ page, limit: 3, total: 8, totalPages: 3 })
    seen.push(...data.map(({ id }) => id))
  }
  expect(seen).toEqual(servers.map(({ id }) => id).reverse())
  expect(await list({ page: 4, limit: 3 })).toMatchObject({ data: [], pagination: { total: 8 } })
  expect((await list({ limit: 5000 })).pagination.limit).toBe(100)
  for (const query of [
    'page=0',
    'page=x',
    'limit=0',
    'limit=-1',
    'limit=abc',
    'page=1.5',
    'status=happy',
    'sort=uuid',
    'order=up',
    `search=${'x'.repeat(201)}`,
  ]) {
    expect({ query, status: (await raw(stage.panel, listServers, `/api/servers?${query}`)).status }).toEqual({
      query,
      status: 400,
    })
  }
})

test('finds parts of names, and beginnings of ids and uuids', async () => {
  expect(await names({ search: 'eta', sort: 'name', order: 'asc' })).toEqual(['Beta', 'zeta'])
  expect(await names({ search: '%' })).toEqual([IMPORTED])
  expect(await names({ search: '0%_s' })).toEqual([IMPORTED])
  expect(await names({ search: '_' })).toEqual([IMPORTED])
  expect(await names({ search: '\\' })).toEqual([])
  expect(await names({ search: 'BETA' })).toEqual(['Beta'])
  expect(await names({ search: 'äse' })).toEqual(['Käsekuchen'])
  expect(await names({ search: 'KÄSE' })).toEqual(['Käsekuchen'])
  expect(await names({ search: 'äpfel' })).toEqual(['ÄPFEL'])
  const some = at(servers, 3)
  expect(await names({ search: some.id })).toEqual([some.name])
  expect(await names({ search: some.id.slice(0, -1) })).toEqual([some.name])
  expect(await names({ search: some.uuid })).toEqual([some.name])
  expect(await names({ search: some.uuid.slice(0, 30) })).toEqual([some.name])
  expect(await names({ search: some.uuid.slice(5) })).toEqual([])
  expect(await names({ search: '' })).toHaveLength(8)
})

test('narrows by node, template, location and owner', async () => {
  const [first, second] = [at(nodes, 0), at(nodes, 1)]
  expect(await names({ nodeId: first.id })).toHaveLength(4)
  expect(new Set((await list({ nodeId: second.id })).data.map(({ nodeId }) => nodeId))).toEqual(new Set([second.id]))
  expect(await names({ templateId: at(servers, 0).templateId, nodeId: second.id })).toEqual([])
  expect(await names({ locationId: stage.panel.locationId })).toHaveLength(8)
  expect(await names({ locationId: 'loc_none' })).toEqual([])
  expect(await names({ ownerId: at(servers, 0).ownerId })).toHaveLength(8)
  expect(await names({ ownerId: 'usr_none' })).toEqual([])
})

test('orders by name, creation and status both ways', async () => {
  const byName = ['100%_sure', 'alpha', 'Beta', 'gamma 1', 'Käsekuchen', 'plain', 'zeta', 'ÄPFEL']
  expect(await names({ sort: 'name', order: 'asc' })).toEqual(byName)
  expect(await names({ sort: 'name', order: 'desc' })).toEqual([...byName].reverse())
  expect(await names({ sort: 'createdAt', order: 'asc' })).toEqual(NAMES)
  await stage.set(at(servers, 4).id, { power: 'running' })
  await stage.set(at(servers, 5).id, { crashed: 1 })
  const statuses = (await list({ sort: 'status', order: 'asc' })).data.map(({ status }) => status)
  expect(statuses).toEqual([...statuses].sort())
  expect((await list({ sort: 'status', order: 'desc' })).data.map(({ status }) => status)).toEqual(
    [...statuses].reverse(),
  )
  expect(new Set(statuses)).toEqual(new Set(['crashed', 'running', 'stopped']))
})

test('shows each caller what he may read', async () => {
  const own = await stage.create({ id: at(servers, 0).templateId }, at(nodes, 0), {
    name: 'own',
    ownerId: (await stage.person()).id,
  })
  const owner = await stage.person(['apikey.manage'])
  await stage.set(own.id, { ownerId: owner.id })
  const other = at(servers, 1)
  const scoped = await stage.person([`server.read:${other.id}`])
  const reader = await stage.person(['server.read'])
  const nobody = await stage.person()
  expect(await names({}, owner.client)).toEqual(['own'])
  expect(await names({}, scoped.client)).toEqual([other.name])
  expect(await names({}, reader.client)).toHaveLength(9)
  expect(await list({}, nobody.client)).toMatchObject({ data: [], pagination: { total: 0 } })
  expect(await names({ ownerId: owner.id }, nobody.client)).toEqual([])
  expect(await names({}, await stage.key(owner.client, ['apikey.manage']))).toEqual([])
  expect(await names({}, await stage.key(owner.client, [`server.read:${own.id}`]))).toEqual(['own'])
  expect(await names({}, await stage.key(stage.admin, [`server.read:${other.id}`]))).toEqual([other.name])
})

/** Sets all facts of a server that is neither archived nor suspended nor going away, and of all others one out of so many. */
async function statuses(outOf: number): Promise<void> {
  const server = at(servers, 7)
  const times = [null, '2026-01-01T00:00:00.000Z']
  const seen = new Set<string>()
  const all = combinations({
    deletingAt: times,
    archivedAt: times,
    suspendedAt: times,
    activity: [null, ...ServerActivity.options],
    power: PowerState.options,
    crashed: [0, 1],
    failed: [0, 1],
  })
  const ends = ['deletingAt', 'archivedAt', 'suspendedAt']
  const some = all.filter((facts, at) => at % outOf === 0 || ends.every((name) => facts[name] === null))
  for (const facts of some) {
    await stage.set(server.id, facts)
    const status = statusOf(facts as never) // a combination has every column that it needs
    seen.add(status)
    const found = await list({ status, search: server.id })
    expect({ facts, found: found.data.map((row) => row.status) }).toEqual({ facts, found: [status] })
  }
  expect([...seen].sort()).toEqual([...ServerStatus.options].sort())
}

test('the status in SQL is the status of the rules, for facts of all kinds', () => statuses(7), 30_000)

test('the status in SQL is the status of the rules, for all facts', { tags: ['long'], timeout: 60_000 }, () =>
  statuses(1),
)

function combinations(choices: Readonly<Record<string, readonly unknown[]>>): Record<string, unknown>[] {
  return Object.entries(choices).reduce<Record<string, unknown>[]>(
    (all, [name, values]) => all.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    [{}],
  )
}
