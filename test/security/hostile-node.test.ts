import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { listNodes } from '../../src/shared/api/nodes.ts'
import { listServers } from '../../src/shared/api/servers.ts'
import { report } from '../daemon/agent-peer.ts'
import { GatewayStage } from '../daemon/gateway-stage.ts'
import { startPanel, type TestPanel } from '../panel.ts'

// An agent that was taken over: none of its texts has a size or a character that others have to bear.

const ESCAPES = '\u001b]0;title\u0007\u001b[2J\u001b[6n\u001b]52;c;aGk=\u0007\u009b31m\u202e\u0000\r\n\u2028'
const LONG = `${ESCAPES}${'x'.repeat(200_000)}`
/** The same where several of them have to fit into a frame. */
const WORD = LONG.slice(0, 20_000)
/** A second spelling of what no answer holds. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/

let panel: TestPanel
let stage: GatewayStage
beforeAll(async () => {
  panel = await startPanel()
  stage = new GatewayStage(panel)
})
afterEach(() => stage.clear())
afterAll(() => panel.close())

describe('a text of an agent', () => {
  it.each(['reason', 'installError'] as const)('in %s is short and plain in every answer and event', async (field) => {
    const node = await stage.node()
    const server = await stage.server(node)
    const events = await stage.follow(server.id)
    const peer = await stage.connect(node)
    await peer.enter({ servers: [report(server.id, { power: 'offline', pid: null, uptimeMs: null, [field]: LONG })] })
    await events.until('the state', (reader) => reader.of('server_state_update')[0])
    const [listed] = await panel.client.call(listServers, { query: { search: server.name } })
    const reported = JSON.parse(JSON.stringify(events.of('server_state_update').at(-1)))
    for (const reason of [
      (await stage.serverNow(server)).reason,
      listed?.reason,
      reported.reason ?? reported.data?.reason,
    ]) {
      expect(reason?.length).toBeLessThanOrEqual(500)
      expect(reason).toMatch(/x{100}/)
      expect(reason).not.toMatch(CONTROL)
      expect(reason).not.toContain('title')
    }
  })

  it('in an event, a failed command and its exit is short and plain', async () => {
    const node = await stage.node()
    const server = await stage.server(node)
    const events = await stage.follow(server.id)
    const peer = await stage.connect(node)
    await peer.enter({ servers: [report(server.id, { power: 'offline', pid: null, uptimeMs: null })] })
    const exit = { code: 1, signal: LONG, oom: false, expected: false, uptimeMs: 1 }
    peer.event({
      type: 'server.state',
      report: report(server.id, { power: 'offline', pid: null, uptimeMs: null, reason: LONG, lastExit: exit }),
      previous: 'running',
      commandId: null,
    })
    await events.until('the state', (reader) => reader.of('server_state_update').length > 0)
    const now = await stage.serverNow(server)
    expect(now.lastExitSignal?.length).toBeLessThanOrEqual(32)
    expect(`${now.reason}${now.lastExitSignal}`).not.toMatch(CONTROL)
  })

  it('in the greeting is short and plain in the list of nodes', async () => {
    const node = await stage.node()
    const peer = await stage.connect(node)
    peer.send({
      type: 'hello',
      protocol: 1,
      agentVersion: WORD,
      bootId: 'b',
      journalId: 'j',
      hostname: WORD,
      os: WORD,
      arch: WORD,
      cpus: 1,
      memoryMb: 1,
      diskMb: 1,
      addresses: [WORD],
      runtimes: [{ name: 'process', version: WORD, ok: true, reason: WORD, capabilities: [WORD] }],
      lastEvent: 0,
    })
    await peer.until('the welcome', () => peer.of('welcome')[0])
    const nodes = await panel.client.call(listNodes, { query: { limit: 100 } })
    const text = JSON.stringify(nodes.find(({ id }) => id === node.nodeId))
    expect(text).toContain('xxxx')
    expect(text.length).toBeLessThan(5000)
    expect(
      Object.values(nodes.find(({ id }) => id === node.nodeId) ?? {})
        .flat(3)
        .join(''),
    ).not.toMatch(CONTROL)
  })

  it('as an id that is too long ends the connection, and nothing is kept of it', async () => {
    const node = await stage.node()
    const server = await stage.server(node)
    const peer = await stage.connect(node)
    await peer.enter({ servers: [report(server.id)] })
    peer.send({ type: 'command.accepted', id: 'x'.repeat(100_000) })
    await peer.until('the refusal', () => peer.of('error')[0])
    expect(peer.of('error')[0]?.message.length).toBeLessThan(600)
  })
})
