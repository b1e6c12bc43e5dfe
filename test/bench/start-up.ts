import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Command, Noun } from '../../src/cli/kit/command.ts'
import { tree } from '../../src/cli/whole-tree.ts'
import { DIST } from '../run-panel.ts'
import { BenchPanel } from './bench-panel.ts'
import { type Figures, type Measurement, median, percentile, shown, spread, under } from './figure.ts'
import { residentMiB } from './processes.ts'
import { seedServers } from './seed.ts'
import { pause } from './waiting.ts'

const RUNS = 15
const STARTS = 7
const IDLE_MS = 5000

/** What the command line costs over bare node, how soon the daemon answers, and what it holds while nobody asks. */
export const startUp: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  try {
    await seedServers(panel, 100)
    const commands = await commandLine(panel)
    progress('the daemon')
    await pause(IDLE_MS)
    const rss = await residentMiB(panel.daemonPid)
    const starts: number[] = []
    for (let round = 0; round < STARTS; round++) {
      await panel.stopDaemon()
      starts.push(await panel.startDaemon())
    }
    await pause(IDLE_MS)
    return {
      ...commands,
      'daemon.firstAnswer': under(median(starts), 1000, 'ms from spawn to /readyz'),
      'daemon.firstAnswerNoise': spread(starts),
      'daemon.idleRss': under(await residentMiB(panel.daemonPid), 130, 'MiB, freshly started'),
      'daemon.idleRssAfterUse': shown(rss, 'MiB, after the lists above'),
    }
  } finally {
    await panel.leave()
  }
}

async function commandLine(panel: BenchPanel): Promise<Figures> {
  const program = join(DIST, 'bin', 'panel.js')
  const bare: number[] = []
  const version: number[] = []
  const list: number[] = []
  for (let run = 0; run < RUNS; run++) {
    bare.push(await timed(['-e', '0'], panel.env))
    version.push(await timed([program, '--version'], panel.env))
    list.push(await timed([program, 'servers', 'list'], panel.env))
  }
  const help: number[] = []
  for (const path of commandPaths(tree)) {
    const before = await timed(['-e', '0'], panel.env)
    help.push((await timed([program, ...path, '--help'], panel.env)) - before)
  }
  const over = (times: readonly number[]): number => median(times.map((ms, run) => ms - (bare[run] ?? Number.NaN)))
  return {
    'cli.bareNode': shown(median(bare), 'ms'),
    'cli.version': shown(median(version), 'ms'),
    'cli.versionOverBare': under(over(version), 80, 'ms'),
    'cli.helpOverBare': under(median(help), 40, `ms, the median of ${help.length} commands`),
    'cli.helpOverBareMost': shown(percentile(help, 95), 'ms, of 95 % of the commands at most'),
    'cli.serversList': shown(median(list), 'ms, 100 servers'),
    'cli.serversListOverBare': shown(over(list), 'ms'),
    'cli.noise': spread(bare),
  }
}

/** The words of every command that help shows. */
function commandPaths(nodes: readonly (Command | Noun)[]): string[][] {
  return nodes
    .filter((node) => node.kind === 'noun' || node.hidden !== true)
    .flatMap((node) =>
      node.kind === 'noun' ? commandPaths(node.children).map((path) => [node.name, ...path]) : [[node.name]],
    )
}

async function timed(args: readonly string[], env: Record<string, string>): Promise<number> {
  const began = performance.now()
  const child = spawn(process.execPath, args, { env, stdio: 'ignore' })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`)
  return performance.now() - began
}
