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
import { getServerStats, type Server } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import type { Client } from '../../../src/shared/client.ts'
import { ACTION_GATES, ServerStatus } from '../../../src/shared/kernel/server-life.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { refusal } from '../place-panel.ts'
import { FACTS, raw, STAMP, Stage, type StageNode } from './stage.ts'

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
const serverIn = (facts: Record<string, unknown>, at: StageNode = node): Promise<Server> =>
  stage.serverIn(template, at, facts)

test('accepts each order exactly from the statuses that allow it, and writes nothing when it refuses', async () => {
  for (const status of ServerStatus.options) {
    for (const action of Object.keys(ENDPOINTS) as Action[]) {
      const server = await serverIn(FACTS[status])
      expect((await stage.get(server.id)).status).toBe(status)
      const allowed: readonly ServerStatus[] = ACTION_GATES[action]
      const call = order(action, server)
      if (allowed.includes(status)) {
        const accepted = await call
        expect(accepted).toMatchObject({
          action,
          status,
          generation: 2,
          desired: action === 'start' || action === 'restart' ? 'running' : 'stopped',
        })
        const commands = await stage.commands(server.id)
        expect(commands.map(({ id }) => id)).toContain(accepted.commandId)
        expect(commands).toHaveLength(2)
        expect((await stage.audits(server.id)).map((row) => row.action)).toEqual([`server.${action}`, 'server.create'])
      } else {
        const expected =
          status === 'suspended'
            ? { code: 'SERVER_SUSPENDED', meta: { suspensionReason: 'bill' } }
            : { code: 'SERVER_INVALID_STATE', meta: { currentStatus: status, allowed } }
        expect({ status, action, ...(await refusal(call)) }).toMatchObject({ status, action, ...expected })
        expect(await stage.commands(server.id)).toHaveLength(1)
        expect(await stage.audits(server.id)).toHaveLength(1)
        expect((await stage.get(server.id)).generation).toBe(1)
      }
    }
  }
}, 30_000)

test('says that the node is away, for every order, and writes nothing', async () => {
  const away = await stage.node()
  for (const facts of [FACTS.stopped, FACTS.crashed, FACTS.unknown]) {
    for (const action of Object.keys(ENDPOINTS) as Action[]) {
      const server = await serverIn(facts, away)
      const refused = await refusal(order(action, server))
      const gated = facts === FACTS.stopped && (action === 'stop' || action === 'kill')
      expect({ action, code: refused.code }).toEqual({ action, code: gated ? 'SERVER_INVALID_STATE' : 'NODE_OFFLINE' })
      expect([await stage.commands(server.id), await stage.audits(server.id)].map(({ length }) => length)).toEqual([
        1, 1,
      ])
    }
  }
})

test('one order by action is the same as its own path, with an audit row of its own', async () => {
  const server = await serverIn(FACTS.running)
  const call = (body: unknown) => raw(stage.panel, powerServer, `/api/servers/${server.id}/power`, body)
  for (const body of [
    {},
    { action: 'explode' },
    { action: 'stop', graceSeconds: -1 },
    { action: 'stop', graceSeconds: 601 },
    [],
    'stop',
  ]) {
    expect({ body, status: (await call(body)).status }).toEqual({ body, status: 400 })
  }
  expect(await call({ action: 'stop', graceSeconds: 7 })).toMatchObject({
    status: 202,
    data: { action: 'stop', desired: 'stopped', generation: 2 },
  })
  expect((await stage.audits(server.id, 'server.power'))[0]).toMatchObject({
    details: { action: 'stop', generation: 2 },
  })
  const stop = await peer.until('the stop', () =>
    peer.of('command').find((frame) => frame.serverId === server.id && frame.command.op === 'stop'),
  )
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
        await stage.db.write((tx) =>
          tx.q
            .updateTable('command')
            .set({ state: 'done', endedAt: tx.now })
            .where('serverId', '=', server.id)
            .execute(),
        )
        const outcome = await call().then(
          () => 'ok',
          (error: { code: string }) => error.code,
        )
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

test('what an order wanted that is still open counts no longer once a newer one has ended', async () => {
  const server = await serverIn(FACTS.stopped)
  await order('start', server)
  const { commandId } = await order('stop', server)
  const stop = await peer.until('the stop', () => peer.of('command').find(({ id }) => id === commandId))
  peer.finish(stop)
  await stage.ended(commandId)
  expect(await order('start', server)).toMatchObject({ action: 'start', status: 'stopped' })
  expect((await refusal(order('start', server))).meta).toMatchObject({ currentStatus: 'starting' })
})

test('a start right after a stop is told that the server is stopping, not that it runs', async () => {
  const server = await serverIn(FACTS.running)
  await order('stop', server)
  expect(await refusal(order('start', server))).toMatchObject({
    code: 'SERVER_INVALID_STATE',
    meta: { currentStatus: 'stopping' },
  })
  expect(await order('kill', server)).toMatchObject({ action: 'kill' })
})

test('nothing runs beside an installation that is on its way, and a second one is the same', async () => {
  const server = await serverIn(FACTS.stopped)
  const first = await order('install', server)
  expect(await order('install', server)).toEqual(first)
  for (const action of ['start', 'kill', 'reinstall'] as const) {
    expect(await refusal(order(action, server))).toMatchObject({
      code: 'SERVER_INVALID_STATE',
      meta: { currentStatus: 'installing' },
    })
  }
  await stage.set(server.id, { activity: 'installing' })
  expect(await order('install', server)).toMatchObject({ commandId: first.commandId, status: 'installing' })
  expect(await stage.audits(server.id, 'server.install')).toHaveLength(1)
  await stage.set(server.id, { deletingAt: STAMP })
  expect(await refusal(order('install', server))).toMatchObject({
    code: 'SERVER_INVALID_STATE',
    meta: { currentStatus: 'deleting' },
  })
})

test('a second installation that wants a start behind it is refused while one without a start is on its way', async () => {
  const install = (server: Server, start: boolean) =>
    stage.admin.call(installServer, { params: { serverId: server.id }, body: { start } })
  const server = await serverIn(FACTS.stopped)
  const first = await install(server, false)
  expect(await refusal(install(server, true))).toMatchObject({
    code: 'SERVER_INVALID_STATE',
    meta: { currentStatus: 'installing' },
  })
  expect(await install(server, false)).toEqual(first)
  const other = await serverIn(FACTS.stopped)
  const starting = await install(other, true)
  expect(starting.desired).toBe('running')
  for (const start of [true, false]) expect(await install(other, start)).toMatchObject(starting)
})

test('a suspended server shows no figures', async () => {
  const server = await serverIn(FACTS.suspended)
  expect((await refusal(stage.admin.call(getServerStats, { params: { serverId: server.id } }))).code).toBe(
    'SERVER_SUSPENDED',
  )
})
