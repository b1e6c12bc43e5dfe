import type { ProgressOf, ResultOf, WireOf } from '../../shared/protocol/define.ts'
import type {
  COMMANDS,
  installServer as installCommand,
  rebuildServer as rebuildCommand,
  restartServer,
} from '../../shared/protocol/server.ts'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import { limitedServer } from '../disk/disk-room.ts'
import { AgentFailure } from '../failure.ts'
import type { CommandRecord } from '../state/journal-record.ts'
import { applyNow } from './apply.ts'
import { installServer } from './install.ts'
import { rebuildServer } from './rebuild.ts'
import { removeServer } from './remove.ts'
import { replaced } from './replaced.ts'
import type { GameServer } from './server.ts'
import { startGame } from './start.ts'
import { killRun, recordStep, stopGame } from './stop.ts'

/** How an order went: `noop` when the goal already held and nothing was done; `result` as its definition says. */
export interface Outcome {
  readonly noop: boolean
  readonly result?: unknown
}

/** What an order gets beside itself. */
interface OrderStep {
  readonly commandId: string
  /** Aborts when the order is cancelled or a newer one takes its place; the reason says which. */
  readonly signal: AbortSignal
}

/** The work of each command that this agent knows. */
type Handlers = {
  readonly [D in (typeof COMMANDS)[number] as D['op']]: (
    server: GameServer,
    op: WireOf<D>,
    step: OrderStep & { progress(report: ProgressOf<D>): void },
  ) => Promise<{ readonly noop: boolean; readonly result?: ResultOf<D> }>
}

const HANDLERS: Handlers = {
  apply: async (server, { spec }) => {
    const before = server.spec
    await server.applySpec(spec)
    await server.context.limits.hold(limitedServer(server))
    return { noop: false, result: await applyNow(server, before) }
  },
  start: (server, { spec }, step) => start(server, { ...step, spec }),
  restart,
  stop: (server, { timeoutMs }, { commandId }) => stop(server, timeoutMs, commandId),
  kill: (server, _, { commandId }) => kill(server, commandId),
  install,
  rebuild,
  delete: async (server, { keepFiles }, { commandId }) => ({
    noop: false,
    result: await removeServer(server, keepFiles, commandId),
  }),
  'reset-crashes': async (server, _, { commandId }) => {
    const { crashes, finishes = [] } = server.facts
    if (crashes.length === 0 && finishes.length === 0) return { noop: true }
    await server.change({ facts: { crashes: [], finishes: [] }, commandId })
    return { noop: false }
  },
}

/**
 * Carries out an order on its server. Each step looks at what is there first, so that an order which was cut off by the
 * end of the agent can simply be carried out again: its run has the order's own id and never begins twice.
 */
export async function carryOut(
  server: GameServer,
  { id: commandId, command: op }: CommandRecord,
  { signal, progress }: { readonly signal: AbortSignal; progress(report: unknown): void },
): Promise<Outcome> {
  if (op === null) throw new AgentFailure('INTERRUPTED', 'The order is not known any more')
  await server.exitHandled()
  // A stop wants what the kill in its way has done, and a deletion stays due.
  const carriesOn = op.op === 'stop' || op.op === 'kill' || op.op === 'delete'
  if (signal.aborted && !carriesOn) throw replaced(signal)
  return await HANDLERS[op.op](server, op as never, { commandId, signal, progress }) // the handler of this very op
}

async function start(
  server: GameServer,
  step: OrderStep & { spec: ServerSpec; launchId?: string },
): Promise<{ noop: boolean }> {
  const launchId = step.launchId ?? step.commandId
  await server.applySpec(step.spec)
  if (beganBefore(server, launchId)) return { noop: false }
  refuseWhileInstalling(server)
  if (server.game !== undefined) {
    if (server.power !== 'stopping') {
      await server.record({ desired: 'running' })
      return { noop: true }
    }
    // Somebody typed the stop command, or the agent itself stops it: this order is the newer will.
    const { game, typedStop } = server
    await Promise.race(typedStop === undefined ? [game.ended] : [game.ended, typedStop])
    if (server.game === game) {
      await server.record({ desired: 'running' })
      return { noop: true }
    }
  }
  // A person decides to try again, so earlier crashes are forgiven.
  await server.record({ crashes: [], finishes: [] })
  await startGame(server, { launchId, commandId: step.commandId, signal: step.signal })
  return { noop: false }
}

type RestartOp = WireOf<typeof restartServer>

/** One order with two halves; which half is due shows from the run that is there. */
async function restart(server: GameServer, op: RestartOp, step: OrderStep): Promise<{ noop: boolean }> {
  await server.applySpec(op.spec)
  if (beganBefore(server, step.commandId)) return { noop: false }
  refuseWhileInstalling(server)
  await stopGame(server, { commandId: step.commandId, timeoutMs: op.timeoutMs, desired: 'running' })
  if (step.signal.aborted) throw replaced(step.signal)
  return await start(server, { ...step, spec: op.spec })
}

/** A run of this order is alive, or has already ended: it is not begun again. */
function beganBefore(server: GameServer, launchId: string): boolean {
  const { launch } = server.facts
  return launch?.id === launchId && (server.live !== undefined || launch.ended)
}

async function stop(server: GameServer, timeoutMs: number | undefined, commandId: string): Promise<{ noop: boolean }> {
  if (server.game !== undefined) {
    await stopGame(server, { commandId, timeoutMs, desired: 'stopped' })
    return { noop: false }
  }
  return await settle(server, commandId)
}

async function kill(server: GameServer, commandId: string): Promise<{ noop: boolean }> {
  // Held on to: the game may end by itself while the order is written down.
  const { live } = server
  if (live === undefined) return await settle(server, commandId)
  await server.record({ desired: 'stopped', reason: null })
  await recordStep(server, live, 'kill')
  await killRun(server, live)
  // One that ended by itself counted as a crash, perhaps: then a restart is due that nobody wants any more.
  await settle(server, commandId)
  return { noop: false }
}

/** Nothing runs: a coming restart is called off, and a crash is taken as seen. */
async function settle(server: GameServer, commandId: string): Promise<{ noop: boolean }> {
  await server.exitHandled()
  server.restartWait?.abort()
  const { desired, crashed, nextRestartAtMs } = server.facts
  if (desired === 'stopped' && !crashed && nextRestartAtMs === null) return { noop: true }
  await server.change({
    power: 'offline',
    facts: { desired: 'stopped', crashed: false, crashes: [], finishes: [], nextRestartAtMs: null, reason: null },
    commandId,
  })
  return { noop: false }
}

type InstallOp = WireOf<typeof installCommand>
type InstallStep = OrderStep & { progress(report: ProgressOf<typeof installCommand>): void }

async function install(server: GameServer, op: InstallOp, step: InstallStep): Promise<{ noop: boolean }> {
  const startId = `${step.commandId}-start`
  await server.applySpec(op.spec)
  server.restartWait?.abort()
  const done = server.facts.installed && server.facts.launch?.id === step.commandId && server.facts.launch.ended
  if (!done && !beganBefore(server, startId)) {
    await installServer(server, { launchId: step.commandId, wipe: op.wipe, ...step })
  }
  if (op.thenStart) step.progress({ step: 'starting' })
  if (op.thenStart) await start(server, { ...step, spec: op.spec, launchId: startId })
  return { noop: false }
}

type RebuildOp = WireOf<typeof rebuildCommand>
type RebuildStep = OrderStep & { progress(report: ProgressOf<typeof rebuildCommand>): void }

async function rebuild(server: GameServer, op: RebuildOp, step: RebuildStep): Promise<{ noop: boolean }> {
  const startId = `${step.commandId}-start`
  await server.applySpec(op.spec)
  if (beganBefore(server, startId)) return { noop: false }
  refuseWhileInstalling(server)
  await rebuildServer(server, step)
  if (op.thenStart) {
    step.progress({ step: 'starting' })
    await start(server, { ...step, spec: op.spec, launchId: startId })
  }
  return { noop: false }
}

function refuseWhileInstalling(server: GameServer): void {
  if (server.activity !== null) {
    const what =
      server.activity === 'restoring' ? 'A backup of the server is being restored' : 'The server is being installed'
    throw new AgentFailure('CONFLICT_STATE', what)
  }
}
