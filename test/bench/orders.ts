import { join } from 'node:path'
import type { BareOptions } from './bare-server.ts'
import { BenchPanel } from './bench-panel.ts'
import { atLeast, type Figures, type Measurement, median, shown, spread, under } from './figure.ts'
import { load, type Target } from './http-load.ts'
import { ObedientAgent } from './obedience.ts'
import { Helper } from './processes.ts'
import { seedServers } from './seed.ts'

/** Rounds of one build differ by a third: with five, so did what was in the middle of them. */
const ROUNDS = 15
const ROUND_MS = 600
/** Behind it V8 has compiled what a daemon that has run for a while has compiled. */
const WARM_MS = 5000
const SERVERS = 1000

/** A power order accepted, with an agent that takes it up and ends it at once, against one bare insert that is on disk. */
export const orders: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  const bare = new Helper('bare-server')
  try {
    const serverId = await seedServers(panel, SERVERS)
    let asked = 0
    const agent = await ObedientAgent.enter(panel)
    const scratch = join(panel.home, 'scratch.db')
    const options: BareOptions = {
      database: panel.database,
      scratch,
      serverId: serverId(0),
      answers: {},
    }
    const { url } = await bare.ask<{ url: string }>(options)
    const order: Target = {
      url: panel.url,
      token: panel.token,
      method: 'POST',
      // Goes on from one load to the next: the first servers may still be about to start.
      path: () => `/api/servers/${serverId(asked++ % SERVERS)}/start`,
      body: '{}',
    }
    const insert: Target = { url, method: 'POST', path: '/insert', body: '{"action":"start"}' }
    for (const target of [order, insert]) await load(target, 16, WARM_MS)
    const figures = {
      ...(await compare('oneByOne', { order, insert }, { connections: 1 }, progress)),
      ...(await compare('sixteenAtATime', { order, insert }, { connections: 16, ratio: 0.35 }, progress)),
      ...(await compare('sixtyFourAtATime', { order, insert }, { connections: 64, p99: 40 }, progress)),
    }
    await agent.leave()
    return figures
  } finally {
    await bare.end()
    await panel.leave()
  }
}

/** With how many connections, and what is to be reached then. */
interface Wanted {
  readonly connections: number
  readonly ratio?: number
  readonly p99?: number
}

async function compare(
  name: string,
  targets: { readonly order: Target; readonly insert: Target },
  { connections, ratio: leastRatio, p99: mostP99 }: Wanted,
  progress: (text: string) => void,
): Promise<Figures> {
  const order: number[] = []
  const insert: number[] = []
  const p99: number[] = []
  const p50: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const taken = await load(targets.order, connections, ROUND_MS)
    order.push(taken.perSecond)
    p50.push(taken.p50)
    p99.push(taken.p99)
    insert.push((await load(targets.insert, connections, ROUND_MS)).perSecond)
  }
  const ratios = order.map((value, round) => value / (insert[round] ?? Number.NaN))
  const [ratio, latest] = [median(ratios), median(p99)]
  progress(`${name}: ${median(order).toFixed(0)}/s, bare ${median(insert).toFixed(0)}/s, p99 ${latest.toFixed(1)} ms`)
  const part = 'of the bare route'
  return {
    [`${name}.ratioToBareInsert`]: leastRatio === undefined ? shown(ratio, part) : atLeast(ratio, leastRatio, part),
    [`${name}.perSecond`]: shown(median(order), 'orders/s'),
    [`${name}.barePerSecond`]: shown(median(insert), 'inserts/s'),
    [`${name}.p50`]: shown(median(p50), 'ms'),
    [`${name}.p99`]: mostP99 === undefined ? shown(latest, 'ms') : under(latest, mostP99, 'ms'),
    [`${name}.noise`]: spread(ratios),
  }
}
