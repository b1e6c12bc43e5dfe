import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { startServer } from '../../src/shared/api/power.ts'
import { pauseBefore } from '../faulty-driver.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { type AgentPeer, report } from './agent-peer.ts'
import type { ConsoleReader } from './console-reader.ts'
import { eventually, GatewayStage } from './gateway-stage.ts'

let panel: TestPanel
let stage: GatewayStage
beforeAll(async () => {
  panel = await startPanel()
  stage = new GatewayStage(panel)
})
afterAll(() => panel.close())
afterEach(() => stage.clear())

test('stores events in order, acknowledges them, and leaves out what it has', async () => {
  const node = await stage.node()
  const game = await stage.server(node)
  const peer = await stage.connect(node)
  await peer.enter()
  for (const command of await peer.until('the commands', () => peer.of('command'))) peer.finish(command)
  const states = ['starting', 'running', 'stopping', 'offline'] as const
  let last = 0
  for (let round = 0; round < 100; round++) {
    const power = states[round % 4] ?? 'offline'
    const event = {
      type: 'server.state' as const,
      report: report(game.id, { power }),
      previous: 'offline' as const,
      commandId: null,
    }
    last = peer.event(event)
  }
  last = peer.event({ type: 'server.state', report: report(game.id, { pid: 7 }), previous: 'offline', commandId: null })
  await peer.until('the last acknowledgement', () => peer.of('event.ack').some(({ seq }) => seq === last))
  const acks = peer.of('event.ack').map(({ seq }) => seq)
  expect(acks).toEqual([...acks].sort((a, b) => a - b))
  peer.event(
    { type: 'server.state', report: report(game.id, { power: 'offline' }), previous: 'running', commandId: null },
    1,
  )
  await peer.until('the repeated one', () => peer.of('event.ack').length > acks.length)
  expect(await stage.serverNow(game)).toMatchObject({ powerState: 'running', pid: 7 })
  await peer.leave()
  const again = await stage.connect(node)
  expect(await again.enter({ lastEvent: last, servers: [report(game.id)] })).toBe(last)
})

test('tells the history before the snapshot when older events are still to come', async () => {
  const node = await stage.node()
  const game = await stage.server(node)
  const peer = await stage.connect(node)
  await peer.enter({ lastEvent: 1, servers: [report(game.id, { power: 'running', pid: 2 })] })
  expect((await stage.serverNow(game)).powerState).toBe('offline')
  peer.event({
    type: 'server.state',
    report: report(game.id, { power: 'starting', pid: 2 }),
    previous: 'offline',
    commandId: null,
  })
  await eventually(
    () => stage.serverNow(game),
    ({ powerState }) => powerState === 'running',
  )
})

test('sends a command until it is accepted, with one id over connections, and stores its end', async () => {
  const node = await stage.node()
  const { nodeId } = node
  const peer = await stage.connect(node)
  const game = await stage.server(node)
  await peer.enter({ servers: [report(game.id, { power: 'offline', generation: 1 })] })
  for (const { id } of peer.of('command')) peer.send({ type: 'command.accepted', id })
  const { commandId } = await panel.client.call(startServer, { params: { serverId: game.id }, body: {} })
  const mine = (of: AgentPeer) => of.of('command').filter(({ id }) => id === commandId)
  await peer.until('the command to be sent twice', () => mine(peer).length >= 2)
  await peer.leave()
  const again = await stage.connect(node)
  await again.enter({ servers: [report(game.id, { power: 'offline' })] })
  const [command] = await again.until('the command after a reconnect', () => mine(again).length > 0 && mine(again))
  expect(command?.command).toMatchObject({ op: 'start', spec: { serverId: game.id } })
  if (command === undefined) throw new Error('no command')
  const seq = again.finish(command)
  await again.until('the acknowledgement', () => again.of('event.ack').some((ack) => ack.seq >= seq))
  await again.leave()
  const third = await stage.connect(node)
  await third.enter({ servers: [report(game.id)] })
  await stage.online(nodeId, true)
  expect(mine(third)).toEqual([])
})

test('an order that comes while others are being made ready is sent behind them, not when the queue is looked at again', async () => {
  const node = await stage.node()
  const peer = await stage.connect(node)
  const [first, second] = [await stage.server(node), await stage.server(node)]
  await peer.enter({ servers: [first, second].map(({ id }) => report(id, { power: 'offline' })) })
  await peer.until('the commands', () => peer.of('command').length === 2)
  await stage.server(node) // a new one, after which the specifications of the others are read again
  const made = await peer.until('its command', () => peer.of('command').length === 3 && peer.of('command'))
  const last = Math.max(...made.map((command) => peer.finish(command)))
  await peer.until('the acknowledgement', () => peer.of('event.ack').some(({ seq }) => seq >= last))
  const start = async ({ id: serverId }: typeof first) =>
    (await panel.client.call(startServer, { params: { serverId }, body: {} })).commandId
  let given: Promise<string> | undefined
  // Up to where the queue has been read behind the commit of the first one, and the specifications of what was in it are not.
  const passed = [
    /^COMMIT$|^insert into script_/,
    /^select .* from "command" .*"state" = /s,
    /^select .* from "server" .*json_each/s,
  ]
  const pause = pauseBefore(async ({ sql }) => {
    if (passed[0]?.test(sql) === true) passed.shift()
    if (passed.length > 0 || given !== undefined) return
    given = start(second)
    await given
  })
  try {
    const one = await start(first)
    await peer.until('the first order', () => peer.of('command').some(({ id }) => id === one))
    const other = await given
    await peer.until('the second order', () => peer.of('command').some(({ id }) => id === other), 3000)
  } finally {
    pause.remove()
  }
})

test('what a lost journal had accepted is told as interrupted', async () => {
  const node = await stage.node()
  const peer = await stage.connect(node)
  const game = await stage.server(node)
  await peer.enter({ servers: [report(game.id, { power: 'offline' })] })
  for (const command of peer.of('command')) peer.finish(command)
  const { commandId } = await panel.client.call(startServer, { params: { serverId: game.id }, body: {} })
  await peer.until('the command', () => peer.of('command').some(({ id }) => id === commandId))
  peer.send({ type: 'command.accepted', id: commandId })
  const seq = peer.event({
    type: 'server.state',
    report: report(game.id, { power: 'offline' }),
    previous: 'offline',
    commandId: null,
  })
  await peer.until('the acknowledgement', () => peer.of('event.ack').some((ack) => ack.seq >= seq))
  await peer.leave()
  const events = await stage.follow(game.id)
  const again = await stage.connect(node)
  expect(await again.enter({ journalId: 'journal-2', servers: [report(game.id, { power: 'offline' })] })).toBe(0)
  expect(await ended(events, commandId)).toMatchObject({ ok: false, code: 'INTERRUPTED', op: 'start' })
  expect(again.of('command').filter(({ id }) => id === commandId)).toEqual([])
})

test('an order that a lost journal still names goes on', async () => {
  const node = await stage.node()
  const peer = await stage.connect(node)
  const game = await stage.server(node)
  await peer.enter({ servers: [report(game.id, { power: 'offline' })] })
  for (const command of peer.of('command')) peer.finish(command)
  const { commandId } = await panel.client.call(startServer, { params: { serverId: game.id }, body: {} })
  await peer.until('the command', () => peer.of('command').some(({ id }) => id === commandId))
  peer.send({ type: 'command.accepted', id: commandId })
  const seq = peer.event({
    type: 'server.state',
    report: report(game.id, { power: 'offline' }),
    previous: 'offline',
    commandId: null,
  })
  await peer.until('the acknowledgement', () => peer.of('event.ack').some((ack) => ack.seq >= seq))
  await peer.leave()
  const events = await stage.follow(game.id)
  const again = await stage.connect(node)
  await again.enter({ journalId: 'journal-2', commands: [commandId], servers: [report(game.id, { power: 'offline' })] })
  again.event({ type: 'command.done', commandId, serverId: game.id, ok: true, noop: false, error: null })
  expect(await ended(events, commandId)).toMatchObject({ ok: true, code: null })
})

test('servers of a node that goes become unknown, and what they are when it is back', async () => {
  const node = await stage.node()
  const game = await stage.server(node)
  const peer = await stage.connect(node)
  await peer.enter({ servers: [report(game.id)] })
  await stage.status(game, 'running')
  peer.socket.terminate()
  const away = await stage.status(game, 'unknown')
  expect(away.lastKnownStatus).toBe('running')
  await (await stage.connect(node)).enter({ servers: [report(game.id)] })
  await stage.status(game, 'running')
})

/** The news that the order has ended. */
function ended(events: ConsoleReader, commandId: string): Promise<Record<string, unknown>> {
  return events.until('the end of the order', (reader) => {
    return reader.of('server_command_done').find(({ data }) => data['commandId'] === commandId)?.data
  })
}

test('takes a snapshot in several parts as one', async () => {
  const node = await stage.node()
  const [first, last, absent] = [await stage.server(node), await stage.server(node), await stage.server(node)]
  const before = await stage.connect(node)
  await before.enter({ servers: [first, last, absent].map(({ id }) => report(id)) })
  await Promise.all([first, last, absent].map((game) => stage.status(game, 'running')))
  await before.leave()

  const peer = await stage.connect(node)
  const many = Array.from({ length: 1000 }, (_, i) => report(`srv_part${i}`))
  const part = { type: 'snapshot' as const, commands: [], orphans: [], more: true as const }
  peer.hello({ lastEvent: 0 })
  await peer.until('the welcome', () => peer.of('welcome')[0])
  peer.send({ ...part, servers: [report(first.id, { pid: 11 }), ...many] })
  peer.send({ ...part, servers: many.map((said) => ({ ...said, serverId: `${said.serverId}b` })) })
  expect(peer.of('snapshot.ok')).toEqual([])
  peer.send({ type: 'snapshot', servers: [report(last.id, { pid: 22 })], commands: [], orphans: [] })
  const { unknown } = await peer.until('the snapshot to be taken', () => peer.of('snapshot.ok')[0])
  expect(unknown).toHaveLength(2000)
  expect(await stage.status(first, 'running')).toMatchObject({ pid: 11 })
  expect(await stage.status(last, 'running')).toMatchObject({ pid: 22 })
  await stage.status(absent, 'stopped')
})

test('ends the connection of an agent whose snapshot has no end', async () => {
  const node = await stage.node()
  const peer = await stage.connect(node)
  peer.hello()
  await peer.until('the welcome', () => peer.of('welcome')[0])
  for (let i = 0; i < 100; i++) peer.send({ type: 'snapshot', servers: [], commands: [], orphans: [], more: true })
  expect(await peer.until('the end', () => peer.closeCode)).toBe(4400)
})
