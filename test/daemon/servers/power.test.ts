import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  installServer,
  killServer,
  powerServer,
  reinstallServer,
  restartServer,
  startServer,
  stopServer,
} from '../../../src/shared/api/power.ts'
import { deleteServer, getServerStats, type Server } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import type { Client } from '../../../src/shared/client.ts'
import { ACTION_GATES, ServerStatus } from '../../../src/shared/server-life.ts'
import { type AgentPeer, report } from '../agent-peer.ts'
import { refusal } from '../place-panel.ts'
import { raw, Stage, type StageNode } from './stage.ts'

let stage: Stage
let node: StageNode
let peer: AgentPeer
let template: Template

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  peer = await stage.peer(node)
  template = await stage.template()
})
afterAll(() => stage.close())

const ENDPOINTS = {
  start: startServer,
  stop: stopServer,
  restart: restartServer,
  kill: killServer,
  install: installServer,
  reinstall: reinstallServer,
} as const
type Action = keyof typeof ENDPOINTS

const order = (action: Action, server: { id: string }, client: Client = stage.admin, body: object = {}) =>
  client.call(ENDPOINTS[action], { params: { serverId: server.id as never }, body })
const remove = (server: Server, query: object = {}) =>
  stage.admin.call(deleteServer, { params: { serverId: server.id }, query: query as never })

const STAMP = '2026-01-01T00:00:00.000Z'
const FACTS: Record<ServerStatus, Record<string, unknown>> = {
  stopped: {},
  installing: { activity: 'installing' },
  starting: { power: 'starting' },
  running: { power: 'running' },
  stopping: { power: 'stopping' },
  crashed: { crashed: 1 },
  error: { failed: 1 },
  suspended: { suspendedAt: STAMP, suspensionReason: 'bill' },
  archived: { archivedAt: STAMP },
  transferring: { activity: 'transferring' },
  restoring: { activity: 'restoring' },
  deleting: { deletingAt: STAMP },
  unknown: { power: 'unknown', lastKnownPower: 'running' },
}

/** A server whose creation is done with, in this state. */
async function serverIn(facts: Record<string, unknown>, at: StageNode = node): Promise<Server> {
  const server = await stage.create(template, at)
  await stage.db.write((tx) =>
    tx.q.updateTable('command').set({ state: 'done', endedAt: tx.now }).where('serverId', '=', server.id).execute(),
  )
  await stage.set(server.id, facts)
  return server
}

test('accepts each order exactly from the statuses that allow it, and writes nothing when it refuses', async () => {
  for (const status of ServerStatus.options) {
    for (const action of Object.keys(ENDPOINTS) as Action[]) {
      const server = await serverIn(FACTS[status])
      expect((await stage.get(server.id)).status).toBe(status)
      const allowed: readonly ServerStatus[] = ACTION_GATES[action]
      const call = order(action, server)
      if (allowed.includes(status)) {
        const accepted = await call
        expect(accepted).toMatchObject({ action, status, generation: 2, desired: action === 'start' || action === 'restart' ? 'running' : 'stopped' })
        const commands = await stage.commands(server.id)
        expect(commands.map(({ id }) => id)).toContain(accepted.commandId)
        expect(commands).toHaveLength(2)
        expect((await stage.audits(server.id)).map((row) => row.action)).toEqual([`server.${action}`, 'server.create'])
      } else {
        const expected = status === 'suspended' ? { code: 'SERVER_SUSPENDED', meta: { suspensionReason: 'bill' } } : { code: 'SERVER_INVALID_STATE', meta: { currentStatus: status, allowed } }
        expect({ status, action, ...(await refusal(call)) }).toMatchObject({ status, action, ...expected })
        expect(await stage.commands(server.id)).toHaveLength(1)
        expect(await stage.audits(server.id)).toHaveLength(1)
        expect((await stage.get(server.id)).generation).toBe(1)
      }
    }
  }
}, 30_000)

test('deletes exactly from the statuses that allow it', async () => {
  for (const status of ServerStatus.options) {
    const server = await serverIn(FACTS[status])
    const allowed: readonly ServerStatus[] = ACTION_GATES.delete
    if (allowed.includes(status)) await remove(server)
    else expect((await refusal(remove(server))).code).toBe(status === 'suspended' ? 'SERVER_SUSPENDED' : 'SERVER_INVALID_STATE')
    expect((await stage.get(server.id)).status).toBe(allowed.includes(status) ? 'deleting' : status)
    await stage.set(server.id, { power: 'offline', activity: null })
  }
})

test('says that the node is away, for every order, and writes nothing', async () => {
  const away = await stage.node()
  for (const facts of [FACTS.stopped, FACTS.crashed, FACTS.unknown]) {
    for (const action of Object.keys(ENDPOINTS) as Action[]) {
      const server = await serverIn(facts, away)
      const refused = await refusal(order(action, server))
      const gated = facts === FACTS.stopped && (action === 'stop' || action === 'kill')
      expect({ action, code: refused.code }).toEqual({ action, code: gated ? 'SERVER_INVALID_STATE' : 'NODE_OFFLINE' })
      expect([await stage.commands(server.id), await stage.audits(server.id)].map(({ length }) => length)).toEqual([1, 1])
    }
  }
})

test('one order by action is the same as its own path, with an audit row of its own', async () => {
  const server = await serverIn(FACTS.running)
  const call = (body: unknown) => raw(stage.panel, powerServer, `/api/servers/${server.id}/power`, body)
  for (const body of [{}, { action: 'explode' }, { action: 'stop', graceSeconds: -1 }, { action: 'stop', graceSeconds: 601 }, [], 'stop']) {
    expect({ body, status: (await call(body)).status }).toEqual({ body, status: 400 })
  }
  expect(await call({ action: 'stop', graceSeconds: 7 })).toMatchObject({ status: 202, data: { action: 'stop', desired: 'stopped', generation: 2 } })
  expect((await stage.audits(server.id, 'server.power'))[0]).toMatchObject({ details: { action: 'stop', generation: 2 } })
  const stop = await peer.until('the stop', () => peer.of('command').find((frame) => frame.serverId === server.id && frame.command.op === 'stop'))
  expect(stop.command).toEqual({ op: 'stop', timeoutMs: 7000 })
})

test('asks for the permission of the action, and for both with a restart', async () => {
  const holders = {
    start: await stage.person(['server.start']),
    stop: await stage.person(['server.stop']),
    both: await stage.person(['server.start', 'server.stop']),
    nobody: await stage.person(['server.read']),
  }
  const may = { start: ['start', 'both'], stop: ['stop', 'both'], kill: ['stop', 'both'], restart: ['both'] } as const
  for (const action of ['start', 'stop', 'kill', 'restart'] as const) {
    for (const [name, { client }] of Object.entries(holders)) {
      const server = await serverIn(FACTS.crashed)
      const granted = (may[action] as readonly string[]).includes(name)
      const calls = [
        () => order(action, server, client),
        () => client.call(powerServer, { params: { serverId: server.id }, body: { action } }),
      ]
      for (const call of calls) {
        await stage.db.write((tx) => tx.q.updateTable('command').set({ state: 'done' }).where('serverId', '=', server.id).execute())
        const outcome = await call().then(() => 'ok', (error: { code: string }) => error.code)
        expect({ action, name, outcome }).toEqual({ action, name, outcome: granted ? 'ok' : 'PERMISSION_DENIED' })
      }
    }
  }
  const server = await serverIn(FACTS.crashed)
  const scoped = await stage.person([`server.start:${server.id}`])
  expect(await order('start', server, scoped.client)).toMatchObject({ action: 'start' })
  const other = await serverIn(FACTS.crashed)
  expect((await refusal(order('start', other, scoped.client))).code).toBe('PERMISSION_DENIED')
})

test('of two starts at once one is accepted; the other is told that the server is starting', async () => {
  const server = await serverIn(FACTS.stopped)
  const both = await Promise.allSettled([order('start', server), order('start', server)])
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  const lost = both.find((one) => one.status === 'rejected')
  expect(await refusal(Promise.reject(lost?.status === 'rejected' ? lost.reason : undefined))).toMatchObject({
    code: 'SERVER_INVALID_STATE',
    meta: { currentStatus: 'starting' },
  })
  expect(await stage.audits(server.id, 'server.start')).toHaveLength(1)
})

test('a stop right after a start is taken, before the node has said anything', async () => {
  const server = await serverIn(FACTS.stopped)
  const start = await order('start', server)
  const stop = await order('stop', server)
  expect(stop).toMatchObject({ desired: 'stopped', generation: start.generation + 1 })
  const sent = await peer.until('both orders', () => {
    const mine = peer.of('command').filter(({ serverId, generation }) => serverId === server.id && generation > 1)
    return mine.length === 2 ? mine : undefined
  })
  expect(sent.map(({ command }) => command.op)).toEqual(['start', 'stop'])
})

test('a start right after a stop is told that the server is stopping, not that it runs', async () => {
  const server = await serverIn(FACTS.running)
  await order('stop', server)
  expect(await refusal(order('start', server))).toMatchObject({ code: 'SERVER_INVALID_STATE', meta: { currentStatus: 'stopping' } })
  expect(await order('kill', server)).toMatchObject({ action: 'kill' })
})

test('nothing runs beside an installation that is on its way, and a second one is the same', async () => {
  const server = await serverIn(FACTS.stopped)
  const first = await order('install', server)
  expect(await order('install', server)).toEqual(first)
  for (const action of ['start', 'kill', 'reinstall'] as const) {
    expect(await refusal(order(action, server))).toMatchObject({ code: 'SERVER_INVALID_STATE', meta: { currentStatus: 'installing' } })
  }
  await stage.set(server.id, { activity: 'installing' })
  expect(await order('install', server)).toMatchObject({ commandId: first.commandId, status: 'installing' })
  expect(await stage.audits(server.id, 'server.install')).toHaveLength(1)
  await stage.set(server.id, { deletingAt: STAMP })
  expect(await refusal(order('install', server))).toMatchObject({ code: 'SERVER_INVALID_STATE', meta: { currentStatus: 'deleting' } })
})

test('a suspended server shows no figures and cannot be deleted', async () => {
  const server = await serverIn(FACTS.suspended)
  expect((await refusal(stage.admin.call(getServerStats, { params: { serverId: server.id } }))).code).toBe('SERVER_SUSPENDED')
  expect((await refusal(remove(server))).code).toBe('SERVER_SUSPENDED')
})

test('a server on a node that is away is deleted when the node is back', async () => {
  const away = await stage.node()
  const server = await serverIn(FACTS.stopped, away)
  await remove(server)
  await remove(server)
  expect(await stage.get(server.id)).toMatchObject({ status: 'deleting' })
  expect(await stage.audits(server.id, 'server.delete')).toHaveLength(1)
  const stream = stage.watch(`${server.id}/events?types=server_state_update`)
  await stream.until('the greeting', (r) => r.of('connected')[0])
  const back = await stage.peer(away)
  const command = await back.until('the deletion', () => back.of('command').find((frame) => frame.command.op === 'delete'))
  expect(command.command).toEqual({ op: 'delete', keepFiles: false })
  back.event({ type: 'command.done', commandId: command.id, serverId: server.id, ok: false, noop: false, error: { code: 'INTERNAL', message: 'the disk is gone' } })
  await stage.ended(command.id)
  expect(await stage.get(server.id)).toMatchObject({ status: 'deleting', reason: 'It could not be deleted: the disk is gone' })
  await remove(server, { keepFiles: 'true' })
  const again = await back.until('the next', () => back.of('command').find((frame) => frame.command.op === 'delete' && frame.id !== command.id))
  expect(again.command).toEqual({ op: 'delete', keepFiles: true })
  back.finish(again)
  const end = await stream.until('the end', (r) => r.of('error')[0])
  expect(end.data).toMatchObject({ error: 'server_deleted', serverId: server.id })
  await stream.until('the close', (r) => r.ended)
  expect((await refusal(stage.get(server.id))).code).toBe('SERVER_NOT_FOUND')
  const gone = (await stage.events(server.id)).filter(({ type }) => type === 'server_deleted')
  expect(gone.map(({ data }) => JSON.parse(data))).toEqual([{ serverName: server.name, ownerId: server.ownerId, deletedBy: server.ownerId }])
})

test('force forgets a server of a node that does not come back, and its port is free at once', async () => {
  const lost = await stage.node()
  const owner = await stage.person()
  const server = await serverIn(FACTS.unknown, lost)
  await stage.set(server.id, { ownerId: owner.id })
  expect((await refusal(remove(server))).code).toBe('SERVER_INVALID_STATE')
  expect(await stage.get(server.id, owner.client)).toMatchObject({ status: 'unknown', lastKnownStatus: 'running' })
  await remove(server, { force: 'true' })
  expect((await refusal(stage.get(server.id))).code).toBe('SERVER_NOT_FOUND')
  expect((await refusal(stage.get(server.id, owner.client))).code).toBe('PERMISSION_DENIED')
  const heir = await stage.create(template, lost, { primaryPort: server.primaryPort })
  expect(heir.allocationId).toBe(server.allocationId)
  // The node may come back after all: then it is told.
  const back = await stage.peer(lost, { servers: [report(server.id)] })
  const command = await back.until('the deletion', () => back.of('command').find((frame) => frame.serverId === server.id))
  expect(command.command).toEqual({ op: 'delete', keepFiles: false })
  expect((await refusal(remove(heir, { force: 'perhaps' }))).code).toBe('VALIDATION_ERROR')
})
