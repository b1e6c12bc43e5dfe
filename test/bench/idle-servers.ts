import { BenchPanel } from './bench-panel.ts'
import { type Measurement, median, shown } from './figure.ts'
import { allProcesses, proportionalMiB, usage, withDescendants } from './processes.ts'
import { pause } from './waiting.ts'

const SERVERS = 200
const SETTLE_MS = 5000
const WINDOW_MS = 20_000

/** 200 servers that run and say nothing: what daemon and agent use for them, and what each costs. */
export const idleServers: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  try {
    await panel.startAgent()
    await pause(SETTLE_MS)
    const agentAlone = await proportionalMiB(panel.agentPid)
    const templateId = await panel.makeTemplate({
      name: 'Sleeper',
      startup: 'echo ready; exec sleep 1000000',
      startupDetection: { done: [{ kind: 'contains', value: 'ready' }], stripAnsi: true },
    })
    const began = performance.now()
    const made: string[] = []
    for (let i = 0; i < SERVERS; i++) {
      made.push(await panel.makeServer({ name: `sleeper ${i}`, templateId, primaryPort: 30_000 + i }))
    }
    for (const id of made) await panel.running(id)
    const startSeconds = (performance.now() - began) / 1000
    progress(`${SERVERS} servers run after ${startSeconds.toFixed(0)} s`)
    await pause(SETTLE_MS)
    const agentUsed = usage(panel.agentPid, () => pause(WINDOW_MS))
    const daemon = await usage(panel.daemonPid, () => pause(WINDOW_MS))
    const agent = await agentUsed
    const costs = await costsOfServers(panel)
    return {
      startAll: shown(startSeconds, `s until ${SERVERS} servers run`),
      'daemon.cpu': shown(daemon.cpu, '% of a core'),
      'daemon.rss': shown(daemon.rss, 'MiB'),
      'agent.cpu': shown(agent.cpu, '% of a core'),
      'agent.rss': shown(agent.rss, 'MiB'),
      'agent.perServer': shown(
        ((await proportionalMiB(panel.agentPid)) - agentAlone) / SERVERS,
        'MiB (PSS) per server',
      ),
      'server.memory': shown(median(costs.memory), 'MiB (PSS): holder, shell and game'),
      'server.processes': shown(median(costs.processes), 'processes'),
      'servers.found': shown(costs.memory.length, 'holders'),
    }
  } finally {
    await panel.leave()
  }
}

async function costsOfServers(panel: BenchPanel): Promise<{ memory: number[]; processes: number[] }> {
  const all = await allProcesses()
  const holders = all.filter(({ commandLine }) => commandLine.includes('__holder') && commandLine.includes(panel.home))
  const memory: number[] = []
  const processes: number[] = []
  for (const holder of holders) {
    const family = withDescendants(all, [holder])
    const sizes = await Promise.all(family.map(({ pid }) => proportionalMiB(pid)))
    memory.push(sizes.reduce((sum, size) => sum + size, 0))
    processes.push(family.length)
  }
  return { memory, processes }
}
