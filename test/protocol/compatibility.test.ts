import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { readFrame } from '../../src/daemon/gateway/wire.ts'
import { getLogs, sendCommand } from '../../src/shared/api/console.ts'
import { listOrphans } from '../../src/shared/api/orphans.ts'
import { powerServer } from '../../src/shared/api/power.ts'
import { createServer, deleteServer, type Server } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { AgentStage } from '../agent/agent-stage.ts'
import type { AgentPeer } from '../daemon/agent-peer.ts'
import { GatewayStage } from '../daemon/gateway-stage.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { quietPort } from '../ports.ts'
import { missing, type Recorded, readRecording, rewritten } from './recording.ts'
import { readSent } from './wire.ts'

const recording = readRecording()
const of = (from: Recorded['from'], type: string) =>
  recording.flatMap(({ from: sender, frame }) => (sender === from && frame.type === type ? [frame] : []))
const [oldCommand] = of('daemon', 'command')
const oldServerId = String(oldCommand?.['serverId'])

describe('the parsers of today', () => {
  test('read every recorded frame of an agent without losing a field', () => {
    const frames = recording.filter(({ from }) => from === 'agent')
    expect(frames.length).toBeGreaterThan(40)
    for (const { frame } of frames) {
      const read = readFrame(JSON.stringify(frame))
      expect(read).toMatchObject({ kind: 'frame', frame })
    }
  })

  test('read every recorded frame of a daemon without losing a field', () => {
    const frames = recording.filter(({ from }) => from === 'daemon')
    expect(frames.length).toBeGreaterThan(20)
    for (const { frame } of frames) expect(readSent(frame)).toMatchObject(frame)
  })
})

describe('a daemon of today with a recorded agent', () => {
  let panel: TestPanel
  let stage: GatewayStage
  beforeAll(async () => {
    panel = await startPanel()
    stage = new GatewayStage(panel)
  })
  afterAll(() => panel.close())
  afterEach(() => stage.clear())

  test('installs, starts, restarts, types, stops and deletes, and sends what that agent understands', async () => {
    const node = await stage.node()
    const server = await installable(panel, node)
    const peer = await stage.connect(node)
    const agent = new RecordedAgent(peer, server.id)
    await agent.enter()
    const events = await stage.follow(server.id)
    await agent.carryOut('install')
    // Until the end of its order is stored, a server that is said to have stopped takes no other.
    await events.until('the end of the install', (r) => r.of('server_command_done').length === 1)
    await stage.status(server, 'stopped')
    for (const [index, action] of (['start', 'restart'] as const).entries()) {
      await panel.client.call(powerServer, { params: { serverId: server.id }, body: { action, graceSeconds: 5 } })
      await agent.carryOut(action)
      await events.until(`the end of the ${action}`, (r) => r.of('server_command_done').length === index + 2)
      await stage.status(server, 'running')
    }
    await panel.client.call(sendCommand, { params: { serverId: server.id }, body: { command: 'hello' } })
    const { logs } = await panel.client.call(getLogs, { params: { serverId: server.id }, query: { lines: 50 } })
    expect(logs.map(({ data }) => data).join('\n')).toContain('got hello')
    expect(await panel.client.call(listOrphans, { params: { nodeId: node.nodeId } })).toEqual([])
    await panel.client.call(powerServer, { params: { serverId: server.id }, body: { action: 'stop' } })
    await agent.carryOut('stop')
    await stage.status(server, 'stopped')
    await panel.client.call(deleteServer, { params: { serverId: server.id }, query: {} })
    await agent.carryOut('delete')
    expect(agent.misread).toEqual([])
    expect(peer.closeCode).toBeUndefined()
  })
})

describe('an agent of today with a recorded daemon', () => {
  let stage: AgentStage
  beforeEach(async () => {
    stage = await AgentStage.enter()
    await stage.startAgent()
  })
  afterEach(() => stage.leave([]))

  test('does what was recorded, and sends what that daemon understands', async () => {
    const port = String(await quietPort())
    const oldPort = JSON.stringify(oldCommand).match(/"port":(\d+)/)?.[1] ?? ''
    for (const { from, frame } of recording) {
      if (from !== 'daemon' || (frame.type !== 'command' && frame.type !== 'request')) continue
      const sent = rewritten(frame, { [`"port":${oldPort}`]: `"port":${port}` })
      stage.peer.sendRaw(JSON.stringify(sent))
      const id = String(frame['id'])
      if (frame.type === 'command') {
        expect(await stage.peer.done(id)).toMatchObject({ ok: true, noop: false })
      } else {
        const reply = await stage.peer.until(`the reply to ${id}`, () =>
          stage.peer.of('reply').find((found) => found.id === id),
        )
        expect(reply.error).toBeNull()
        const old = of('agent', 'reply').find((found) => found['id'] === id)
        expect(missing(old?.['result'], reply.result)).toEqual([])
      }
    }
    await stage.peer.until('figures', () => stage.peer.of('health')[0])
    for (const type of ['hello', 'snapshot', 'event', 'command.accepted', 'console', 'health'] as const) {
      const [old] = of('agent', type)
      const [now] = stage.peer.of(type)
      expect(missing(old, now), type).toEqual([])
    }
    const isDone = (event: unknown): boolean => (event as { type: string }).type === 'command.done' // every event has a type
    const old = of('agent', 'event').find(({ event }) => isDone(event))
    expect(missing(old?.['event'], stage.peer.events().find(isDone))).toEqual([])
  }, 60_000)
})

/** Sends what the recorded agent has sent, at the places where it did; notes what it would have missed in what it gets. */
class RecordedAgent {
  /** Fields that the recorded agent was sent and this one was not. */
  readonly misread: string[] = []
  readonly #peer: AgentPeer
  readonly #serverId: string
  #done = 0

  constructor(peer: AgentPeer, serverId: string) {
    this.#peer = peer
    this.#serverId = serverId
    for (const op of ['console.input', 'console.fetch', 'orphans.list', 'stats.watch', 'console.subscribe']) {
      peer.silent.add(op)
    }
    peer.socket.on('message', (data) => this.#reply(JSON.parse(data.toString())))
  }

  async enter(): Promise<void> {
    const [hello] = of('agent', 'hello')
    const [snapshot] = of('agent', 'snapshot')
    this.#send(hello)
    await this.#peer.until('the welcome', () => this.#peer.of('welcome')[0])
    this.#send(snapshot)
    await this.#peer.until('the snapshot to be taken', () => this.#peer.of('snapshot.ok')[0])
  }

  /** Waits for the next command and sends all that followed it in the recording. */
  async carryOut(op: string): Promise<void> {
    const command = await this.#peer.until(`the ${op}`, () => this.#peer.of('command')[this.#done])
    this.#done += 1
    expect(command.command.op).toBe(op)
    const start = recording.findIndex(({ frame }) => (frame['command'] as { op?: string } | undefined)?.op === op)
    const old = recording[start]?.frame
    this.misread.push(...missing(old, command, op))
    const changes = { [String(old?.['id'])]: command.id }
    for (const { from, frame } of recording.slice(start + 1)) {
      if (from === 'daemon' && frame.type === 'command') return
      if (from === 'agent' && (frame.type === 'event' || frame.type === 'command.accepted')) this.#send(frame, changes)
    }
  }

  #reply(frame: Recorded['frame']): void {
    if (frame.type !== 'request') return
    const { op } = frame['request'] as { op: string } // every request has one
    const asked = of('daemon', 'request').findLast(({ request }) => (request as { op: string }).op === op)
    const answered = of('agent', 'reply').find(({ id }) => id === asked?.['id'])
    // Where lines are read from differs with what a viewer has.
    const varies = { tail: undefined, after: undefined, before: undefined, epoch: undefined }
    const old = JSON.parse(JSON.stringify({ ...(asked?.['request'] as object), ...varies }))
    this.misread.push(...missing(old, frame['request'], op))
    if (answered !== undefined) this.#send({ ...answered, id: frame['id'] })
  }

  #send(frame: object | undefined, changes: Readonly<Record<string, string>> = {}): void {
    const text = JSON.stringify(rewritten(frame, { ...changes, [oldServerId]: this.#serverId }))
    this.#peer.socket.send(text)
  }
}

async function installable(panel: TestPanel, node: Awaited<ReturnType<GatewayStage['node']>>): Promise<Server> {
  const template = await panel.client.call(createTemplate, {
    body: { name: 'Echo', startup: 'exec sh ./game.sh', installScript: 'true', installEntrypoint: 'sh' },
  })
  const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.5, allocatedDiskMb: 64 }
  const place = { nodeId: node.nodeId, locationId: node.locationId, templateId: template.id, primaryPort: 21_000 }
  return await panel.client.call(createServer, { body: { name: 'Recorded', ...sizes, ...place } })
}
