import { newIdSuffix } from '../../shared/kernel/ids.ts'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import { updateConfigFiles } from '../config-files/update.ts'
import { rconOf } from '../console/rcon/rcon-place.ts'
import { diskRoom, limitedServer } from '../disk/disk-room.ts'
import { AgentFailure, asFailure } from '../failure.ts'
import { makeFoldersOf } from '../files/place.ts'
import type { RunNetwork, RunPlan } from '../runtime/runtime.ts'
import { type LaunchFacts, newLaunch, rulesOf } from '../state/journal-record.ts'
import { portPlaceholders, serverEnvironment, startupCommand } from './environment.ts'
import { refuseWithoutEula } from './eula.ts'
import { portsOf, takenPorts } from './ports.ts'
import { replaced } from './replaced.ts'
import { attach } from './run-watch.ts'
import type { GameServer } from './server.ts'
import { findShell, withoutShell } from './shell.ts'

/** A server above this share of its disk limit is stopped, and not started. */
export const DISK_STOP_SHARE = 1.05

/** Closed connections hold a port for 60 s. */
const PORT_WAIT_MS = 75_000
const PORT_LOOK_MS = 500

const PURPOSE = 'The startup line'

interface StartOptions {
  /** Names the run; a start that is taken up again after the agent was away uses the same one. */
  readonly launchId?: string
  readonly commandId: string | null
  /** Aborts when a kill or a deletion came in between. */
  readonly signal: AbortSignal
}

/**
 * Starts the game. Resolves when its process is alive; the server is `starting` then. Of a start without an order the caller
 * reports the failure.
 */
export async function startGame(server: GameServer, options: StartOptions): Promise<void> {
  const { context, spec } = server
  const launchId = options.launchId ?? newIdSuffix(context.clock)
  server.restartWait?.abort()
  server.restartWait = undefined
  if (options.commandId !== null) takePlace(server)
  await server.exitHandled()
  try {
    await refuseUnfit(server)
    const runtime = context.runtimes.of(spec.runtime)
    const shell = await findShell(spec.shell ?? 'sh', { runtime: spec.runtime, purpose: PURPOSE })
    const network = await runtime.network(spec.network)
    if (!network.isOwn) await awaitPorts(server, options)
    throwIfAborted(options.signal)
    await server.note('Server is starting')
    await context.limits.hold(limitedServer(server))
    await runtime.prepare(server.place)
    const home = await runtime.home(server.place, 'game')
    await makeMountPoints(server)
    await bringUpToDate(server, home, network)
    throwIfAborted(options.signal)
    const launch = { ...newLaunch(launchId, 'game', context.bootId), rules: rulesOf(spec) }
    await server.change({
      power: 'starting',
      facts: { launch, reason: null, crashed: false, nextRestartAtMs: null, desired: 'running' },
      commandId: options.commandId,
    })
    throwIfAborted(options.signal)
    const plan = gamePlan(server, { home, network, launchId, shell })
    const start = (signal: AbortSignal) => runtime.start(server.place, plan, signal)
    const run = await fetchable(server, options.signal, start).catch((error: unknown) => {
      throw withoutShell(error, { shell, image: spec.image ?? '', purpose: PURPOSE })
    })
    attach(server, run)
    context.log.info({ serverId: server.id, pid: run.record.pid, generation: spec.generation }, 'server started')
    await server.change({ commandId: options.commandId })
  } catch (error) {
    server.startPlace?.release()
    // An order that the end of the agent cut off is taken up again, with the same run.
    if (context.ending.aborted) throw error
    if (options.commandId !== null) await startFailed(server, error, options.commandId)
    throw error
  }
}

/** A person's order waits for no other start, and those of the node's own wait for it. */
function takePlace(server: GameServer): void {
  server.startPlace?.release()
  server.startPlace = server.context.starts.take()
}

/** Writes the values of this start into the game's own files; what cannot be followed is not started with old values. */
async function bringUpToDate(server: GameServer, home: string, { listenIp, machineIp }: RunNetwork): Promise<void> {
  const { spec, place, context } = server
  const files = spec.configFiles ?? []
  if (files.length === 0) return
  const node = { 'config.docker.interface': machineIp, 'config.docker.network.interface': machineIp }
  const known = { ...serverEnvironment(spec, home, listenIp), ...portPlaceholders(spec), ...node }
  const roomBytes = Math.min(Number.MAX_SAFE_INTEGER, await diskRoom(server, context.ending))
  const threads = context.configThreads
  await updateConfigFiles(place.files, files, { known, roomBytes, nowMs: context.clock.nowMs(), threads })
}

/** The folders that mounts lie over, where they are in the server's own; nothing of the server runs now that could put links there. */
async function makeMountPoints({ spec, place }: GameServer): Promise<void> {
  for (const { target } of spec.mounts ?? []) {
    if (!target.startsWith('/')) await makeFoldersOf(place.files, `${target}/inner`)
  }
}

async function refuseUnfit(server: GameServer): Promise<void> {
  const { context, spec } = server
  if (spec.console.input?.kind === 'pty' && (await context.runtimes.of(spec.runtime).probe()).terminals === false) {
    const missing = 'its package @lydell/node-pty is not installed, or has no binary for this machine'
    throw new AgentFailure('UNSUPPORTED', `This node cannot give the game a terminal: ${missing}`)
  }
  if (spec.suspended) throw new AgentFailure('SUSPENDED', 'The server is suspended')
  context.mountRules.resolve(spec.mounts ?? [])
  const limitMb = spec.limits.diskMb
  const usedMb = context.disk.usedMb(server.id)
  if (limitMb > 0 && usedMb !== null && usedMb > limitMb * DISK_STOP_SHARE) {
    throw new AgentFailure('NO_SPACE', `The server uses ${Math.round(usedMb)} MB of its ${limitMb} MB of disk`)
  }
  await refuseWithoutEula(server)
}

/**
 * Looks at the server's ports. What only closed connections hold (those of an earlier run, whose players were connected when it
 * ended) is free within a minute and is waited for; what somebody listens on is refused.
 */
async function awaitPorts(server: GameServer, { signal, commandId }: StartOptions): Promise<void> {
  const { context, spec } = server
  const { clock, ending } = context
  const deadline = clock.monotonicMs() + PORT_WAIT_MS
  try {
    while (true) {
      const [taken] = await takenPorts(portsOf(spec))
      if (taken === undefined) return
      if (!taken.passing || clock.monotonicMs() >= deadline) {
        const { code, message, port, holder } = taken
        context.log.warn({ serverId: server.id, port, holder }, 'server port is already in use')
        throw new AgentFailure(code, message)
      }
      if (!server.waitsForPort) {
        server.waitsForPort = true
        const reason = `${taken.message}; it starts when the port is free, within ${PORT_WAIT_MS / 1000} s`
        await server.note(reason)
        await server.change({ power: 'starting', facts: { reason }, commandId })
      }
      await clock.sleep(PORT_LOOK_MS, AbortSignal.any([signal, ending]))
      if (server.waitingStops > 0 || ending.aborted) throw replaced()
      throwIfAborted(signal)
    }
  } finally {
    server.waitsForPort = false
  }
}

function gamePlan(
  { spec, context }: GameServer,
  { home, network, launchId, shell }: { home: string; network: RunNetwork; launchId: string; shell: string },
): RunPlan {
  const { memoryMb, swapMb, cpuCores, pids, cpuSet, ioWeight } = spec.limits
  const rcon = rconOf(spec)
  return {
    kind: 'game',
    launchId,
    argv: [shell, '-c', startupCommand(spec)],
    env: serverEnvironment(spec, home, network.listenIp),
    image: spec.image ?? null,
    ports: spec.ports,
    limits: { memoryMb, swapMb, cpuCores, pids, ...optionalLimits({ cpuSet, ioWeight }) },
    ...(spec.network === undefined ? {} : { network: spec.network }),
    allowUserNamespaces: spec.allowUserNamespaces === true,
    mounts: context.mountRules.resolve(spec.mounts ?? []),
    logMb: spec.console.logMb,
    ...(spec.console.input === undefined ? {} : { console: spec.console.input }),
    ...(rcon === undefined ? {} : { masked: [rcon.password] }),
  }
}

/** The limits that a server need not have. */
export function optionalLimits({
  cpuSet,
  ioWeight,
}: Pick<ServerSpec['limits'], 'cpuSet' | 'ioWeight'>): Pick<RunPlan['limits'], 'cpuSet' | 'ioWeight'> {
  return { ...(cpuSet === undefined ? {} : { cpuSet }), ...(ioWeight === undefined ? {} : { ioWeight }) }
}

/** Carries out what may fetch something first: that is given up when a stop comes, or the agent ends. */
export async function fetchable<T>(
  server: GameServer,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const stop = new AbortController()
  server.callOff = () => stop.abort(replaced())
  if (server.waitingStops > 0) stop.abort(replaced())
  try {
    return await work(AbortSignal.any([signal, stop.signal, server.context.ending]))
  } finally {
    server.callOff = undefined
  }
}

/** An order that failed is not carried out again by itself. */
async function startFailed(server: GameServer, error: unknown, commandId: string): Promise<void> {
  const reason = await noteFailure(server, error)
  await server.change({
    power: 'offline',
    facts: { launch: endedLaunch(server), reason, nextRestartAtMs: null, desired: 'stopped' },
    commandId,
  })
}

/** Writes to the console why a start has failed; `null` when a newer order has called it off. */
export async function noteFailure(server: GameServer, error: unknown): Promise<string | null> {
  if (error instanceof AgentFailure && error.code === 'INTERRUPTED') return null
  const reason = asFailure(error, 'The agent failed to start the server').message
  await server.note(`Server could not be started: ${reason}`)
  return reason
}

/** The run of a start that has failed never began. */
export function endedLaunch({ facts }: GameServer): LaunchFacts | null {
  return facts.launch === null ? null : { ...facts.launch, ended: true }
}

function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw replaced(signal)
}
