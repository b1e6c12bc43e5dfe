import { unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ProgressOf } from '../../shared/protocol/define.ts'
import type { installServer as installCommand, ServerExit } from '../../shared/protocol/server.ts'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import { limitedServer } from '../disk/disk-room.ts'
import { AgentFailure, asFailure } from '../failure.ts'
import { emptyFolder } from '../files/tree.ts'
import { errorText } from '../logger.ts'
import type { RunPlan } from '../runtime/runtime.ts'
import { newLaunch } from '../state/journal-record.ts'
import { exitText } from './crash.ts'
import { serverEnvironment } from './environment.ts'
import { askForEula } from './eula.ts'
import { replaced } from './replaced.ts'
import { attach } from './run-watch.ts'
import type { GameServer, LiveRun } from './server.ts'
import { findShell, withoutShell } from './shell.ts'
import { fetchable, optionalLimits } from './start.ts'
import { killRun, waitForEnd } from './stop.ts'

/** The smallest limits of an installation: tools that unpack and compile need more than some games. */
const INSTALL_MEMORY_MB = 1024
const LAST_LINES = 20

interface InstallOptions {
  readonly launchId: string
  readonly wipe: boolean
  readonly commandId: string
  readonly signal: AbortSignal
  progress(report: ProgressOf<typeof installCommand>): void
}

/**
 * Runs the install script. Resolves when it has ended well and the server is marked as installed. Taken up again after the
 * agent was away, it follows the script that still runs, takes its exit, or begins the one that had not begun.
 */
export async function installServer(server: GameServer, options: InstallOptions): Promise<void> {
  if (server.game !== undefined) throw new AgentFailure('CONFLICT_STATE', 'The server must be stopped to be installed')
  try {
    await server.change({
      activity: 'installing',
      facts: { installed: false, installError: null, crashed: false, nextRestartAtMs: null, reason: null },
      commandId: options.commandId,
    })
    const { install } = server.spec
    if (install !== null) await runScript(server, install, options)
    await finish(server, options, null)
  } catch (error) {
    if (server.context.ending.aborted) throw error
    const failure = asFailure(error, 'The agent failed to install')
    if (failure !== error)
      server.context.log.error({ serverId: server.id, err: errorText(error) }, 'installation failed')
    await finish(server, options, failure.message)
    throw failure
  }
}

type InstallRule = NonNullable<ServerSpec['install']>

async function runScript(server: GameServer, install: InstallRule, options: InstallOptions): Promise<void> {
  const { ending } = server.context
  try {
    const run = await scriptRun(server, install, options)
    const exit = 'exit' in run ? run.exit : await followScript(server, run.live, install, options.signal)
    if (exit.code !== 0) throw await scriptFailed(server, 'live' in run ? run.live.run.record.firstSeq : 1, exit)
  } finally {
    if (!ending.aborted) await removeScript(join(server.place.files, scriptName(options.launchId)))
  }
}

/** The script of this order: begun now, found alive, or found ended after the agent was away. */
async function scriptRun(
  server: GameServer,
  install: InstallRule,
  options: InstallOptions,
): Promise<{ live: LiveRun } | { exit: ServerExit }> {
  const { launch } = server.facts
  if (launch?.id === options.launchId) {
    if (server.live !== undefined) return { live: server.live }
    if (launch.exit !== null) return { exit: launch.exit }
    if (launch.ended) {
      throw new AgentFailure('INTERRUPTED', 'The installation was interrupted; install the server again')
    }
    // Written down and never begun: a run that has begun leaves a process or an exit.
  }
  return { live: await beginScript(server, install, options) }
}

async function beginScript(server: GameServer, install: InstallRule, options: InstallOptions): Promise<LiveRun> {
  const { context, place } = server
  const runtime = context.runtimes.of(server.spec.runtime)
  const inside = await runtime.home(place, 'install')
  refuseUnfit(install, inside)
  const use = { runtime: server.spec.runtime, purpose: 'The install script' } as const
  const entrypoint = await findShell(install.entrypoint, use)
  await server.note('Installation is starting')
  await context.limits.hold(limitedServer(server))
  await runtime.prepare(place)
  if (options.wipe) {
    options.progress({ step: 'emptying' })
    await emptyFolder(place.files)
  }
  options.progress({ step: 'script' })
  const script = scriptName(options.launchId)
  await removeScript(join(place.files, script))
  // `wx` fails on a link that a game has put in the way, instead of following it.
  await writeFile(join(place.files, script), install.script.replace(/\r\n?/g, '\n'), { flag: 'wx', mode: 0o644 })
  if (options.signal.aborted) throw replaced(options.signal)
  await server.record({ launch: newLaunch(options.launchId, 'install', context.bootId) })
  const { memoryMb, swapMb, cpuCores, pids, cpuSet, ioWeight } = server.spec.limits
  const plan: RunPlan = {
    kind: 'install',
    launchId: options.launchId,
    argv: [entrypoint, `${inside}/${script}`],
    env: { ...serverEnvironment(server.spec, inside), MNT_SERVER: inside },
    image: install.image ?? null,
    ports: [],
    limits: {
      ...{ memoryMb: Math.max(memoryMb, INSTALL_MEMORY_MB), swapMb, cpuCores: Math.max(cpuCores, 1), pids },
      ...optionalLimits({ cpuSet, ioWeight }),
    },
    allowUserNamespaces: server.spec.allowUserNamespaces === true,
    masked: (server.spec.secrets ?? []).flatMap((name) => server.spec.env[name] ?? []),
    logMb: server.spec.console.logMb,
  }
  const start = (signal: AbortSignal) => runtime.start(place, plan, signal)
  const run = await fetchable(server, options.signal, start).catch((error: unknown) => {
    throw withoutShell(error, { shell: entrypoint, image: install.image ?? '', purpose: use.purpose })
  })
  return attach(server, run)
}

function refuseUnfit(install: InstallRule, inside: string): void {
  if (install.script.includes('/mnt/server') && inside !== '/mnt/server') {
    throw new AgentFailure(
      'UNSUPPORTED',
      'The install script names /mnt/server, and this node has no private mounts: the agent must run as root, ' +
        'or the script must use $MNT_SERVER',
    )
  }
}

async function followScript(
  server: GameServer,
  live: LiveRun,
  install: InstallRule,
  signal: AbortSignal,
): Promise<ServerExit> {
  const age = Math.max(0, server.context.clock.nowMs() - live.run.record.startedAtMs)
  const exit = await Promise.race([waitForEnd(server, live, Math.max(0, install.timeoutMs - age)), aborted(signal)])
  if (exit === 'aborted') {
    await killRun(server, live)
    throw replaced(signal, 'A newer order has ended the installation')
  }
  if (exit !== undefined) return exit
  await killRun(server, live)
  throw new AgentFailure('TIMEOUT', `The installation did not end within ${Math.round(install.timeoutMs / 1000)} s`)
}

function aborted(signal: AbortSignal): Promise<'aborted'> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve('aborted')
    else signal.addEventListener('abort', () => resolve('aborted'), { once: true })
  })
}

/** The failure with the script's last lines, which say more than the exit code. */
async function scriptFailed(server: GameServer, firstSeq: number, exit: ServerExit): Promise<AgentFailure> {
  const { last } = await server.console.bounds()
  const lines = await server.console.before(last + 1, { lines: LAST_LINES, bytes: 16 * 1024 })
  const said = lines
    .filter(([seq, , stream]) => seq >= firstSeq && (stream === 'stdout' || stream === 'stderr'))
    .map(([, , , text]) => text)
  const head = `The install script ended with ${exitText(exit)}`
  return new AgentFailure('INSTALL_FAILED', said.length === 0 ? head : `${head}: ${said.join('\n').slice(-1500)}`)
}

async function finish(server: GameServer, options: InstallOptions, problem: string | null): Promise<void> {
  await server.note(problem === null ? 'Installation is complete' : `Installation failed: ${problem.split('\n')[0]}`)
  await server.refreshBounds()
  const asked = problem === null ? await askForEula(server) : undefined
  await server.change({
    activity: null,
    facts: { installed: problem === null, installError: problem, ...asked },
    commandId: options.commandId,
  })
}

function scriptName(launchId: string): string {
  return `.panel-install-${launchId}.sh`
}

async function removeScript(path: string): Promise<void> {
  await unlink(path).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
  })
}
