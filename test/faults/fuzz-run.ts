import fc from 'fast-check'
import { expect } from 'vitest'
import { createNodeKey } from '../../src/shared/api/nodes.ts'
import { deleteServer, type Server } from '../../src/shared/api/servers.ts'
import { AgentPeer, report } from '../daemon/agent-peer.ts'
import { ConsoleReader } from '../daemon/console-reader.ts'
import { type FaultNode, FaultPanel } from './fault-panel.ts'
import { type FuzzCase, fuzzAnswers, fuzzCases } from './frame-fuzz.ts'
import { FuzzClient } from './fuzz-client.ts'

const GAME = `
echo start >> starts
echo ready
while read -r line; do echo "got $line"; done
while :; do sleep 1; done
`
/** Cases that are made at a time. */
const CHUNK = 500
/** How the daemon's log tells of an error that nobody foresaw, with what stands around it. */
const FAILURE = /.{0,300}(TypeError|RangeError|ReferenceError|SQLITE_[A-Z]+|at file:).{0,1500}/
/** How the daemon may end a connection that sends nonsense: protocol error, too large, no UTF-8, replaced, or our own end. */
const CLOSES = [1001, 1007, 1009, 1002, 1005, 4400, 4401, 4409, 4426]

/** Sends so many cases over so many nodes; the daemon must live, and the server of another node must not notice. */
export async function fuzzGateway(count: number, seed: number, width: number): Promise<void> {
  const panel = await FaultPanel.enter()
  try {
    const quiet = await panel.addMachine('quiet')
    const templateId = await panel.makeTemplate('quiet', GAME)
    const server = await panel.makeServer(quiet, { name: 'untouched', templateId })
    const before = await panel.server(server.id)
    const reported = await panel.events(server.id)
    const pid = panel.daemonPid

    const nodes = await makeNodes(panel, width, templateId)
    const answers = fc.sample(fuzzAnswers(), { numRuns: 1000, seed })
    const own = nodes.map((node) => node.server.id)
    const arbitrary = fuzzCases([...own, server.id])
    // Somebody watches, so that console lines are looked at.
    const watching = own.map((id) => new ConsoleReader(`${panel.url}/api/servers/${id}/console/stream`, panel.token))
    let asked = 0
    const clients = nodes.map(
      ({ node, key }) =>
        new FuzzClient(panel.url, { id: node.id, key }, () => answers[asked++ % answers.length] ?? null),
    )
    for (let done = 0; done < count; done += CHUNK) {
      const cases = fc.sample(arbitrary, { numRuns: Math.min(CHUNK, count - done), seed: seed + done })
      await sendAll(panel, clients, cases)
      expect(panel.daemonPid, `after the cases from seed ${seed + done}`).toBe(pid)
      expect(await panel.isReady()).toBe(true)
      // What does not fit is refused by name: no frame gets as far as an operation that fails on it.
      expect(FAILURE.exec(panel.log)?.[0], `after the cases from seed ${seed + done}`).toBeUndefined()
    }
    for (const client of clients) await client.leave()
    for (const reader of watching) reader.close()
    const closes = clients.flatMap((client) => [...client.closes])
    expect(closes.filter(([code]) => !CLOSES.includes(code))).toEqual([])
    const thrownOut = closes.reduce((sum, [code, times]) => (code === 4400 ? sum + times : sum), 0)
    // Both kinds came in numbers: frames that were taken, and frames that were not.
    expect(thrownOut).toBeGreaterThan(count / 10)
    expect(clients.reduce((sum, { taken }) => sum + taken, 0)).toBeGreaterThan(count / 10)

    const after = await panel.server(server.id)
    const { cpuPercent, memoryUsageMb, diskUsageMb, diskEnforced } = after // its agent's figures, which come with time
    expect(after).toEqual({ ...before, cpuPercent, memoryUsageMb, diskUsageMb, diskEnforced })
    // The figures are those that its own agent measures, and not what somebody else has said.
    expect(memoryUsageMb ?? 0).toBeLessThan(64)
    expect(diskUsageMb ?? 0).toBeLessThan(64)
    expect(await panel.events(server.id)).toEqual(reported)
    expect((await panel.node(quiet)).isOnline).toBe(true)
    expect(await panel.starts(quiet, server)).toBe(1)
    await expectAllIn(panel, nodes)
  } finally {
    await panel.leave()
  }
}

interface FuzzNode {
  readonly node: FaultNode
  readonly key: string
  /** A server of its own, of which it may say what it wants. */
  readonly server: Server
}

async function makeNodes(panel: FaultPanel, width: number, templateId: string): Promise<FuzzNode[]> {
  const nodes: FuzzNode[] = []
  for (let i = 0; i < width; i++) {
    const node = await panel.addNode(`fuzz-${i}`)
    const { apiKey: key } = await panel.client.call(createNodeKey, { params: { nodeId: node.id }, body: {} })
    const peer = await AgentPeer.connect(panel.url, node.id, key)
    await peer.enter()
    const making = panel.makeServer(node, { name: `fuzz-${i}`, templateId })
    const command = await peer.until('the order', () => peer.of('command')[0])
    const { serverId, generation } = command
    const state = { type: 'server.state', previous: 'offline', commandId: command.id } as const
    peer.event({ ...state, report: report(serverId, { generation }) })
    peer.finish(command)
    nodes.push({ node, key, server: await making })
    await peer.leave()
  }
  return nodes
}

async function sendAll(panel: FaultPanel, clients: readonly FuzzClient[], cases: readonly FuzzCase[]): Promise<void> {
  let next = 0
  const work = async (client: FuzzClient): Promise<void> => {
    for (let aCase = cases[next++]; aCase !== undefined; aCase = cases[next++]) {
      try {
        await client.send(aCase)
      } catch (error) {
        throw new Error(`${String(error)} at ${String(aCase.data).slice(0, 2000)}\n${panel.log.slice(-2000)}`)
      }
    }
  }
  await Promise.all(clients.map(work))
}

/** An agent that keeps to the protocol is let in at every node, and what it says holds, whatever was said there before. */
async function expectAllIn(panel: FaultPanel, nodes: readonly FuzzNode[]): Promise<void> {
  for (const { node, key, server } of nodes) {
    const peer = await AgentPeer.connect(panel.url, node.id, key)
    const said = report(server.id, { generation: server.generation, pid: 77, uptimeMs: 5000 })
    await peer.enter({ journalId: 'a-good-one', servers: [said] })
    await panel.online(node)
    const seen = await panel.serverWhen(server.id, 'running')
    expect(seen).toMatchObject({ pid: 77, crashCount: 0, reason: null, lastKnownStatus: null, nextRestartAt: null })
    expect(Math.abs(Date.now() - 5000 - Date.parse(seen.startedAt ?? ''))).toBeLessThan(10_000)
    await peer.leave()
    await panel.online(node, false)
    await panel.client.call(deleteServer, { params: { serverId: server.id }, query: { force: 'true' } })
  }
}
