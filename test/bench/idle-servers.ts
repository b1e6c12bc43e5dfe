import { BenchPanel } from './bench-panel.ts'
import { type Measurement, median, shown } from './figure.ts'
import { allProcesses, cpuSeconds, proportionalMiB, type SeenProcess, usage, withDescendants } from './processes.ts'
import { pause } from './waiting.ts'

const SERVERS = 200
const SETTLE_MS = 5000
/** A program tidies its memory in the ten seconds after its start: that belongs to the start. */
const IDLE_MS = 25_000
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
    await pause(IDLE_MS)
    const agentUsed = usage(panel.agentPid, () => pause(WINDOW_MS))
    const holders = holdersCpu(panel, () => pause(WINDOW_MS))
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
      'holders.cpu': shown(await holders, `% of a core for all ${SERVERS} holders`),
      'server.memory': shown(median(costs.memory), 'MiB (PSS): holder, shell and game'),
      'server.processes': shown(median(costs.processes), 'processes'),
      'servers.found': shown(costs.memory.length, 'holders'),
    }
  } finally {
    await panel.leave()
  }
}

/** What all holders together use of a core meanwhile. */
async function holdersCpu(panel: BenchPanel, meanwhile: () => Promise<unknown>): Promise<number> {
  const pids = holdersOf(panel, await allProcesses()).map(({ pid }) => pid)
  const all = async (): Promise<number> =>
    (await Promise.all(pids.map(cpuSeconds))).reduce((sum, seconds) => sum + seconds, 0)
  const [before, began] = [await all(), performance.now()]
  await meanwhile()
  return (((await all()) - before) / ((performance.now() - began) / 1000)) * 100
}

function holdersOf(panel: BenchPanel, all: readonly SeenProcess[]): readonly SeenProcess[] {
  return all.filter(({ commandLine }) => commandLine.includes('__holder') && commandLine.includes(panel.home))
}

async function costsOfServers(panel: BenchPanel): Promise<{ memory: number[]; processes: number[] }> {
  const all = await allProcesses()
  const holders = holdersOf(panel, all)
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
