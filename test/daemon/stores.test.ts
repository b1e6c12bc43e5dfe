// @module-tag long
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createNodeKey } from '../../src/shared/api/nodes.ts'
import { startServer, stopServer } from '../../src/shared/api/power.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import { listSystemErrors } from '../../src/shared/api/system-errors.ts'
import type { AgentEvent } from '../../src/shared/protocol/frames.ts'
import type { ServerReport } from '../../src/shared/protocol/server.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { type AgentPeer, report } from './agent-peer.ts'
import { eventually, GatewayStage } from './gateway-stage.ts'

let panel: TestPanel
let stage: GatewayStage
beforeAll(async () => {
  panel = await startPanel()
  stage = new GatewayStage(panel)
})
afterAll(() => panel.close())
afterEach(() => stage.clear())

type Node = Awaited<ReturnType<GatewayStage['node']>>

const state = (serverId: string, change: Partial<ServerReport>): AgentEvent => {
  return { type: 'server.state', report: report(serverId, change), previous: 'offline', commandId: null }
}

/** A server that its agent knows, with every order so far done; answers the number of the last event. */
async function settled(node: Node, change: Partial<ServerReport> = {}): Promise<{ game: Server; last: number }> {
  const game = await stage.server(node)
  const peer = await stage.connect(node)
  await peer.enter()
  for (const command of await peer.until('the commands', () => peer.of('command').length > 0 && peer.of('command')))
    peer.finish(command)
  const last = peer.event(state(game.id, change))
  await acked(peer, last)
  await peer.leave()
  return { game, last }
}

async function acked(peer: AgentPeer, seq: number): Promise<void> {
  await peer.until('the acknowledgement', () => peer.of('event.ack').some((ack) => ack.seq >= seq))
}

const warned = (part: string, nodeId: string) =>
  eventually(
    async () => {
      const rows = await panel.client.call(listSystemErrors, { query: { component: 'gateway', limit: 100 } })
      return rows.find(({ message, metadata }) => message.includes(part) && metadata?.['nodeId'] === nodeId)
    },
    (row) => row !== undefined,
  )

describe('a snapshot', () => {
  it.each([
    ['says at which event it was taken', true, 100],
    ['comes from an agent that only says what its hello knew', false, 100],
    ['is taken in the midst of a few events', true, 5],
  ])('that %s is applied exactly there: newer events of the same batch stay', async (_, saysSo, older) => {
    const node = await stage.node()
    const { game, last } = await settled(node, { power: 'offline' })
    const other = await stage.server(node)
    const peer = await stage.connect(node)
    const taken = last + older
    await peer.enter({
      lastEvent: taken,
      servers: [report(game.id, { pid: 2 })],
      ...(saysSo ? { asOf: taken } : {}),
    })
    // All that was under way in the agent when it took the snapshot, and the end of the game right behind it.
    for (let i = 1; i < 2 * older; i++)
      peer.event(state(game.id, { power: i < older ? 'starting' : 'running', pid: 2 }))
    const end = peer.event(state(game.id, { power: 'offline', pid: null }))
    await acked(peer, end)
    // Whatever was to be done behind the last of them is done before the next one is.
    await acked(peer, peer.event(state(other.id, { power: 'offline', pid: null })))
    expect(await stage.serverNow(game)).toMatchObject({ powerState: 'offline', pid: null })
  })

  it('that is newer than all that comes waits for nothing, and for as long as older events come', async () => {
    const node = await stage.node()
    const { game, last } = await settled(node, { power: 'offline' })
    const peer = await stage.connect(node)
    await peer.enter({ lastEvent: last + 2, asOf: last + 2, servers: [report(game.id, { pid: 9 })] })
    peer.event(state(game.id, { power: 'starting', pid: 9 }))
    await acked(peer, last + 1)
    expect((await stage.serverNow(game)).powerState).toBe('starting')
    peer.event(state(game.id, { power: 'starting', pid: 9 }))
    await acked(peer, last + 2)
    await stage.status(game, 'running')
    await peer.leave()
    const again = await stage.connect(node)
    await again.enter({
      lastEvent: last + 2,
      asOf: last + 2,
      acknowledged: last + 2,
      servers: [report(game.id, { pid: 10 })],
    })
    expect(await stage.serverNow(game)).toMatchObject({ powerState: 'running', pid: 10 })
  })
})

describe('a server of which its node says nothing', () => {
  const resting = { power: 'offline', pid: null, uptimeMs: null } as const

  it('is stopped with the reason when a snapshot does not name it, and nothing of its process is shown', async () => {
    const node = await stage.node()
    const [named, lost, left, crashed] = [
      await stage.server(node),
      await stage.server(node),
      await stage.server(node),
      await stage.server(node),
    ]
    const first = await stage.connect(node)
    const crash = { count: 1, crashed: false, nextRestartMs: 60_000 }
    await first.enter({
      servers: [
        report(named.id),
        report(lost.id, { pid: 7 }),
        report(left.id, { ...resting, activity: 'installing' }),
        report(crashed.id, { ...resting, crash }),
      ],
    })
    expect(await stage.status(lost, 'running')).toMatchObject({ pid: 7 })
    expect((await stage.serverNow(crashed)).nextRestartAt).not.toBeNull()
    const events = await stage.follow(lost.id)
    await first.leave()
    await stage.status(lost, 'unknown')
    await (await stage.connect(node)).enter({ servers: [report(named.id)], orphans: [left.id] })
    const nothing = { powerState: 'offline', pid: null, startedAt: null, lastKnownStatus: null, nextRestartAt: null }
    const forgotten = 'The node does not know this server any more; install it again'
    expect(await stage.status(lost, 'stopped')).toMatchObject({ ...nothing, reason: forgotten })
    expect(await stage.serverNow(crashed)).toMatchObject({ ...nothing, reason: forgotten })
    const itsFiles: unknown = expect.stringContaining('its files are there')
    expect(await stage.serverNow(left)).toMatchObject({ ...nothing, status: 'stopped', reason: itsFiles })
    expect(await stage.serverNow(named)).toMatchObject({ status: 'running', pid: 4242, reason: null })
    const reported = await events.until('the end', (r) => {
      const updates = r.of('server_state_update').map(({ data }) => data)
      return updates.at(-1)?.['state'] === 'stopped' && updates
    })
    expect(reported.map(({ state, previousState, reason }) => [state, previousState, reason])).toEqual([
      ['unknown', 'running', null],
      ['stopped', 'unknown', forgotten],
    ])
  })

  it('is unknown with its last known state while the node is away, unless it was stopped', async () => {
    const [node, other] = [await stage.node(), await stage.node()]
    const powers = ['running', 'starting', 'stopping', 'offline'] as const
    const servers: Server[] = []
    for (const _ of powers) servers.push(await stage.server(node))
    const elsewhere = await stage.server(other)
    const peer = await stage.connect(node)
    await peer.enter({
      servers: servers.map(({ id }, i) =>
        report(id, powers[i] === 'offline' ? resting : { power: powers[i] ?? 'running' }),
      ),
    })
    await (await stage.connect(other)).enter({ servers: [report(elsewhere.id)] })
    await peer.leave()
    const [running] = servers
    if (running === undefined) throw new Error('no servers')
    await stage.status(running, 'unknown')
    const seen = await Promise.all([...servers, elsewhere].map((server) => stage.serverNow(server)))
    expect(seen.map(({ status, lastKnownStatus }) => [status, lastKnownStatus])).toEqual([
      ['unknown', 'running'],
      ['unknown', 'starting'],
      ['unknown', 'stopping'],
      ['stopped', null],
      ['running', null],
    ])
  })
})

describe('a database that is older than the agent', () => {
  it('takes over its generations, says so, and loses no order', async () => {
    const node = await stage.node()
    const { game, last } = await settled(node, { power: 'offline' })
    const peer = await stage.connect(node)
    // As after the database was copied here: the agent went on to generation 5 and to fifty more events.
    const now = last + 50
    const began = await peer.enter({
      lastEvent: now,
      acknowledged: now,
      asOf: now,
      servers: [report(game.id, { generation: 5 })],
    })
    expect(began).toBe(now)
    expect(await stage.serverNow(game)).toMatchObject({ powerState: 'running', generation: 5, desired: 'running' })
    const order = await panel.client.call(stopServer, { params: { serverId: game.id }, body: {} })
    expect(order.generation).toBe(6)
    const sent = await peer.until('the order', () => peer.of('command').find(({ id }) => id === order.commandId))
    expect(sent.generation).toBe(6)
    await warned('The database is older', node.nodeId)
  })

  it('numbers orders that have not left anew, behind those that the agent knows', async () => {
    const node = await stage.node()
    const game = await stage.server(node) // its first order waits for the node
    const peer = await stage.connect(node)
    await peer.enter({ lastEvent: 9, acknowledged: 9, asOf: 9, servers: [report(game.id, { generation: 7 })] })
    const [first] = await peer.until('the order', () => peer.of('command').length > 0 && peer.of('command'))
    expect(first?.generation).toBe(8)
    expect((await stage.serverNow(game)).generation).toBe(8)
  })

  it('learns of servers that were deleted on the node since, so that they can be made anew there', async () => {
    const node = await stage.node()
    const { game, last } = await settled(node, { power: 'offline' })
    const peer = await stage.connect(node)
    await peer.enter({ lastEvent: last, acknowledged: last, asOf: last, gone: [{ serverId: game.id, generation: 12 }] })
    const order = await panel.client.call(startServer, { params: { serverId: game.id }, body: {} })
    expect(order.generation).toBe(13)
  })

  it('tells an agent which orders are over, and goes on with those that it does not know', async () => {
    const node = await stage.node()
    const game = await stage.server(node)
    const peer = await stage.connect(node)
    await peer.enter()
    const [made] = await peer.until('the order', () => peer.of('command').length > 0 && peer.of('command'))
    if (made === undefined) throw new Error('no order')
    await acked(peer, peer.finish(made))
    await peer.leave()
    const again = await stage.connect(node)
    const yesterday = `cmd_${'7'.padStart(26, '0')}`
    const tomorrow = made.id.replace(/.{4}$/, 'zzzz')
    await again.enter({ lastEvent: 5, servers: [report(game.id)], commands: [made.id, yesterday, tomorrow] })
    expect(again.of('snapshot.ok')[0]?.ended).toEqual([made.id, yesterday])
  })
})

describe('an agent that has forgotten', () => {
  it('an order that it had accepted: the order ends as interrupted behind the last event, not before', async () => {
    const node = await stage.node()
    const { game, last } = await settled(node, { power: 'offline' })
    const peer = await stage.connect(node)
    await peer.enter({
      lastEvent: last,
      asOf: last,
      acknowledged: last,
      servers: [report(game.id, { power: 'offline' })],
    })
    const { commandId } = await panel.client.call(startServer, { params: { serverId: game.id }, body: {} })
    await peer.until('the order', () => peer.of('command').some(({ id }) => id === commandId))
    peer.send({ type: 'command.accepted', id: commandId })
    await acked(peer, peer.event(state(game.id, { power: 'offline', generation: 2 })))
    await peer.leave()
    const events = await stage.follow(game.id)
    const again = await stage.connect(node)
    await again.enter({
      lastEvent: last + 2,
      asOf: last + 2,
      acknowledged: last + 1,
      servers: [report(game.id, { generation: 2 })],
    })
    again.event(state(game.id, { power: 'offline', generation: 2 }))
    const done = await events.until('the end of the order', (r) =>
      r.of('server_command_done').find(({ data }) => data['commandId'] === commandId),
    )
    expect(done.data).toMatchObject({ ok: false, code: 'INTERRUPTED' })
    await stage.status(game, 'running')
  })

  it.each([
    ['its whole journal', { journalId: 'journal-2', lastEvent: 0 }],
    ['the end of its journal', { journalId: 'journal-1', lastEvent: 1 }],
    ['a part of its journal, as it says', { journalId: 'journal-1', lastEvent: 100, journalDamaged: true }],
  ])('%s is told what is wanted, and gets the specification again', async (_, hello) => {
    const node = await stage.node()
    const { game } = await settled(node, { power: 'offline' })
    const peer = await stage.connect(node)
    await peer.enter({ ...hello, asOf: 0, servers: [report(game.id, { generation: 0 })] })
    expect(peer.of('snapshot.ok')[0]?.settled).toEqual([{ serverId: game.id, generation: 1, desired: 'stopped' }])
    const sent = await peer.until('the specification', () =>
      peer.of('command').find(({ command }) => command.op === 'apply'),
    )
    expect(sent).toMatchObject({ serverId: game.id, generation: 1, command: { spec: { serverId: game.id } } })
    expect((await stage.serverNow(game)).powerState).toBe('running')
    await warned('has lost its journal', node.nodeId)
  })

  it('nothing is told nothing', async () => {
    const node = await stage.node()
    const { game, last } = await settled(node)
    const peer = await stage.connect(node)
    await peer.enter({ lastEvent: last, asOf: last, acknowledged: last, servers: [report(game.id)] })
    expect(peer.of('snapshot.ok')).toEqual([{ type: 'snapshot.ok', unknown: [], ended: [], settled: [] }])
    expect(peer.of('command')).toEqual([])
  })
})

describe('two agents with one key', () => {
  const home = { id: 'machine-a', bootId: 'boot-a' }

  it('the one on another machine is refused with the reason, and the first one does not notice', async () => {
    const node = await stage.node()
    const { game } = await settled(node)
    const first = await stage.connect(node)
    await first.enter({ machine: home, servers: [report(game.id)] })
    const copy = await stage.connect(node)
    copy.hello({ machine: { id: 'machine-b', bootId: 'boot-b' }, journalId: 'journal-b' })
    expect(await copy.until('the end', () => copy.closeCode)).toBe(4409)
    expect(copy.of('error')[0]).toMatchObject({
      error: 'OTHER_MACHINE',
      message: expect.stringContaining('panel nodes enroll-token'),
    })
    await first.leave()
    // Nor does it get in while the first one is away: the operator decides.
    const later = await stage.connect(node)
    later.hello({ machine: { id: 'machine-b', bootId: 'boot-b' }, journalId: 'journal-b' })
    expect(await later.until('the end', () => later.closeCode)).toBe(4409)
    await stage.status(game, 'unknown')
    await warned('Another machine has connected', node.nodeId)
  })

  it('a copy of the whole machine is refused while the first one answers, and let in when it does not', async () => {
    const node = await stage.node()
    const first = await stage.connect(node)
    await first.enter({ machine: home })
    const copy = await stage.connect(node)
    copy.hello({ machine: { ...home, bootId: 'boot-b' } })
    expect(await copy.until('the end', () => copy.closeCode)).toBe(4409)
    expect(first.closeCode).toBeUndefined()
    // Frozen, as a machine that was restarted without a word: it answers no ping.
    first.socket.pause()
    await (await stage.connect(node)).enter({ machine: { ...home, bootId: 'boot-c' } })
    first.socket.resume()
    expect(await first.until('the end', () => first.closeCode)).toBe(4409)
  })

  it('a machine that gets a new key is the node', async () => {
    const node = await stage.node()
    await (await stage.connect(node)).enter({ machine: home })
    const made = await panel.client.call(createNodeKey, { params: { nodeId: node.nodeId }, body: { regenerate: true } })
    const moved = await stage.connect({ ...node, key: made.apiKey })
    await moved.enter({ machine: { id: 'machine-b', bootId: 'boot-b' } })
    expect(moved.closeCode).toBeUndefined()
  })

  it('that say nothing of their machines: the one that is there stays', async () => {
    const node = await stage.node()
    const first = await stage.connect(node)
    await first.enter()
    const copy = await stage.connect(node)
    copy.hello({ journalId: 'journal-b' })
    expect(await copy.until('the end', () => copy.closeCode)).toBe(4409)
    expect(first.closeCode).toBeUndefined()
  })

  it('when the first one hangs: servers that only it has are unknown, not stopped', async () => {
    const node = await stage.node()
    const { game } = await settled(node)
    const first = await stage.connect(node)
    await first.enter({ servers: [report(game.id)] })
    first.socket.pause()
    await (await stage.connect(node)).enter({ journalId: 'journal-b' })
    const reason: unknown = expect.stringContaining('Two agents')
    expect(await stage.serverNow(game)).toMatchObject({ status: 'unknown', lastKnownStatus: 'running', reason })
    first.socket.resume()
  })
})
