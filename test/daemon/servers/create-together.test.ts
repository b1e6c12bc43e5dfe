import { afterAll, beforeAll, expect, test } from 'vitest'
import { createAllocations } from '../../../src/shared/api/allocations.ts'
import { verifyAuditLogs } from '../../../src/shared/api/audit-log.ts'
import type { Server } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import { recordStatements } from '../../faulty-driver.ts'
import { type Differs, Stage, type StageNode } from './stage.ts'

let stage: Stage
let node: StageNode
let template: Template

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  template = await stage.template()
})
afterAll(() => stage.close())

type Creation = readonly [template: { readonly id: string }, differs: Differs, on?: StageNode]

/** Asks for all of them at once; answers the server or the code of the refusal of each. */
function createAll(creations: readonly Creation[]): Promise<(Server | string)[]> {
  return Promise.all(
    creations.map(([of, differs, on = node]) =>
      stage.create(of, on, differs).catch(({ code }: { code: string }) => code),
    ),
  )
}

const servers = (answers: readonly (Server | string)[]): Server[] =>
  answers.flatMap((answer) => (typeof answer === 'string' ? [] : [answer]))
const portOf = (server: Server): number => server.primaryPort

test('makes servers that are asked for together with the statements of a few, each as it is answered', async () => {
  const recorded = recordStatements()
  const answers = await createAll(Array.from({ length: 30 }, () => [template, {}] as const))
  recorded.remove()
  const inserts = recorded.texts.filter((text) => text.startsWith('insert into "server"'))
  expect(inserts.length).toBeLessThanOrEqual(10)
  const made = servers(answers)
  expect(made).toHaveLength(30)
  for (const server of made) {
    const { commandId, ...shown } = server as Server & { commandId: string }
    expect(await stage.get(server.id)).toEqual(shown)
    expect((await stage.commands(server.id)).map(({ id }) => id)).toEqual([commandId])
  }
  expect(await stage.admin.call(verifyAuditLogs, { query: {} })).toMatchObject({ intact: true, problem: null })
})

test('refuses those that the ones before them make impossible, and makes the others', async () => {
  const small = await stage.node({ maxMemoryMb: 128, maxCpuCores: 4 })
  const unused = await stage.template()
  await stage.db.write(({ q }) => q.deleteFrom('template').where('id', '=', unused.id).execute())
  const pairs: [Creation, Creation, string][] = [
    [[template, { name: 'twice' }], [template, { name: 'twice' }], 'SERVER_NAME_TAKEN'],
    [[template, { primaryPort: 41_000 }], [template, { primaryPort: 41_000 }], 'PORT_IN_USE'],
    [
      [template, { allocatedMemoryMb: 100 }, small],
      [template, { allocatedMemoryMb: 29 }, small],
      'INSUFFICIENT_RESOURCES',
    ],
    [[template, {}], [unused, {}], 'TEMPLATE_NOT_FOUND'],
  ]
  const answers = await createAll(pairs.flatMap(([one, other]) => [one, other] as const))
  for (const [place, [, , code]] of pairs.entries()) {
    const both = answers.slice(2 * place, 2 * place + 2)
    expect([servers(both).length, ...both.filter((answer) => typeof answer === 'string')]).toEqual([1, code])
  }
})

test('a refused one keeps no port from those behind it', async () => {
  const needsTwo = await stage.template({ ports: [{ name: 'query', role: 'query', offset: 1, required: true }] })
  const first = Array.from({ length: 10 }, (_, place) => 42_000 + 2 * place)
  await createAll(first.map((port) => [template, { primaryPort: port + 1 }]))
  const answers = await createAll(
    first.flatMap((port) => [
      [needsTwo, { primaryPort: port }],
      [template, { primaryPort: port }],
    ]),
  )
  const shown = answers.map((answer) => (typeof answer === 'string' ? answer : portOf(answer)))
  expect(shown).toEqual(first.flatMap((port) => ['PORT_IN_USE', port]))
})

test('chooses ports of their own for those that name none, with the further ones of their templates', async () => {
  const withQuery = await stage.template({
    ports: [
      { name: 'query', role: 'query', offset: 1, required: true },
      { name: 'files', role: 'files', offset: null, required: false },
    ],
  })
  const made = servers(await createAll(Array.from({ length: 20 }, () => [withQuery, { primaryPort: null as never }])))
  expect(made).toHaveLength(20)
  const rows = await stage.db.read
    .selectFrom('allocation')
    .select(['serverId', 'port'])
    .where('serverId', 'in', made.map(({ id }) => id)) // biome-ignore format: one line
    .execute()
  expect(rows).toHaveLength(60)
  expect(new Set(rows.map(({ port }) => port)).size).toBe(60)
  for (const server of made) {
    expect(rows.some(({ serverId, port }) => serverId === server.id && port === portOf(server) + 1)).toBe(true)
  }
})

test('takes free allocations by their addresses, and those that are named by their ids, beside others', async () => {
  const params = { nodeId: node.id as never }
  await stage.admin.call(createAllocations, { params, body: { ip: '127.0.0.1', ports: '43000-43003' } })
  const between = () =>
    stage.db.read
      .selectFrom('allocation')
      .select(['id', 'serverId'])
      .where('port', '>=', 43_000)
      .where('port', '<=', 43_003)
      .orderBy('port')
      .execute()
  const rows = await between()
  const [byId] = rows
  const answers = await createAll([
    [template, { primaryPort: 43_001 }],
    [template, { allocationId: byId?.id }],
    [template, { primaryPort: 43_002 }],
    [template, { allocationId: byId?.id }],
    [template, { primaryPort: 43_005 }],
  ])
  expect(servers(answers)).toHaveLength(4)
  expect(answers.filter((answer) => answer === 'ALLOCATION_IN_USE')).toHaveLength(1)
  const after = await between()
  expect(after.map(({ id }) => id)).toEqual(rows.map(({ id }) => id))
  expect(after.map(({ serverId }) => serverId !== null)).toEqual([true, true, true, false])
})

test('makes the others together beside those that need more than an address and a port', async () => {
  const recorded = recordStatements()
  const answers = await createAll(
    Array.from({ length: 30 }, (_, place) => [template, place % 5 === 0 ? { networkMode: 'nope' } : {}] as const),
  )
  recorded.remove()
  expect(servers(answers)).toHaveLength(24)
  expect(answers.filter((answer) => answer === 'ADMIN_IP_POOL_NOT_FOUND')).toHaveLength(6)
  expect(recorded.texts.filter((text) => text.startsWith('insert into "server"')).length).toBeLessThanOrEqual(10)
})

test('refuses a port that is taken in the same words alone and together, and stores half a character as a whole one', async () => {
  await stage.create(template, node, { primaryPort: 44_000 })
  const wordsOf = (): Promise<string> =>
    stage.create(template, node, { primaryPort: 44_000 }).then(
      () => 'made',
      ({ message }: Error) => message,
    )
  const alone = await wordsOf()
  expect(alone).toContain('is taken already; choose another port')
  expect(new Set(await Promise.all([wordsOf(), wordsOf(), wordsOf()]))).toEqual(new Set([alone]))
  expect(await stage.create(template, node, { description: 'x\ud800y' })).toMatchObject({ description: 'x\ufffdy' })
})
