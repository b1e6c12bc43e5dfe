import type { ServerExit } from '../shared/frames.ts'
import { exitText, judgeExit } from './crash.ts'
import { errorText } from './logger.ts'
import { watchReady } from './ready.ts'
import type { Run, RunExit } from './runtime/runtime.ts'
import type { GameServer, LiveRun } from './server.ts'

/** Follows a living run: its exit is handled, and a game that is not up yet is watched for its ready line. */
export function attach(server: GameServer, run: Run): LiveRun {
  const { ending } = server.context
  // An exit that comes after the agent's end is kept by the runtime, and is the next agent's to take note of.
  const ended = run.exited.then((exit) => (ending.aborted ? new Promise<never>(() => {}) : handleExit(server, exit)))
  ended.catch((error: unknown) => {
    server.context.log.error(
      { serverId: server.id, err: errorText(error) },
      'the exit of a server could not be handled',
    )
  })
  const live = { run, ended }
  server.setLive(live)
  if (run.record.kind === 'game' && server.facts.launch?.readyAtMs === null && server.power === 'starting') {
    watchReady(server, run)
  }
  return live
}

/**
 * Takes note of an exit: once, also when the agent dies in between, because the runtime keeps it until it is journaled.
 * `reason` says what is known beside the exit itself.
 */
export function handleExit(server: GameServer, exit: RunExit, reason?: string): Promise<ServerExit> {
  const handled = takeNote(server, exit, reason)
  server.runEnded(handled)
  return handled
}

async function takeNote(server: GameServer, exit: RunExit, reason?: string): Promise<ServerExit> {
  await server.refreshBounds()
  const { launch } = server.facts
  const known = launch !== null && launch.id === exit.launchId && launch.ended
  const shape = exit.kind === 'install' ? installExit(exit) : await gameExit(server, exit, known, reason)
  if (exit.kind === 'install' && launch?.id === exit.launchId && !known) {
    await server.remember({ launch: { ...launch, ended: true, exit: shape } })
  }
  await server.context.runtime.forget(server.place, exit.launchId).catch((error: unknown) => {
    // It is found again at the next start of the agent, and known then.
    server.context.log.warn({ serverId: server.id, err: errorText(error) }, 'an exit record could not be removed')
  })
  return shape
}

function installExit(exit: RunExit): ServerExit {
  return { code: exit.code, signal: exit.signal, oom: exit.oom, expected: exit.ordered, uptimeMs: exit.uptimeMs }
}

async function gameExit(server: GameServer, exit: RunExit, known: boolean, reason?: string): Promise<ServerExit> {
  const { context, spec, facts } = server
  const { launch } = facts
  const stopping = launch?.stopAtMs !== null && launch?.stopAtMs !== undefined
  const nowMs = context.clock.nowMs()
  const verdict = judgeExit({ spec, facts, exit, ordered: exit.ordered || stopping, nowMs, random: context.random })
  if (known) return facts.lastExit ?? verdict.exit
  const nextRestartAtMs = verdict.restartInMs === null ? null : nowMs + verdict.restartInMs
  const change = server.change({
    power: 'offline',
    facts: {
      launch: launch === null ? null : { ...launch, ended: true },
      lastExit: verdict.exit,
      reason: reason ?? exit.by ?? (stopping ? facts.reason : null),
      crashed: verdict.crashed,
      crashes: verdict.crashes,
      nextRestartAtMs,
      // An end by a typed stop command or by the game's own will is what is wanted from now on.
      desired: verdict.exit.expected && !stopping ? 'stopped' : facts.desired,
    },
  })
  const log = {
    serverId: server.id,
    code: exit.code,
    signal: exit.signal,
    oom: exit.oom,
    expected: verdict.exit.expected,
  }
  context.log.info(log, 'server ended')
  await change
  if (nextRestartAtMs !== null) context.onRestartDue(server)
  await server.note(remark(verdict, exit))
  return verdict.exit
}

function remark(verdict: ReturnType<typeof judgeExit>, exit: RunExit): string {
  if (verdict.exit.expected) return `Server has stopped (${exitText(exit)})`
  const what = `Server has crashed (${exitText(exit)}${exit.by === null ? '' : `: ${exit.by}`})`
  if (verdict.restartInMs !== null) return `${what}; next start in ${Math.ceil(verdict.restartInMs / 1000)} s`
  return verdict.gaveUp ? `${what}; ${verdict.crashes.length} crashes in 10 minutes, it is not started again` : what
}
