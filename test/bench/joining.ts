import { createNode, createNodeKey } from '../../src/shared/api/nodes.ts'
import type { AgentOf, AgentsQuestion, Returned } from './agents.ts'
import { BenchPanel } from './bench-panel.ts'
import { cpuOf } from './cost.ts'
import { exactly, type Measurement, median, percentile, shown, under } from './figure.ts'
import { Helper } from './processes.ts'
import { observedLongAgo, seedServers } from './seed.ts'
import { pause } from './waiting.ts'

const NODES = 200
const SERVERS = 10_000
const ROUNDS = 3
const READERS = 4
const REST_MS = 10
/** As long as an agent has to be in before its back-off begins anew. */
const STEADY_MS = 11_000

/** 200 nodes with 10,000 running servers whose daemon is killed and started again: until all are back, and reads meanwhile. */
export const joining: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  const agents = new Helper('agents')
  try {
    const nodes = await makeNodes(panel)
    const serverId = await seedServers(panel, SERVERS, { nodeIds: nodes.map(({ nodeId }) => nodeId), running: true })
    const withServers = nodes.map(({ nodeId, key }, place) => {
      const mine = Array.from({ length: SERVERS / NODES }, (_, i) => serverId(i * NODES + place))
      return { nodeId, key, serverIds: mine } satisfies AgentOf
    })
    await agents.ask<null>({ ask: 'enter', url: panel.url, nodes: withServers } satisfies AgentsQuestion)
    progress(`${NODES} agents are in`)
    const rounds: Round[] = []
    for (let round = 0; round < ROUNDS; round++) {
      await pause(STEADY_MS)
      rounds.push(await killed(panel, agents, serverId))
      progress(`round ${round + 1}: all back after ${rounds.at(-1)?.last.toFixed(2)} s`)
    }
    const latencies = rounds.flatMap((each) => each.latencies)
    return {
      allBack: under(median(rounds.map(({ last }) => last)), 3, 's from SIGKILL to the last agent taken in'),
      halfBack: shown(median(rounds.map(({ middle }) => middle)), 's from SIGKILL to half of the agents'),
      firstAnswer: shown(
        median(rounds.map(({ answered }) => answered)),
        's from SIGKILL to the first answer of the new daemon',
      ),
      'reads.p50': shown(percentile(latencies, 50), 'ms meanwhile'),
      'reads.p99': under(percentile(latencies, 99), 50, 'ms meanwhile'),
      'reads.most': shown(Math.max(...latencies), 'ms'),
      'reads.count': shown(latencies.length, 'reads'),
      'daemon.cpu': shown(median(rounds.map(({ cpu }) => cpu)), 's of CPU from its start until all are back'),
      running: exactly(
        Math.min(...rounds.map(({ running }) => running)),
        SERVERS,
        'servers shown as running afterwards',
      ),
    }
  } finally {
    await agents.end()
    await panel.leave()
  }
}

async function makeNodes(panel: BenchPanel): Promise<Omit<AgentOf, 'serverIds'>[]> {
  const made: Omit<AgentOf, 'serverIds'>[] = []
  for (let i = 0; i < NODES; i++) {
    const { client, locationId } = panel
    const body = { name: `node ${i}`, locationId: locationId as never, maxMemoryMb: 1_000_000, maxCpuCores: 4096 }
    const { id: nodeId } = await client.call(createNode, { body })
    made.push({ nodeId, key: (await client.call(createNodeKey, { params: { nodeId }, body: {} })).apiKey })
  }
  return made
}

interface Round {
  readonly last: number
  readonly middle: number
  readonly answered: number
  readonly cpu: number
  readonly running: number
  readonly latencies: readonly number[]
}

async function killed(panel: BenchPanel, agents: Helper, serverId: (index: number) => string): Promise<Round> {
  const returned = agents.ask<Returned>({ ask: 'returned' } satisfies AgentsQuestion)
  const killed = Date.now()
  await panel.killDaemon()
  const ended = Date.now()
  await observedLongAgo(panel)
  // What was done to the database meanwhile is left out.
  const killedAt = killed + Date.now() - ended
  await panel.startDaemon()
  const answered = Date.now()
  const done = new AbortController()
  const reading = Array.from({ length: READERS }, (_, i) =>
    read(panel, (n) => serverId((n * 997 + i * 31) % SERVERS), done.signal),
  )
  const { times } = await returned
  const cpu = (await cpuOf([panel.daemonPid])) / 1000
  done.abort()
  const latencies = (await Promise.all(reading)).flat()
  const running = await settledRunning(panel)
  return {
    last: ((times.at(-1) ?? Number.NaN) - killedAt) / 1000,
    middle: (median(times) - killedAt) / 1000,
    answered: (answered - killedAt) / 1000,
    cpu,
    running,
    latencies,
  }
}

/** Reads one server after the other, with a little rest between, and answers how long each took in milliseconds. */
async function read(panel: BenchPanel, idOf: (n: number) => string, signal: AbortSignal): Promise<number[]> {
  const latencies: number[] = []
  for (let n = 0; !signal.aborted; n++) {
    const began = performance.now()
    const answer = await fetch(`${panel.url}/api/servers/${idOf(n)}`, {
      headers: { authorization: `Bearer ${panel.token}` },
    })
    await answer.text()
    if (!answer.ok) throw new Error(`a read was answered ${answer.status}`)
    latencies.push(performance.now() - began)
    await pause(REST_MS)
  }
  return latencies
}

/** How many servers are shown as running, as soon as all are, or when that has not come after ten seconds. */
async function settledRunning(panel: BenchPanel): Promise<number> {
  const deadline = performance.now() + 10_000
  for (;;) {
    const running = await runningServers(panel)
    if (running === SERVERS || performance.now() > deadline) return running
    await pause(50)
  }
}

async function runningServers({ url, token }: BenchPanel): Promise<number> {
  const headers = { authorization: `Bearer ${token}` }
  const answer = await fetch(`${url}/api/servers?limit=1&status=running`, { headers })
  const { pagination } = (await answer.json()) as { pagination: { total: number } } // the envelope of every list
  return pagination.total
}
