import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { setServerAccess } from '../../../src/shared/api/access.ts'
import { verifyAuditLogs } from '../../../src/shared/api/audit-log.ts'
import { getServer, patchServer, type Server, updateServer } from '../../../src/shared/api/servers.ts'
import { suspendServer } from '../../../src/shared/api/suspension.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import type { Client } from '../../../src/shared/client.ts'
import { plantFaults, recordStatements } from '../../faulty-driver.ts'
import { type Person, Stage, type StageNode, until } from './stage.ts'

const variables = [
  { name: 'WORD', default: 'one', rules: ['max:20'] },
  { name: 'HIDDEN', default: 'out-of-sight', userViewable: false },
]

let stage: Stage
let node: StageNode
let template: Template
let owner: Person

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  template = await stage.template({ variables, startupCommands: [{ name: 'modded', command: 'sleep 2000' }] })
  owner = await stage.person()
})
afterAll(() => stage.close())

interface Edit {
  readonly id: string
  readonly body: Record<string, unknown>
  readonly client?: Client
  readonly by?: typeof updateServer | typeof patchServer
}

/** Asks for all of them at once; answers the server or the code of the refusal of each. */
function editAll(edits: readonly Edit[]): Promise<(Server | string)[]> {
  return Promise.all(
    edits.map(({ id, body, client = stage.admin, by = patchServer }) =>
      client
        .call(by, { params: { serverId: id as never }, body: body as never })
        .catch(({ code }: { code: string }) => code),
    ),
  )
}

const make = (count: number, on: StageNode = node, of: Template = template): Promise<Server[]> =>
  Promise.all(Array.from({ length: count }, () => stage.create(of, on, { ownerId: owner.id })))
const changed = (answers: readonly (Server | string)[]): Server[] =>
  answers.flatMap((answer) => (typeof answer === 'string' ? [] : [answer]))
const codes = (answers: readonly (Server | string)[]): string[] =>
  answers.filter((answer) => typeof answer === 'string')
const updatesOf = async (id: string) => (await stage.events(id)).filter(({ type }) => type === 'server_updated')
/** How often the widest statement of an edit is run: twice by each that goes alone. */
const readsOf = (texts: readonly string[]): number =>
  texts.filter((text) => /from "server" inner join "template"/.test(text)).length

test('writes edits of many servers with the statements of a few, each answered as its caller sees its own', async () => {
  const servers = await make(36)
  const [root] = await stage.audits(servers[0]?.id ?? '', 'server.create')
  const member = await stage.person()
  const access = { targetUserId: member.id, permissions: ['server.read', 'server.update'] }
  for (const { id } of servers.filter((_, at) => at % 3 === 2)) {
    await owner.client.call(setServerAccess, { params: { serverId: id as never }, body: access as never })
  }
  const callers = [
    { client: stage.admin, id: root?.userId },
    { client: owner.client, id: owner.id },
    { client: member.client, id: member.id },
  ]
  const edits = servers.map(({ id }, place) => ({
    ...{ id, caller: callers[place % callers.length] ?? callers[0], by: place % 2 === 0 ? updateServer : patchServer },
    body: { description: `about ${place}`, ...(place % 4 === 0 ? { environment: { WORD: `w${place}` } } : {}) },
  }))
  const recorded = recordStatements()
  const answers = await editAll(edits.map((edit) => ({ ...edit, client: edit.caller?.client ?? stage.admin })))
  recorded.remove()
  expect(codes(answers)).toEqual([])
  expect(readsOf(recorded.texts)).toBeLessThanOrEqual(20)
  for (const [place, { id, body, caller }] of edits.entries()) {
    const { appliesAt, ...shown } = answers[place] as Server & { appliesAt: string }
    expect(shown).toMatchObject({ id, ...body, generation: place % 4 === 0 ? 2 : 1 })
    expect(appliesAt).toBe('now')
    expect(await caller?.client.call(getServer, { params: { serverId: id as never } })).toEqual(shown)
    const [audit, ...more] = await stage.audits(id, 'server.update')
    const [update, ...others] = (await updatesOf(id)).slice(place % 3 === 2 ? 1 : 0) // the grant is one too
    expect([more, others]).toEqual([[], []])
    expect(JSON.stringify(audit?.details)).toContain(`about ${place}`)
    const { updatedBy, change } = JSON.parse(update?.data ?? '{}') as Record<string, unknown>
    expect(updatedBy).toBe(audit?.userId)
    expect(updatedBy).toBe(caller?.id)
    expect(change).toBe(place % 4 === 0 ? 'description,environment' : 'description')
  }
  expect(await stage.admin.call(verifyAuditLogs, { query: {} })).toMatchObject({ intact: true, problem: null })
})

test('who may not see a variable does not see it by an edit beside those of who may', async () => {
  const servers = await make(24)
  const recorded = recordStatements()
  const answers = changed(
    await editAll(
      servers.map(({ id }, place) => ({
        id,
        body: { description: 'd' },
        client: place % 2 === 0 ? stage.admin : owner.client,
      })),
    ),
  )
  recorded.remove()
  expect(readsOf(recorded.texts)).toBeLessThan(servers.length)
  const shown = answers.map(({ environment }) => environment['HIDDEN'])
  expect(shown).toEqual(servers.map((_, place) => (place % 2 === 0 ? 'out-of-sight' : '********')))
})

test('refuses each for its own reason, and makes the others', async () => {
  const place = await stage.node()
  const peer = await stage.peer(place)
  const servers = await make(24, place)
  const [suspended, deleting, smaller, named, denied, startup, both, wrong] = servers.map(({ id }) => id)
  const left = servers.slice(8)
  await stage.admin.call(suspendServer, { params: { serverId: suspended as never }, body: { reason: 'bill' } })
  await stage.set(deleting ?? '', { deletingAt: '2026-01-01T00:00:00.000Z' })
  const stranger = await stage.person(['server.read'])
  const refused: readonly (readonly [Edit, string])[] = [
    [{ id: suspended ?? '', body: { description: 'x' } }, 'SERVER_SUSPENDED'],
    [{ id: deleting ?? '', body: { description: 'x' } }, 'SERVER_INVALID_STATE'],
    [{ id: smaller ?? '', body: { description: 'x', allocatedDiskMb: 32 } }, 'CONFLICT'],
    [{ id: named ?? '', body: { description: 'x', startupName: 'nope' } }, 'VALIDATION_ERROR'],
    [{ id: denied ?? '', body: { description: 'x', ioWeight: 77 }, client: owner.client }, 'PERMISSION_DENIED'],
    [
      { id: startup ?? '', body: { description: 'x', startupCommand: 'sleep 1' }, client: owner.client },
      'PERMISSION_DENIED',
    ],
    [
      { id: both ?? '', body: { description: 'x', environment: { WORD: 'longer than twenty characters' } } },
      'VALIDATION_ERROR',
    ],
    [{ id: wrong ?? '', body: { description: 'x' }, client: stranger.client }, 'PERMISSION_DENIED'],
    [{ id: 'srv_nowhere', body: { description: 'x' } }, 'SERVER_NOT_FOUND'],
  ]
  const edits = left.flatMap(({ id }, at): Edit[] => {
    const beside = refused[at]?.[0]
    return [{ id, body: { description: `ok ${at}` } }, ...(beside === undefined ? [] : [beside])]
  })
  const answers = await editAll(edits)
  expect(codes(answers)).toEqual(refused.map(([, code]) => code))
  expect(changed(answers).map(({ id }) => id)).toEqual(left.map(({ id }) => id))
  for (const [{ id }, code] of refused) {
    if (id === 'srv_nowhere') continue
    expect([code, await stage.audits(id, 'server.update'), await updatesOf(id)]).toEqual([code, [], []])
    expect((await stage.get(id)).description).toBe(null)
  }
  peer.socket.terminate()
})

test('several edits of each of several servers all happen', async () => {
  const servers = await make(5)
  const fields = [
    { name: 'renamed' },
    { description: 'd' },
    { maxCrashCount: 7 },
    { allocatedMemoryMb: 70 },
    { environment: { WORD: 'w' } },
    { environment: { HIDDEN: 'h' } },
    { stopTimeoutSeconds: 77 },
  ]
  const edits = fields.flatMap((body, at) =>
    servers.map(({ id }, nth) => ({
      ...{ id, by: (at + nth) % 2 === 0 ? updateServer : patchServer },
      body: 'name' in body ? { name: `renamed ${nth}` } : body,
    })),
  )
  expect(codes(await editAll(edits))).toEqual([])
  for (const [nth, { id }] of servers.entries()) {
    expect(await stage.get(id)).toMatchObject({
      ...{ name: `renamed ${nth}`, description: 'd', maxCrashCount: 7, allocatedMemoryMb: 70, stopTimeoutSeconds: 77 },
      ...{ environment: { WORD: 'w', HIDDEN: 'h' }, generation: 7 },
    })
    expect(await stage.audits(id, 'server.update')).toHaveLength(fields.length)
    expect(await updatesOf(id)).toHaveLength(fields.length)
  }
})

test('of names, ports, addresses and memory that only one can have, one gets them, beside edits of others', async () => {
  const small = await stage.node({ maxMemoryMb: 64 * 10 + 30, maxCpuCores: 10 })
  const servers = await make(10, small)
  const others = await make(10)
  const port = stage.port()
  const id = (at: number): string => servers[at]?.id ?? ''
  const rivals: Edit[] = [
    { id: id(0), body: { name: 'only one' } },
    { id: id(1), body: { primaryPort: port } },
    { id: id(2), body: { allocatedMemoryMb: 64 + 20 } },
    { id: id(3), body: { name: 'only one' } },
    { id: id(4), body: { primaryPort: port } },
    { id: id(5), body: { allocatedMemoryMb: 64 + 20 } },
  ]
  const answers = await editAll([
    ...others.map(({ id: other }) => ({ id: other, body: { description: 'beside' } })),
    ...rivals,
  ])
  expect(changed(answers.slice(0, 10)).map(({ description }) => description)).toEqual(others.map(() => 'beside'))
  const of = answers.slice(10)
  for (const [at, code] of ['SERVER_NAME_TAKEN', 'PORT_IN_USE', 'INSUFFICIENT_RESOURCES'].entries()) {
    expect(codes([of[at] ?? '', of[at + 3] ?? ''])).toEqual([code])
  }
})

describe('what the nodes are sent', () => {
  test('one new specification of each server that changes for its node, with a higher generation', async () => {
    const own = await stage.node()
    const servers = await make(9, own)
    const bodyOf = (at: number, round: number) =>
      at % 3 === 0 ? { description: `${round}` } : { environment: { WORD: `r${round}` } }
    for (const round of [1, 2]) {
      const answers = await editAll(servers.map(({ id }, at) => ({ id, body: bodyOf(at, round) })))
      const generations = changed(answers).map(({ generation }) => generation)
      expect(generations).toEqual(servers.map((_, at) => (at % 3 === 0 ? 1 : 1 + round)))
    }
    const peer = await stage.peer(own)
    const orders = await peer.until('the specifications', () =>
      peer.of('command').length >= servers.length ? peer.of('command') : undefined,
    )
    const sent = new Map(orders.map((order) => [order.serverId, order]))
    expect([orders.length, sent.size]).toEqual([servers.length, servers.length])
    for (const [at, { id }] of servers.entries()) {
      const generation = at % 3 === 0 ? 1 : 3
      const env = { WORD: at % 3 === 0 ? 'one' : 'r2' }
      expect(sent.get(id)).toMatchObject({ generation, command: { op: 'apply', spec: { generation, env } } })
    }
    // Connected, they come by themselves.
    const answers = await editAll(servers.map(({ id }) => ({ id, body: { environment: { WORD: 'now' } } })))
    expect(codes(answers)).toEqual([])
    for (const order of orders) peer.finish(order)
    const more = await peer.until('those of the last edits', () =>
      peer.of('command').length === 2 * servers.length ? peer.of('command').slice(servers.length) : undefined,
    )
    expect(new Set(more.map(({ serverId }) => serverId)).size).toBe(servers.length)
    for (const { command } of more) expect(command).toMatchObject({ op: 'apply', spec: { env: { WORD: 'now' } } })
  })
})

test('what carries a key of idempotency is made once beside edits, and an edit with such a key is an ordinary one', async () => {
  const servers = await make(14)
  const send = async (method: 'POST' | 'PATCH', path: string, body: object) => {
    const response = await fetch(`${stage.panel.url}/api/servers${path}`, {
      method,
      headers: {
        authorization: `Bearer ${stage.panel.adminToken}`,
        ...{ 'content-type': 'application/json', 'idempotency-key': `key of ${method}` },
      },
      body: JSON.stringify(body),
    })
    const { data } = (await response.json()) as { data: Server }
    return { status: response.status, data }
  }
  const body = stage.body(template, node)
  const [keyed, ...others] = servers
  const round = (description: string) =>
    Promise.all([
      editAll(others.map(({ id }) => ({ id, body: { description } }))),
      send('POST', '', body),
      send('PATCH', `/${keyed?.id}`, { description }),
    ])
  const [plain, made, edited] = await round('first')
  expect([codes(plain), made.status, edited.status]).toEqual([[], 201, 200])
  const [, again, anew] = await round('second')
  expect(again).toEqual(made)
  expect([edited.data.description, anew.data.description]).toEqual(['first', 'second'])
  expect(await stage.audits(made.data.id, 'server.create')).toHaveLength(1)
  for (const { id } of servers) expect(await stage.audits(id, 'server.update')).toHaveLength(2)
})

test('on a full disk each is refused and nothing is stored; afterwards they are made', async () => {
  const servers = await make(12)
  const edits = servers.map(({ id }) => ({ id, body: { environment: { WORD: 'full' } } }))
  const planted = plantFaults(({ sql }) => (sql.startsWith('update "server"') ? 'SQLITE_FULL' : undefined))
  const answers = await editAll(edits)
  planted.remove()
  expect(codes(answers)).toEqual(servers.map(() => 'INSUFFICIENT_SPACE'))
  const stored = async () => (await Promise.all(servers.map(({ id }) => stage.get(id)))).map((one) => one.generation)
  expect(await stored()).toEqual(servers.map(() => 1))
  await until('an edit to be stored again', async () => {
    const [one] = await editAll(edits.slice(0, 1))
    return typeof one === 'string' ? undefined : one
  })
  expect(codes(await editAll(edits.slice(1)))).toEqual([])
  expect(await stored()).toEqual(servers.map(() => 2))
  for (const { id } of servers) expect(await stage.audits(id, 'server.update')).toHaveLength(1)
})

test('who sends a server back as it is shown changes nothing, whatever share of a processor it has', async () => {
  const [server] = await make(1)
  const id = server?.id ?? ''
  const [answer] = changed(await editAll([{ id, body: { allocatedCpuCores: 2 / 3 } }]))
  expect(answer?.allocatedCpuCores).toBe(2 / 3)
  const shown = await stage.get(id, owner.client)
  expect(shown.allocatedCpuCores).toBe(2 / 3)
  const { allocatedCpuCores, allocatedMemoryMb } = shown
  expect(codes(await editAll([{ id, body: { allocatedCpuCores, allocatedMemoryMb }, client: owner.client }]))).toEqual(
    [],
  )
})
