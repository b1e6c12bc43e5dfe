import { afterAll, beforeAll, expect, test } from 'vitest'
import { createServerInvite, setServerAccess, transferOwnership } from '../../../src/shared/api/access.ts'
import { getLogs, sendCommand } from '../../../src/shared/api/console.ts'
import {
  installServer,
  killServer,
  reinstallServer,
  restartServer,
  startServer,
  stopServer,
} from '../../../src/shared/api/power.ts'
import {
  deleteServer,
  getServerStats,
  listServers,
  type Server,
  updateServer,
} from '../../../src/shared/api/servers.ts'
import { suspendServer, unsuspendServer } from '../../../src/shared/api/suspension.ts'
import type { Client } from '../../../src/shared/client.ts'
import { report } from '../agent-peer.ts'
import { refusal } from '../place-panel.ts'
import { FACTS, Stage, type StageNode } from './stage.ts'

let stage: Stage
let game: { id: string }
let away: StageNode

beforeAll(async () => {
  stage = await Stage.open({ agent: true })
  game = await stage.template({
    startup: 'echo ready; exec sleep 1000',
    startupDetection: { done: [{ kind: 'contains', value: 'ready' }] },
    stopTimeoutSeconds: 5,
  })
  away = await stage.node()
})
afterAll(() => stage.close())

const on = (server: { id: string }) => ({ params: { serverId: server.id } })
const suspend = (server: { id: string }, body: object = {}, client = stage.admin): Promise<Server> =>
  client.call(suspendServer, { ...on(server), body })
const unsuspend = (server: { id: string }, client = stage.admin): Promise<Server> =>
  client.call(unsuspendServer, on(server))

test('a suspended server is stopped, refuses everything but reads, and may be started when that is over', async () => {
  const server = await stage.create(game, stage.here, { start: true })
  await stage.status(server.id, 'running')
  const console = stage.watch(`${server.id}/console/stream`)
  const events = stage.watch(`${server.id}/events`)
  await console.until('the greeting', (r) => r.of('connected')[0])
  await events.until('the greeting', (r) => r.of('connected')[0])
  const answer = await suspend(server, { reason: 'unpaid' })
  expect(answer).toMatchObject({ status: 'suspended', desired: 'stopped', suspensionReason: 'unpaid' })
  expect(answer.suspendedByUserId).toBe(server.ownerId)
  const end = await console.until('the end of the console', (r) => r.of('error')[0])
  expect(end.data).toMatchObject({ error: 'server_suspended', serverId: server.id })
  await events.until('the end of the process', (r) =>
    r.of('server_command_done').find(({ data }) => data['op'] === 'stop' && data['ok'] === true),
  )
  expect(await stage.get(server.id)).toMatchObject({ status: 'suspended', powerState: 'offline', pid: null })
  const { data: listed } = await stage.admin.page(listServers, { query: { status: 'suspended' } })
  expect(listed.map(({ id }) => id)).toEqual([server.id])
  const meta = { suspendedAt: answer.suspendedAt, suspensionReason: 'unpaid' }
  for (const refused of tries(stage.admin, server)) {
    expect(await refusal(refused())).toMatchObject({ code: 'SERVER_SUSPENDED', meta })
  }
  expect((await refusal(suspend(server))).code).toBe('SERVER_ALREADY_SUSPENDED')
  expect(await unsuspend(server)).toMatchObject({ status: 'stopped', suspendedAt: null, suspensionReason: null })
  expect((await refusal(unsuspend(server))).code).toBe('SERVER_NOT_SUSPENDED')
  const reported = events.frames.filter(({ event }) => event.startsWith('server_suspended'))
  expect(reported.map(({ data }) => data)).toMatchObject([
    { serverName: server.name, suspendedBy: server.ownerId, reason: 'unpaid' },
  ])
  expect((await stage.audits(server.id)).map(({ action }) => action)).toEqual(
    expect.arrayContaining(['server.suspend', 'server.unsuspend']),
  )
  await stage.admin.call(startServer, { ...on(server), body: {} })
  await stage.status(server.id, 'running')
  await stage.admin.call(killServer, { ...on(server), body: {} })
  await stage.status(server.id, 'stopped')
})

/** Everything that a suspended server refuses. */
function tries(client: Client, server: Server): (() => Promise<unknown>)[] {
  const orders = [startServer, stopServer, restartServer, killServer, installServer, reinstallServer]
  return [
    ...orders.map((endpoint) => () => client.call(endpoint, { ...on(server), body: {} })),
    () => client.call(updateServer, { ...on(server), body: { name: 'other' } }),
    () => client.call(deleteServer, { ...on(server), query: {} }),
    () => client.call(getServerStats, on(server)),
    () => client.call(sendCommand, { ...on(server), body: { command: 'x' } }),
    () => client.call(getLogs, { ...on(server), query: {} as never }),
    () =>
      client.call(setServerAccess, {
        ...on(server),
        body: { targetUserId: 'usr_none', permissions: ['server.read'] },
      }),
    () =>
      client.call(createServerInvite, {
        ...on(server),
        body: { email: 'guest@example.org', permissions: ['server.read'] },
      }),
    () => client.call(transferOwnership, { ...on(server), body: { newOwnerId: 'usr_none' } }),
  ]
}

test('a node that is away hears of it when it is back, and a start that was on its way gets nowhere', async () => {
  const node = await stage.node()
  const server = await stage.create(game, node, { start: true })
  expect(await suspend(server)).toMatchObject({ status: 'suspended', suspensionReason: null })
  const peer = await stage.peer(node)
  await peer.until('all orders', () => peer.of('command').length === 3)
  const sent = peer.of('command').map(({ command }) => [command.op, 'spec' in command ? command.spec.suspended : null])
  expect(sent).toEqual([
    ['start', true],
    ['apply', true],
    ['stop', null],
  ])
  await unsuspend(server)
  const last = await peer.until('the new specification', () => peer.of('command')[3])
  expect(last.command).toMatchObject({ op: 'apply', spec: { suspended: false } })
})

test('a server may run on until it ends, and is what its node says when the suspension is over', async () => {
  const node = await stage.node()
  const server = await stage.serverIn(game, node, FACTS.running)
  const peer = await stage.peer(node, {
    servers: [report(server.id, { power: 'running', generation: server.generation })],
  })
  await suspend(server, { stopServer: false })
  await peer.until('the specification', () => peer.of('command').length > 0)
  expect(peer.of('command').map(({ command }) => command.op)).toEqual(['apply'])
  expect(await stage.get(server.id)).toMatchObject({ status: 'suspended', powerState: 'running' })
  expect(await unsuspend(server)).toMatchObject({ status: 'running' })
  await stage.set(server.id, { power: 'offline', pid: null }) // nothing is there that could be ended
})

test('only who holds server.suspend may do it, and neither to a server that goes nor to one that is put away', async () => {
  const owner = await stage.person()
  const server = await stage.create(game, away)
  await stage.set(server.id, { ownerId: owner.id })
  expect((await refusal(suspend(server, {}, owner.client))).code).toBe('PERMISSION_DENIED')
  const warden = await stage.person(['server.suspend'])
  await suspend(server, {}, warden.client)
  expect((await refusal(unsuspend(server, owner.client))).code).toBe('PERMISSION_DENIED')
  await unsuspend(server, warden.client)
  for (const facts of [FACTS.deleting, FACTS.archived]) {
    const other = await stage.serverIn(game, away, facts)
    expect((await refusal(suspend(other))).code).toBe('SERVER_INVALID_STATE')
    expect((await refusal(unsuspend(other))).code).toBe('SERVER_INVALID_STATE')
  }
  expect((await refusal(suspend({ id: 'srv_none' }))).code).toBe('SERVER_NOT_FOUND')
  expect((await refusal(suspend(server, { reason: 'x'.repeat(501) }))).fields).toEqual(['body.reason'])
})

test('of twenty suspensions at once one is done', async () => {
  const server = await stage.create(game, away)
  const tries = await Promise.allSettled(Array.from({ length: 20 }, () => suspend(server)))
  expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(await stage.audits(server.id, 'server.suspend')).toHaveLength(1)
})

test('where the configuration allows it a suspended server is deleted like any other', async () => {
  const lenient = await Stage.open({ env: { PANEL_SUSPENSION__DELETE_POLICY: 'allow' } })
  try {
    const template = await lenient.template()
    const node = await lenient.node()
    await lenient.peer(node)
    const stopped = await lenient.serverIn(template, node, { ...FACTS.stopped, ...FACTS.suspended })
    const running = await lenient.serverIn(template, node, { ...FACTS.running, ...FACTS.suspended })
    await lenient.admin.call(deleteServer, { ...on(stopped), query: {} })
    expect((await lenient.get(stopped.id)).status).toBe('deleting')
    const refused = await refusal(lenient.admin.call(deleteServer, { ...on(running), query: {} }))
    expect(refused).toMatchObject({ code: 'SERVER_INVALID_STATE', meta: { currentStatus: 'running' } })
  } finally {
    await lenient.close()
  }
})
