import { join } from 'node:path'
import { createNode } from '../../src/shared/api/nodes.ts'
import { report } from '../daemon/agent-peer.ts'
import { BenchPanel } from './bench-panel.ts'
import { atLeastBeside, type Figures, type Measurement, median, shown, spread } from './figure.ts'
import { load, type Target } from './http-load.ts'
import { ObedientAgent } from './obedience.ts'
import { Helper } from './processes.ts'
import { seedServers } from './seed.ts'

const ROUNDS = 5
const ROUND_MS = 600
/** Behind it V8 has compiled what a daemon that has run for a while has compiled. */
const WARM_MS = 5000
const SERVERS = 1000
const CONNECTIONS = 16
const FLOORS_LEAST = 4000

/** Commands to consoles of running servers, and creations of servers, beside one bare insert that is on disk. */
export const writes: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  const bare = new Helper('bare-server')
  try {
    const serverId = await seedServers(panel, SERVERS, { running: true })
    const servers = Array.from({ length: SERVERS }, (_, index) => report(serverId(index)))
    const agent = await ObedientAgent.enter(panel, { servers })
    const place = await emptyNode(panel)
    const other = await ObedientAgent.enter(panel, { nodeId: place.nodeId })
    const options = {
      database: panel.database,
      scratch: join(panel.home, 'scratch.db'),
      serverId: serverId(0),
      answers: {},
    }
    const { url } = await bare.ask<{ url: string }>(options)
    const insert: Target = { url, method: 'POST', path: '/insert', body: '{"action":"start"}' }
    const figures = {
      ...(await compare('commands', 2500, { ours: commandTarget(panel, serverId), insert }, progress)),
      ...(await compare('creates', 600, { ours: await createTarget(panel, place), insert }, progress)),
    }
    await agent.leave()
    await other.leave()
    return figures
  } finally {
    await bare.end()
    await panel.leave()
  }
}

/** A line typed into the console of one server after the other. */
export function commandTarget({ url, token }: BenchPanel, serverId: (index: number) => string): Target {
  const path = (index: number): string => `/api/servers/${serverId(index % SERVERS)}/console/command`
  return { url, token, method: 'POST', path, body: '{"command":"say hello"}' }
}

/** Creations of servers that need no installation. */
export async function createTarget(
  panel: BenchPanel,
  place: { readonly nodeId: string; readonly locationId: string },
): Promise<Target> {
  const templateId = await panel.makeTemplate({ name: 'Made', startup: 'exec sleep 1000000' })
  const size = { allocatedMemoryMb: 16, allocatedCpuCores: 0.1, allocatedDiskMb: 16 }
  return {
    url: panel.url,
    token: panel.token,
    method: 'POST',
    path: '/api/servers',
    body: (index) =>
      JSON.stringify({ name: `made ${++made} of ${index}`, templateId, ...place, ...size, primaryPort: 1024 + made }),
  }
}

let made = 0

/** A node of its own: what is seeded has no room left on the first. */
export async function emptyNode(panel: BenchPanel) {
  const { locationId } = panel
  const body = { name: 'empty', locationId: locationId as never, maxMemoryMb: 1_000_000, maxCpuCores: 4096 }
  return { nodeId: (await panel.client.call(createNode, { body })).id, locationId }
}

async function compare(
  name: string,
  least: number,
  { ours, insert }: { readonly ours: Target; readonly insert: Target },
  progress: (text: string) => void,
): Promise<Figures> {
  const [rates, floors, p50, p99]: [number[], number[], number[], number[]] = [[], [], [], []]
  for (const target of [ours, insert]) await load(target, CONNECTIONS, WARM_MS)
  for (let round = 0; round < ROUNDS; round++) {
    const done = await load(ours, CONNECTIONS, ROUND_MS)
    rates.push(done.perSecond)
    p50.push(done.p50)
    p99.push(done.p99)
    floors.push((await load(insert, CONNECTIONS, ROUND_MS)).perSecond)
  }
  const [rate, floor] = [median(rates), median(floors)]
  const ratios = rates.map((value, round) => value / (floors[round] ?? Number.NaN))
  progress(`${name}: ${rate.toFixed(0)}/s, bare ${floor.toFixed(0)}/s`)
  return {
    [`${name}.perSecond`]: atLeastBeside(rate, floor, { least, floorsLeast: FLOORS_LEAST }, `${name}/s`),
    [`${name}.barePerSecond`]: shown(floor, 'inserts/s'),
    [`${name}.ratioToBareInsert`]: shown(median(ratios), 'of the bare route'),
    [`${name}.p50`]: shown(median(p50), `ms with ${CONNECTIONS} connections`),
    [`${name}.p99`]: shown(median(p99), `ms with ${CONNECTIONS} connections`),
    [`${name}.noise`]: spread(ratios),
  }
}
