import { BenchPanel } from './bench-panel.ts'
import { CpuQuota } from './cpu-quota.ts'
import { type Measurement, notMeasured, shown } from './figure.ts'
import { load, type Target } from './http-load.ts'
import { seedServers } from './seed.ts'

const SERVERS = 1000
const FLOOD = 384
const FLOOD_MS = 8000
/** Four requests a second: what a screen that is looked at asks for. */
const REST_MS = 250
const [GREEDY, CLIENT] = ['127.0.0.2', '127.0.0.3']

/** With limits as they are shipped and one CPU: what an address that asks without end is refused, and how another one fares. */
export const asShipped: Measurement = async (progress) => {
  const quota = await CpuQuota.make(1)
  if ('missing' in quota) return { all: notMeasured(quota.missing) }
  const panel = await BenchPanel.enter('as shipped')
  try {
    const serverId = (await seedServers(panel, SERVERS))(SERVERS / 2)
    await quota.add(panel.daemonPid)
    const { url, token } = panel
    const polite: Target = { url, token, path: `/api/servers/${serverId}` }
    const greedy: Target = { url, path: '/api/settings/public' }
    const client = { restMs: REST_MS, from: CLIENT }
    const alone = await load(polite, 1, FLOOD_MS / 2, client)
    const flood = load(greedy, FLOOD, FLOOD_MS, { refusals: 'allowed', from: GREEDY })
    const meanwhile = await load(polite, 1, FLOOD_MS, client)
    const { refusedPerSecond, perSecond } = await flood
    progress(`${refusedPerSecond.toFixed(0)} refusals/s; the other client waits ${meanwhile.p99.toFixed(1)} ms at p99`)
    return {
      refused: shown(refusedPerSecond, `refusals/s to ${FLOOD} connections of one address`),
      answered: shown(perSecond, 'answers/s to them'),
      'client.p50': shown(meanwhile.p50, 'ms'),
      'client.p99': shown(meanwhile.p99, 'ms, of all its requests meanwhile'),
      'client.aloneP99': shown(alone.p99, 'ms without the others'),
      'client.requests': shown(meanwhile.requests, 'requests, each answered by 2xx'),
    }
  } finally {
    await panel.leave()
    await quota.end()
  }
}
