import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Command, Noun } from '../../src/cli/kit/command.ts'
import { tree } from '../../src/cli/whole-tree.ts'
import { quietPort } from '../ports.ts'
import { DIST, runPanel, SFTP_HERE } from '../run-panel.ts'
import { AS_STARTED, BenchPanel, STARTED_WITH } from './bench-panel.ts'
import { cpuOfEndedChildren } from './cost.ts'
import { type Figures, type Measurement, median, percentile, shown, spread, under } from './figure.ts'
import { wakeupsPerSecond } from './idle-servers.ts'
import { residentMiB } from './processes.ts'
import { seedServers } from './seed.ts'
import { pause } from './waiting.ts'

const RUNS = 15
const STARTS = 7
const IDLE_MS = 5000
/** A program tidies its memory in the ten seconds after its start. */
const SETTLED_MS = 15_000
const MB_OF_MIB = 1.048576

/** What the command line costs over bare node, how soon the daemon answers, and what it holds while nobody asks. */
export const startUp: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  try {
    await seedServers(panel, 100)
    const commands = await commandLine(panel)
    progress('the daemon')
    await pause(SETTLED_MS)
    const rss = await residentMiB(panel.daemonPid)
    const starts: number[] = []
    const bareStarts: number[] = []
    for (let round = 0; round < STARTS; round++) {
      await panel.stopDaemon()
      bareStarts.push((await timed(['-e', '0'], panel.env)).ms)
      starts.push(await panel.startDaemon())
    }
    await pause(SETTLED_MS)
    return {
      ...commands,
      'daemon.firstAnswer': under(median(starts), 350, 'ms from spawn to /readyz'),
      'daemon.firstAnswerOverBare': shown(median(starts) / median(bareStarts), 'times the start and end of bare Node'),
      'daemon.firstAnswerNoise': spread(starts),
      'daemon.idleRss': under(await residentMiB(panel.daemonPid), 130, 'MiB, freshly started'),
      'daemon.idleRssAfterUse': shown(rss, 'MiB, after the lists above'),
      ...(await wholePanel()),
    }
  } finally {
    await panel.leave()
  }
}

/** The memory of `panel up`, daemon and agent in one process with its demo server, while nobody asks. */
async function wholePanel(): Promise<Figures> {
  const home = await mkdtemp(join(tmpdir(), 'panel-bench-'))
  await chmod(home, 0o711)
  const dataDir = join(home, 'data')
  const env = { PATH: process.env['PATH'] ?? '', HOME: home, NODE_ENV: 'production', ...AS_STARTED, ...SFTP_HERE }
  const listen = `127.0.0.1:${await quietPort()}`
  const args = [...STARTED_WITH, join(DIST, 'bin', 'panel.js'), 'up', '--listen', listen, '--data-dir', dataDir]
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  try {
    await Promise.race([
      once(child.stdout, 'data'), // the first screen: all is up
      ended.then(() => Promise.reject(new Error('"panel up" has ended'))),
    ])
    await pause(SETTLED_MS)
    const woken = await wakeupsPerSecond([child.pid ?? 0], IDLE_MS) // it was started
    const rss = await residentMiB(child.pid ?? 0)
    return {
      'up.idleRss': under(rss * MB_OF_MIB, 110, 'MB, "panel up" with its demo server'),
      'up.wakeups': shown(woken, 'a second'),
    }
  } finally {
    await runPanel(['down', '--servers', '--data-dir', dataDir], { env })
    child.kill()
    await ended
    await rm(home, { recursive: true, force: true })
  }
}

async function commandLine(panel: BenchPanel): Promise<Figures> {
  const program = join(DIST, 'bin', 'panel.js')
  const list = [program, 'servers', 'list']
  const runs = {
    bare: ['-e', '0'],
    version: [program, '--version'],
    list,
    json: [...list, '-o', 'json'],
    jq: [...list, '-o', 'json', '--jq', '.[0].name'],
    program: [...list, '-o', 'json', '--jq', 'map(.name) | sort | join(",")'],
  }
  const found: Record<keyof typeof runs, Taken[]> = { bare: [], version: [], list: [], json: [], jq: [], program: [] }
  for (let run = 0; run < RUNS; run++) {
    for (const name of ['bare', 'version', 'list', 'json', 'jq', 'program'] as const) {
      found[name].push(await timed(runs[name], panel.env))
    }
  }
  const help: number[] = []
  for (const path of commandPaths(tree)) {
    const before = await timed(['-e', '0'], panel.env)
    help.push((await timed([program, ...path, '--help'], panel.env)).ms - before.ms)
  }
  const ms = (name: keyof typeof runs): number => median(found[name].map((taken) => taken.ms))
  const over = (name: keyof typeof runs): number =>
    median(found[name].map((taken, run) => taken.ms - (found.bare[run]?.ms ?? Number.NaN)))
  // Of all runs together: the kernel tells the CPU time of ended processes in steps of 10 ms.
  const cpu = (name: keyof typeof runs): number => found[name].reduce((sum, taken) => sum + taken.cpuMs, 0) / RUNS
  return {
    'cli.bareNode': shown(ms('bare'), 'ms'),
    'cli.bareNodeCpu': shown(cpu('bare'), 'ms of CPU'),
    'cli.version': shown(ms('version'), 'ms'),
    'cli.versionOverBare': under(over('version'), 10, 'ms'),
    'cli.versionCpuOverBare': shown(cpu('version') - cpu('bare'), 'ms of CPU'),
    'cli.helpOverBare': under(median(help), 40, `ms, the median of ${help.length} commands`),
    'cli.helpOverBareMost': shown(percentile(help, 95), 'ms, of 95 % of the commands at most'),
    'cli.serversList': shown(ms('list'), 'ms, 100 servers'),
    'cli.serversListOverBare': shown(over('list'), 'ms'),
    'cli.serversListCpuOverBare': under(cpu('list') - cpu('bare'), 60, 'ms of CPU'),
    'cli.jqCpuOverJson': under(cpu('jq') - cpu('json'), 30, 'ms of CPU more than -o json, a path'),
    'cli.jqProgramCpuOverJson': under(cpu('program') - cpu('json'), 30, 'ms of CPU more than -o json, a program'),
    'cli.noise': spread(found.bare.map((taken) => taken.ms)),
  }
}

/** What a command has taken. */
interface Taken {
  readonly ms: number
  readonly cpuMs: number
}

/** The words of every command that help shows. */
function commandPaths(nodes: readonly (Command | Noun)[]): string[][] {
  return nodes
    .filter((node) => node.kind === 'noun' || node.hidden !== true)
    .flatMap((node) =>
      node.kind === 'noun' ? commandPaths(node.children).map((path) => [node.name, ...path]) : [[node.name]],
    )
}

async function timed(args: readonly string[], env: Record<string, string>): Promise<Taken> {
  const before = await cpuOfEndedChildren()
  const began = performance.now()
  const child = spawn(process.execPath, args, { env, stdio: 'ignore' })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`)
  const ms = performance.now() - began
  return { ms, cpuMs: (await cpuOfEndedChildren()) - before }
}
