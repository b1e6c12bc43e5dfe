import { BenchPanel } from './bench-panel.ts'
import { cpuOf } from './cost.ts'
import { type Measurement, median, shown, under } from './figure.ts'
import { allProcesses, proportionalMiB, type SeenProcess, usage, wakeups, withDescendants } from './processes.ts'
import { pause } from './waiting.ts'

const SERVERS = 200
const SETTLE_MS = 5000
/** A program tidies its memory in the ten seconds after its start: that belongs to the start. */
const IDLE_MS = 25_000
/** The whole of a minute: an agent looks at some things once in one, and a part of it has that look in it or has not. */
const WINDOW_MS = 60_000
/** Without servers there is nothing to look at. */
const ALONE_MS = 10_000
const MB_OF_MIB = 1.048576

/** 200 servers that run and say nothing: what daemon and agent use for them, and what each costs. */
export const idleServers: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  try {
    await panel.startAgent()
    await pause(SETTLE_MS)
    const agentAlone = await proportionalMiB(panel.agentPid)
    await pause(IDLE_MS)
    const alone = await Promise.all([
      wakeupsPerSecond([panel.daemonPid], ALONE_MS),
      wakeupsPerSecond([panel.agentPid], ALONE_MS),
    ])
    progress(`without servers: daemon ${alone[0].toFixed(1)}, agent ${alone[1].toFixed(1)} wakeups a second`)
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
    const pids = holdersOf(panel, await allProcesses()).map(({ pid }) => pid)
    const woken = Promise.all(
      [[panel.daemonPid], [panel.agentPid], pids].map((group) => wakeupsPerSecond(group, WINDOW_MS)),
    )
    const holders = holdersCpu(pids, () => pause(WINDOW_MS))
    const daemon = await usage(panel.daemonPid, () => pause(WINDOW_MS))
    const agent = await agentUsed
    const [ofDaemon = Number.NaN, ofAgent = Number.NaN, ofHolders = Number.NaN] = await woken
    progress(
      `wakeups a second: daemon ${ofDaemon.toFixed(1)}, agent ${ofAgent.toFixed(1)}, holders ${ofHolders.toFixed(1)}`,
    )
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
      'daemon.wakeups': under(ofDaemon, 5, 'a second'),
      'daemon.wakeupsAlone': under(alone[0], 5, 'a second, before there was a server'),
      'agent.wakeups': under(ofAgent, 5, 'a second'),
      'agent.wakeupsAlone': under(alone[1], 5, 'a second, before there was a server'),
      'holders.cpu': under(await holders, 3, `% of a core for all ${SERVERS} holders`),
      'holders.wakeups': under(ofHolders, 60, `a second, all ${SERVERS} holders`),
      'holder.memory': under(median(costs.holder) * MB_OF_MIB, 6, 'MB (PSS) per holder'),
      'holders.memory': shown(
        costs.holder.reduce((sum, size) => sum + size, 0),
        'MiB (PSS), all holders',
      ),
      'server.memory': shown(median(costs.memory), 'MiB (PSS): holder, shell and game'),
      'server.processes': shown(median(costs.processes), 'processes'),
      'servers.found': shown(costs.memory.length, 'holders'),
    }
  } finally {
    await panel.leave()
  }
}

/** How often the threads of all these processes are woken up. */
export async function wakeupsPerSecond(pids: readonly number[], ms: number): Promise<number> {
  const all = async (): Promise<number> => (await Promise.all(pids.map(wakeups))).reduce((sum, count) => sum + count, 0)
  const [before, began] = [await all(), performance.now()]
  await pause(ms)
  return ((await all()) - before) / ((performance.now() - began) / 1000)
}

/** What all holders together use of a core meanwhile, in percent. */
async function holdersCpu(pids: readonly number[], meanwhile: () => Promise<unknown>): Promise<number> {
  const [before, began] = [await cpuOf(pids), performance.now()]
  await meanwhile()
  return ((await cpuOf(pids)) - before) / 10 / ((performance.now() - began) / 1000)
}

function holdersOf(panel: BenchPanel, all: readonly SeenProcess[]): readonly SeenProcess[] {
  return all.filter(({ commandLine }) => commandLine.includes('__holder') && commandLine.includes(panel.home))
}

async function costsOfServers(panel: BenchPanel): Promise<Record<'memory' | 'holder' | 'processes', number[]>> {
  const all = await allProcesses()
  const holders = holdersOf(panel, all)
  const memory: number[] = []
  const alone: number[] = []
  const processes: number[] = []
  for (const holder of holders) {
    const family = withDescendants(all, [holder])
    const sizes = await Promise.all(family.map(({ pid }) => proportionalMiB(pid)))
    alone.push(await proportionalMiB(holder.pid))
    memory.push(sizes.reduce((sum, size) => sum + size, 0))
    processes.push(family.length)
  }
  return { memory, holder: alone, processes }
}
