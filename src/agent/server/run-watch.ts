import type { ServerExit } from '../../shared/protocol/server.ts'
import { errorText } from '../logger.ts'
import type { Run, RunExit } from '../runtime/runtime.ts'
import { type CrashVerdict, classifyExit, exitText } from './crash.ts'
import { askForEula } from './eula.ts'
import { type EndContext, type ExitExplanation, explainExit } from './exit-cause.ts'
import { watchGame } from './port-watch.ts'
import type { GameServer, LiveRun } from './server.ts'

/** Follows a living run: its exit is handled, and a game is watched for its ready line and its port. */
export function attach(server: GameServer, run: Run): LiveRun {
  const { ending } = server.context
  // An exit that comes after the agent's end is kept by the runtime, and is the next agent's to take note of.
  const ended = run.exited.then((exit) => (ending.aborted ? new Promise<never>(() => {}) : handleExit(server, exit)))
  ended.catch((error: unknown) => {
    server.context.log.error({ serverId: server.id, err: errorText(error) }, 'cannot handle server exit')
  })
  const live = { run, ended }
  server.setLive(live)
  run.onPid(() => reportPid(server, run))
  if (run.record.kind === 'game') watchGame(server, run)
  return live
}

/** A program that went into the background is shown with a process that lives. */
function reportPid(server: GameServer, run: Run): void {
  if (server.game?.run !== run) return
  server.change({}).catch((error: unknown) => {
    server.context.log.warn({ serverId: server.id, err: errorText(error) }, 'cannot report process id')
  })
}

/**
 * Takes note of an exit: once, also when the agent dies in between, because the runtime keeps it until it is journaled.
 * `vanished` is given for a run that has left no exit.
 */
export function handleExit(server: GameServer, exit: RunExit, vanished?: EndContext['vanished']): Promise<ServerExit> {
  const handled = takeNote(server, exit, vanished)
  server.runEnded(handled)
  return handled
}

async function takeNote(server: GameServer, exit: RunExit, vanished: EndContext['vanished']): Promise<ServerExit> {
  await server.refreshBounds()
  const { launch } = server.facts
  const known = launch !== null && launch.id === exit.launchId && launch.ended
  const shape =
    exit.kind === 'install'
      ? installExit(exit)
      : known
        ? (server.facts.lastExit ?? endOf(server, exit, vanished).shape)
        : await gameExit(server, exit, vanished)
  if (exit.kind === 'install' && launch?.id === exit.launchId && !known) {
    await server.record({ launch: { ...launch, ended: true, exit: shape } })
  }
  await server.context.runs.forget(server.place, exit.launchId).catch((error: unknown) => {
    // It is found again at the next start of the agent, and known then.
    server.context.log.warn({ serverId: server.id, err: errorText(error) }, 'cannot remove exit record')
  })
  return shape
}

function installExit(exit: RunExit): ServerExit {
  return { code: exit.code, signal: exit.signal, oom: exit.oom, expected: exit.ordered, uptimeMs: exit.uptimeMs }
}

async function gameExit(server: GameServer, exit: RunExit, vanished: EndContext['vanished']): Promise<ServerExit> {
  const { context, facts } = server
  const { launch } = facts
  const found = endOf(server, exit, vanished)
  const { explanation, shape, stopping } = found
  // A game that only asks for its agreement and ends has not crashed, and would do the same again.
  const asked = exit.ordered || stopping ? undefined : await askForEula(server)
  const verdict = asked === undefined ? found.verdict : { ...found.verdict, ...UNTRIED }
  const nextRestartAtMs = verdict.restartInMs === null ? null : context.clock.nowMs() + verdict.restartInMs
  const change = server.change({
    // A clean end after which the policy starts it again is the beginning of that start.
    power: nextRestartAtMs !== null && !verdict.crashed ? 'starting' : 'offline',
    facts: {
      launch: launch === null ? null : { ...launch, ended: true },
      lastExit: { ...shape, expected: verdict.expected },
      reason: explanation.isBad || nextRestartAtMs !== null ? remark(verdict, explanation) : null,
      ...asked,
      crashed: verdict.crashed,
      crashes: verdict.crashes,
      finishes: verdict.finishes,
      nextRestartAtMs,
      // An end by a typed stop command or by the game's own will is what is wanted from now on.
      desired: verdict.expected && !stopping && nextRestartAtMs === null ? 'stopped' : facts.desired,
    },
  })
  const { code, signal, oom } = exit
  const log = { serverId: server.id, code, signal, oom, expected: verdict.expected, cause: explanation.cause }
  context.log.info(log, 'server ended')
  await change
  if (nextRestartAtMs !== null) context.onRestartDue(server)
  await server.note(
    `Server has ${verdict.crashed ? 'crashed' : 'stopped'} (${exitText(exit)}): ${asked?.reason ?? remark(verdict, explanation)}`,
  )
  return { ...shape, expected: verdict.expected }
}

/** What follows an end that waits for an agreement. */
const UNTRIED = { expected: true, crashed: false, crashes: [], finishes: [], restartInMs: null, gaveUp: false }

function endOf(server: GameServer, exit: RunExit, vanished: EndContext['vanished']) {
  const { context, spec, facts } = server
  const explanation = explainExit(exit, { spec, facts, ...(vanished === undefined ? {} : { vanished }) })
  const stopping = facts.launch !== null && facts.launch.stopAtMs !== null
  const ordered = exit.ordered || stopping
  const nowMs = context.clock.nowMs()
  const { isBad, cause } = explanation
  const isEngineRestart = cause === 'engine-restart'
  const { random } = context
  const verdict = classifyExit({ spec, facts, exit, ordered, isBad, isEngineRestart, nowMs, random })
  const shape: ServerExit = {
    code: exit.code,
    signal: exit.signal,
    oom: exit.oom,
    expected: verdict.expected,
    uptimeMs: Math.max(0, exit.uptimeMs),
    cause,
    message: explanation.message.slice(0, 500),
  }
  return { verdict, explanation, shape, stopping }
}

/** Why it ended and what comes next, in one line. */
function remark(verdict: CrashVerdict, { message }: ExitExplanation): string {
  if (verdict.restartInMs !== null) return `${message}; next start in ${Math.ceil(verdict.restartInMs / 1000)} s`
  if (!verdict.gaveUp) return message
  const count = verdict.crashes.length
  return `${message}; ${count} ${count === 1 ? 'crash' : 'crashes'} in 10 minutes, it is not started again`
}
