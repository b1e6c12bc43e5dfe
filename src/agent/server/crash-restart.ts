import { AgentFailure, NodeShortage } from '../failure.ts'
import { errorText } from '../logger.ts'
import { backOff, untilRestart } from './crash.ts'
import type { GameServer } from './server.ts'
import { endedLaunch, noteFailure, startGame } from './start.ts'

/** Waits until a crashed server's next start is due, and starts it. An order that comes first ends the wait. */
export function scheduleRestart(server: GameServer): void {
  const { clock, ending, log } = server.context
  const waitMs = untilRestart(server.facts, clock.nowMs())
  if (waitMs === null) return
  server.restartWait?.abort()
  const wait = new AbortController()
  server.restartWait = wait
  const signal = AbortSignal.any([wait.signal, server.gone.signal, ending])
  const restart = async (): Promise<void> => {
    await clock.sleep(waitMs, signal)
    if (signal.aborted) return
    await server.order(async (order) => {
      if (!signal.aborted && !order.aborted) await restartNow(server, order)
    })
  }
  restart().catch((error: unknown) => {
    log.error({ serverId: server.id, err: errorText(error) }, 'cannot restart server')
  })
}

async function restartNow(server: GameServer, signal: AbortSignal): Promise<void> {
  const { facts, live } = server
  if (live !== undefined || facts.desired !== 'running' || facts.nextRestartAtMs === null) return
  try {
    await startGame(server, { commandId: null, signal })
  } catch (error) {
    if (signal.aborted || server.deleted || server.context.ending.aborted) return
    // A stop called it off while it waited for its port.
    if (error instanceof AgentFailure && error.code === 'INTERRUPTED') return
    await countFailedStart(server, error)
  }
}

/** A start that failed (a port that another program uses, say) counts as one more crash. */
async function countFailedStart(server: GameServer, error: unknown): Promise<void> {
  const { clock, random, onRestartDue } = server.context
  const failure = await noteFailure(server, error)
  // What the node lacks is no fault of the server: it is tried again, and counts for nothing.
  const isCounted = !(error instanceof NodeShortage)
  const crashes = isCounted ? [...server.facts.crashes, clock.nowMs()] : server.facts.crashes
  // A suspended server is started by an order once it may run again, and never by itself.
  const final = (isCounted && crashes.length >= server.spec.restart.maxCrashes) || isSuspension(error)
  const waitMs = backOff(Math.max(1, crashes.length), random)
  const next = final ? 'it is not started again' : `next start in ${Math.ceil(waitMs / 1000)} s`
  await server.change({
    power: 'offline',
    facts: {
      launch: endedLaunch(server),
      crashes,
      crashed: true,
      nextRestartAtMs: final ? null : clock.nowMs() + waitMs,
      reason: `${failure ?? 'It could not be started'}; ${next}`,
    },
  })
  if (!final) onRestartDue(server)
  else await server.note('Server is not started again')
}

function isSuspension(error: unknown): boolean {
  return error instanceof AgentFailure && error.code === 'SUSPENDED'
}
