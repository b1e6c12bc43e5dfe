import { AgentFailure, NodeShortage, NodeUnready } from '../failure.ts'
import { errorText } from '../logger.ts'
import { backOff, untilRestart } from './crash.ts'
import { EulaMissing } from './eula.ts'
import type { GameServer } from './server.ts'
import { endedLaunch, noteFailure, startGame } from './start.ts'
import type { StartRank } from './start-places.ts'

/**
 * Waits until a server's next start is due and has its turn among the starts of the node, and starts it. An order that comes first ends
 * the wait.
 */
export function scheduleRestart(server: GameServer): void {
  const { clock, ending, log, starts } = server.context
  const waitMs = untilRestart(server.facts, clock.nowMs())
  if (waitMs === null) return
  server.restartWait?.abort()
  const wait = new AbortController()
  server.restartWait = wait
  const signal = AbortSignal.any([wait.signal, server.gone.signal, ending])
  const restart = async (): Promise<void> => {
    // What is due waits for its turn from this very moment on: starts that are due together come by their ranks.
    if (waitMs > 0) await clock.sleep(waitMs, signal)
    const place = await starts.wait(rankOf(server), signal, () => sayThatItWaits(server))
    if (place === undefined) return
    try {
      await server.order(async (order) => {
        if (signal.aborted || order.aborted) return
        server.startPlace = place
        await restartNow(server, order)
      })
    } finally {
      if (server.live === undefined || server.power !== 'starting') place.release()
    }
  }
  restart().catch((error: unknown) => {
    log.error({ serverId: server.id, err: errorText(error) }, 'cannot restart server')
  })
}

function rankOf({ id, spec }: GameServer): StartRank {
  return { order: spec.boot?.order ?? 0, name: spec.name, id }
}

function sayThatItWaits(server: GameServer): void {
  const { starts, log } = server.context
  const [before] = (server.facts.reason ?? '').split(ITS_TURN)
  const wait = `${ITS_TURN}: its node starts at most ${starts.atOnce} servers at once`
  const said = server.change({ facts: { reason: `${before || 'It is to be started'}${wait}` } })
  said.catch((error: unknown) =>
    log.warn({ serverId: server.id, err: errorText(error) }, 'cannot report waiting start'),
  )
}

/** While the container engine is away a start is tried as often as after so many crashes: every 8 to 10 s. */
const ENGINE_ATTEMPT = 3

const ITS_TURN = '; it waits for its turn'

async function restartNow(server: GameServer, signal: AbortSignal): Promise<void> {
  const { facts, live } = server
  if (live !== undefined || facts.desired !== 'running' || facts.nextRestartAtMs === null) return
  try {
    await startGame(server, { commandId: null, signal })
  } catch (error) {
    if (signal.aborted || server.deleted || server.context.ending.aborted) return
    // A stop called it off while it waited for its port.
    if (error instanceof AgentFailure && error.code === 'INTERRUPTED') return
    if (error instanceof EulaMissing) await settleWithoutEula(server, error)
    else await countFailedStart(server, error)
  }
}

async function settleWithoutEula(server: GameServer, { message: reason }: EulaMissing): Promise<void> {
  await server.note(`Server could not be started: ${reason}`)
  const facts = { crashed: false, nextRestartAtMs: null, desired: 'stopped', reason } as const
  await server.change({ power: 'offline', facts: { ...facts, launch: endedLaunch(server) } })
}

/** A start that failed (a port that another program uses, say) counts as one more crash. */
async function countFailedStart(server: GameServer, error: unknown): Promise<void> {
  const { clock, random, onRestartDue } = server.context
  const failure = await noteFailure(server, error)
  // What the node lacks is no fault of the server: it is tried again, and counts for nothing.
  const isCounted = !(error instanceof NodeUnready)
  const crashes = isCounted ? [...server.facts.crashes, clock.nowMs()] : server.facts.crashes
  // A suspended server is started by an order once it may run again, and never by itself.
  const final = (isCounted && crashes.length >= server.spec.restart.maxCrashes) || isSuspension(error)
  // An engine may be away for long: what is tried meanwhile is said each time.
  const isLong = error instanceof NodeUnready && !(error instanceof NodeShortage)
  const waitMs = backOff(Math.max(isLong ? ENGINE_ATTEMPT : 1, crashes.length), random)
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
