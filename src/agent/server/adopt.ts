import type { ServerActivity } from '../../shared/kernel/server-life.ts'
import type { SettledServer } from '../../shared/protocol/server.ts'
import { MACHINE_RESTART } from '../holder/holder-files.ts'
import { errorText } from '../logger.ts'
import type { RunExit, RunTable } from '../runtime/runtime.ts'
import { type CommandRecord, type LaunchFacts, newLaunch } from '../state/journal-record.ts'
import { lastRun } from '../state/last-run.ts'
import { applyBootPolicy } from './boot.ts'
import { scheduleRestart } from './crash-restart.ts'
import { attach, handleExit } from './run-watch.ts'
import type { GameServer, LiveRun } from './server.ts'
import { stopGame } from './stop.ts'

/**
 * Brings a server's state up to what is really there: a living run goes on, an exit of the time when the agent was away is
 * handled now, and a run that vanished with its holder (a reboot, say) is reported as an unexpected end. `orders` are the
 * orders that will be taken up: a run that one of them began is its own to follow.
 */
export async function adoptServer(server: GameServer, orders: readonly CommandRecord[]): Promise<void> {
  const owned = (launchId: string): boolean => orders.some(({ id }) => launchId === id || launchId === `${id}-start`)
  const found = await server.context.runs.adopt(server.place)
  await server.refreshBounds()
  await findState(server, found, owned)
  await applyBootPolicy(server)
}

async function findState(
  server: GameServer,
  found: Awaited<ReturnType<RunTable['adopt']>>,
  owned: (launchId: string) => boolean,
): Promise<void> {
  const { runs } = server.context
  if (found !== undefined && 'run' in found) {
    const { record } = found.run
    const launch = server.facts.launch
    // The journal does not know the run when it was lost: the game has been up for longer than the agent, and counts so.
    if (launch?.id !== record.launchId) {
      const known = newLaunch(record.launchId, record.kind, server.context.bootId)
      await server.record({ launch: { ...known, readyAtMs: server.context.clock.nowMs() } })
    }
    server.adoptState(...stateOf(server, record.kind))
    const live = attach(server, found.run)
    if (record.kind === 'install' && !owned(record.launchId)) followUnowned(server, live)
    return
  }
  if (found !== undefined) {
    server.adoptState(...stateOf(server, found.exit.kind))
    const { launch } = server.facts
    const isReboot = found.exit.by === MACHINE_RESTART && found.exit.kind === 'game'
    if (isReboot && launch?.id === found.exit.launchId && !launch.ended) {
      await rebootedRun(server, launch, found.exit.uptimeMs)
      await runs.forget(server.place, launch.id)
    } else await handleExit(server, found.exit)
  } else if (await isBehind(server)) {
    await forgottenEnd(server)
  } else if (isLost(server.facts.launch) && !owned(server.facts.launch.id)) {
    await lostRun(server, server.facts.launch)
  }
  // A clean end after which the policy starts it again has its next start before it.
  const { crashed, nextRestartAtMs } = server.facts
  server.adoptState(nextRestartAtMs !== null && !crashed ? 'starting' : 'offline', server.activity)
}

/** Goes on with what no order carries: the wait for the next start after a crash, and a stop of the agent's own will. */
export function resumeServer(server: GameServer): void {
  const { desired, reason } = server.facts
  if (server.live === undefined) {
    if (desired === 'running') scheduleRestart(server)
  } else if (server.power === 'stopping' && server.queue.size === 0) {
    const stop = server.order(() =>
      stopGame(server, { commandId: null, desired, ...(reason === null ? {} : { reason }) }),
    )
    stop.catch((error: unknown) => {
      server.context.log.error({ serverId: server.id, err: errorText(error) }, 'cannot stop server')
    })
  }
}

/** An installation whose order went with a lost journal: its end decides whether the server counts as installed. */
function followUnowned(server: GameServer, live: LiveRun): void {
  const followed = live.ended.then(async (exit) => {
    const installError = exit.code === 0 ? null : 'The installation failed'
    await server.change({ activity: null, facts: { installed: exit.code === 0, installError } })
  })
  followed.catch((error: unknown) => {
    server.context.log.error({ serverId: server.id, err: errorText(error) }, 'cannot follow installation')
  })
}

/**
 * The journal is older than what a holder has written: a run that it takes for living was ended and taken note of, or there
 * was a later one. What was wanted since is not known here.
 */
async function isBehind(server: GameServer): Promise<boolean> {
  const { launch } = server.facts
  const record = await lastRun(server.place.state)
  if (record === undefined) return false
  if (record.launchId === launch?.id) return record.forgotten && !launch.ended
  return record.startedAtMs > server.context.journal.lastMs
}

/** Nothing is started again by a journal that may be older than a stop; the daemon says what is wanted. */
async function forgottenEnd(server: GameServer): Promise<void> {
  const { launch } = server.facts
  await server.change({
    power: 'offline',
    activity: null,
    facts: {
      launch: launch === null ? null : { ...launch, ended: true },
      desired: 'stopped',
      crashed: false,
      nextRestartAtMs: null,
      reason: 'The journal of the agent is older than the last run of this server; start it again if it should run',
    },
  })
}

/** What the daemon knows better than a journal that has lost something. */
export function settleServer(server: GameServer, { generation, desired }: SettledServer): void {
  if (generation < server.facts.generation) return
  if (desired === 'stopped') server.restartWait?.abort()
  void server.record({ generation, desired, ...(desired === 'stopped' ? { nextRestartAtMs: null } : {}) })
}

type Found = ['offline' | 'starting' | 'running' | 'stopping', ServerActivity | null]

function stateOf(server: GameServer, kind: LaunchFacts['kind']): Found {
  if (kind === 'install') return ['offline', 'installing']
  const { launch } = server.facts
  if (launch?.stopAtMs !== null && launch?.stopAtMs !== undefined) return ['stopping', null]
  return [launch?.readyAtMs === null ? 'starting' : 'running', null]
}

function isLost(launch: LaunchFacts | null): launch is LaunchFacts {
  return launch !== null && !launch.ended
}

/** A run that has left neither a process nor an exit. After a reboot a wanted server starts again, as after a crash. */
async function lostRun(server: GameServer, launch: LaunchFacts): Promise<void> {
  if (launch.kind === 'install') {
    return await server.change({
      activity: null,
      facts: {
        launch: { ...launch, ended: true },
        installError: 'The installation was interrupted; install the server again',
      },
    })
  }
  const { context } = server
  const rebooted = launch.bootId !== context.bootId
  // What began has a record, and a holder that takes it over when its own is gone.
  if (!rebooted && launch.readyAtMs === null) return await unbegun(server, launch)
  const nowMs = context.clock.nowMs()
  const uptimeMs = launch.readyAtMs === null ? 0 : Math.max(0, nowMs - launch.readyAtMs)
  server.adoptState(launch.readyAtMs === null ? 'starting' : 'running', null)
  if (rebooted) return await rebootedRun(server, launch, uptimeMs)
  const exit: RunExit = {
    launchId: launch.id,
    kind: 'game',
    code: null,
    signal: null,
    oom: false,
    ordered: false,
    by: null,
    endedAtMs: nowMs,
    uptimeMs,
    lastSeq: 0,
  }
  await handleExit(server, exit, { cause: 'lost', message: 'The process and its holder have vanished' })
}

/** A reboot is no fault of the game, so it counts as no crash, and a wanted server starts at once. */
async function rebootedRun(server: GameServer, launch: LaunchFacts, uptimeMs: number): Promise<void> {
  const message = 'The machine was restarted'
  const isStopped = launch.stopAtMs !== null && server.facts.desired === 'stopped'
  const wanted = server.facts.desired === 'running'
  const startsAgain = wanted && server.spec.restart.policy !== 'never'
  await server.change({
    // The next start is due: this is its beginning.
    power: startsAgain ? 'starting' : 'offline',
    facts: {
      launch: { ...launch, ended: true },
      lastExit: {
        code: null,
        signal: null,
        oom: false,
        expected: isStopped,
        uptimeMs,
        cause: 'machine-restart',
        message,
      },
      reason: message,
      crashed: wanted && !startsAgain,
      nextRestartAtMs: startsAgain ? server.context.clock.nowMs() : null,
    },
  })
  await server.note(`Server has ended: ${message.toLowerCase()}`)
}

/** A start after a crash that the end of the agent cut off before it began: it is due again, and no crash more. */
async function unbegun(server: GameServer, launch: LaunchFacts): Promise<void> {
  const wanted = server.facts.desired === 'running'
  server.adoptState('starting', null)
  await server.change({
    power: 'offline',
    facts: {
      launch: { ...launch, ended: true },
      crashed: wanted,
      nextRestartAtMs: wanted ? server.context.clock.nowMs() : null,
    },
  })
}
