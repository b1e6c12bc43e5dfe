import { newIdSuffix } from '../shared/ids.ts'
import { serverEnvironment, startupCommand } from './environment.ts'
import { AgentFailure } from './failure.ts'
import { newLaunch } from './journal-record.ts'
import { takenPorts } from './ports.ts'
import { attach } from './run-watch.ts'
import type { Launch } from './runtime/runtime.ts'
import type { GameServer } from './server.ts'

/** A server above this share of its disk limit is stopped, and not started. */
export const DISK_STOP_SHARE = 1.05

interface StartOptions {
  /** Names the run; a start that is taken up again after the agent was away uses the same one. */
  readonly launchId?: string
  readonly commandId: string | null
  /** Aborts when a kill or a deletion came in between. */
  readonly signal: AbortSignal
}

/** Starts the game. Resolves when its process is alive; the server is `starting` then. */
export async function startGame(server: GameServer, options: StartOptions): Promise<void> {
  const { context, spec } = server
  const launchId = options.launchId ?? newIdSuffix(context.clock)
  server.restartWait?.abort()
  server.restartWait = undefined
  await server.exitHandled()
  try {
    await refuseUnfit(server)
    await server.note('Server is starting')
    await context.runtime.prepare(server.place)
    throwIfAborted(options.signal)
    const launch = newLaunch(launchId, 'game', context.bootId)
    await server.change({
      power: 'starting',
      facts: { launch, reason: null, crashed: false, nextRestartAtMs: null, desired: 'running' },
      commandId: options.commandId,
    })
    throwIfAborted(options.signal)
    const run = await context.runtime.start(server.place, gameLaunch(server, launchId))
    attach(server, run)
    context.log.info({ serverId: server.id, pid: run.record.pid, generation: spec.generation }, 'server started')
    await server.change({ commandId: options.commandId })
  } catch (error) {
    // An order that the end of the agent cut off is taken up again, with the same run.
    if (context.ending.aborted) throw error
    await startFailed(server, error, options.commandId)
    throw error
  }
}

async function refuseUnfit(server: GameServer): Promise<void> {
  const { context, spec } = server
  if (spec.suspended) throw new AgentFailure('SUSPENDED', 'The server is suspended')
  if (spec.runtime !== context.runtime.name) {
    throw new AgentFailure('UNSUPPORTED', `This node does not offer the runtime ${spec.runtime}`)
  }
  const limitMb = spec.limits.diskMb
  const usedMb = context.disk.usedMb(server.id)
  if (limitMb > 0 && usedMb !== null && usedMb > limitMb * DISK_STOP_SHARE) {
    throw new AgentFailure('NO_SPACE', `The server uses ${Math.round(usedMb)} MB of its ${limitMb} MB of disk`)
  }
  const [taken] = await takenPorts(spec.ports)
  if (taken === undefined) return
  const { code, message, port, holder } = taken
  context.log.warn({ serverId: server.id, port, holder }, 'a port that a server needs is taken')
  throw new AgentFailure(code, message)
}

function gameLaunch(server: GameServer, launchId: string): Launch {
  const { spec, context } = server
  const { memoryMb, swapMb, cpuCores, pids } = spec.limits
  return {
    kind: 'game',
    launchId,
    argv: ['/bin/sh', '-c', startupCommand(spec)],
    env: serverEnvironment(spec, context.insidePath(server.place)),
    limits: { memoryMb, swapMb, cpuCores, pids },
    allowUserNamespaces: spec.allowUserNamespaces === true,
    logMb: spec.console.logMb,
  }
}

async function startFailed(server: GameServer, error: unknown, commandId: string | null): Promise<void> {
  const reason = error instanceof AgentFailure ? error.message : 'The agent failed to start the server'
  await server.note(`Server could not be started: ${reason}`)
  const { launch } = server.facts
  await server.change({
    power: 'offline',
    facts: {
      launch: launch === null ? null : { ...launch, ended: true },
      reason,
      nextRestartAtMs: null,
      // A failed order is not tried again by itself; a failed restart after a crash counts as one more crash.
      ...(commandId === null ? {} : { desired: 'stopped' as const }),
    },
    commandId,
  })
}

function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new AgentFailure('INTERRUPTED', 'A newer order has replaced this one')
}
