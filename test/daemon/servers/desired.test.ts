import { afterAll, beforeAll, expect, test } from 'vitest'
import { startServer } from '../../../src/shared/api/power.ts'
import { patchServer, type Server } from '../../../src/shared/api/servers.ts'
import type { ServerReport } from '../../../src/shared/protocol/server.ts'
import { type AgentPeer, report } from '../agent-peer.ts'
import { Stage, type StageNode } from './stage.ts'

let stage: Stage
let node: StageNode
let peer: AgentPeer

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  peer = await stage.peer(node)
})
afterAll(() => stage.close())

const CLEAN = { code: 0, signal: null, oom: false, expected: true, uptimeMs: 10 }

/** A server whose creation is done with. */
async function made(): Promise<Server> {
  const server = await stage.create(await stage.template(), node)
  peer.finish(await commandOf(server.commandId))
  await stage.ended(server.commandId)
  return server
}

const commandOf = (commandId: string) =>
  peer.until('the command', () => peer.of('command').find(({ id }) => id === commandId))

function say(server: Server, change: Partial<ServerReport>): void {
  const event = { type: 'server.state', previous: 'offline', commandId: null } as const
  peer.event({ ...event, report: report(server.id, { ...change }) })
}

test('a game that ends cleanly while an edit is on its way is wanted to be stopped', async () => {
  const server = await made()
  say(server, { power: 'running', pid: 5 })
  await stage.status(server.id, 'running')
  const body = { name: 'another' }
  await stage.admin.call(patchServer, { params: { serverId: server.id }, body })
  const edit = await peer.until('the edit', () =>
    peer.of('command').find(({ serverId, generation }) => serverId === server.id && generation === 2),
  )
  peer.send({ type: 'command.accepted', id: edit.id })
  say(server, { power: 'offline', pid: null, uptimeMs: null, generation: 2, lastExit: CLEAN })
  peer.finish(edit)
  await stage.ended(edit.id)
  expect(await stage.get(server.id)).toMatchObject({ status: 'stopped', desired: 'stopped' })
})

test('a game that has ended cleanly before its start is reported as done is wanted to be stopped', async () => {
  const server = await made()
  const { commandId } = await stage.admin.call(startServer, { params: { serverId: server.id }, body: {} })
  const start = await commandOf(commandId)
  peer.send({ type: 'command.accepted', id: commandId })
  say(server, { power: 'starting', pid: 6, generation: 2 })
  say(server, { power: 'offline', pid: null, uptimeMs: null, generation: 2, lastExit: CLEAN })
  peer.finish(start)
  await stage.ended(commandId)
  expect(await stage.get(server.id)).toMatchObject({ status: 'stopped', desired: 'stopped' })
  const reported = (await stage.events(server.id)).filter(({ type }) => type === 'server_state_update')
  expect(JSON.parse(reported.at(-1)?.data ?? '')).toMatchObject({ state: 'stopped', desired: 'stopped' })
})

test('a game that has crashed before its start is reported as done is still wanted', async () => {
  const server = await made()
  const { commandId } = await stage.admin.call(startServer, { params: { serverId: server.id }, body: {} })
  const start = await commandOf(commandId)
  peer.send({ type: 'command.accepted', id: commandId })
  const crash = { count: 1, crashed: true, nextRestartMs: null }
  const lastExit = { ...CLEAN, code: 1, expected: false }
  say(server, { power: 'offline', pid: null, uptimeMs: null, generation: 2, lastExit, crash })
  peer.finish(start)
  await stage.ended(commandId)
  expect(await stage.get(server.id)).toMatchObject({ status: 'crashed', desired: 'running' })
})
