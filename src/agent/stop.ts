import type { ServerExit } from '../shared/frames.ts'
import { AgentFailure } from './failure.ts'
import type { LaunchFacts } from './journal-record.ts'
import { errorText } from './logger.ts'
import type { GameServer, LiveRun } from './server.ts'

const TERM_MS = 10_000
const KILL_MS = 30_000

interface StopOptions {
  readonly commandId: string | null
  /** Replaces the time that the stop rule gives the game. */
  readonly timeoutMs?: number | undefined
  /** Why the panel stops it without an order. */
  readonly reason?: string
  /** What is wanted afterwards: `running` for the first half of a restart. */
  readonly desired: 'running' | 'stopped'
}

/**
 * Stops the game by its rule, then with SIGTERM, then with SIGKILL. Resolves when its exit is journaled. Taken up again
 * after the agent was away, the time that has passed since the order counts.
 */
export async function stopGame(server: GameServer, options: StopOptions): Promise<ServerExit | undefined> {
  const live = server.game
  const { launch } = server.facts
  if (live === undefined || launch === null) {
    await server.exitHandled()
    return undefined
  }
  const { clock } = server.context
  const stopAtMs = launch.stopAtMs ?? clock.nowMs()
  const rule = server.spec.stop
  const timeoutMs = options.timeoutMs ?? rule.timeoutMs
  const { stopStep = 'rule' } = launch
  await server.change({
    power: 'stopping',
    facts: {
      launch: { ...launch, stopAtMs, stopStep, stopTimeoutMs: timeoutMs },
      desired: options.desired,
      reason: options.reason ?? null,
    },
    commandId: options.commandId,
  })
  await live.run.expectExit().catch(passOver)
  const passedMs = Math.min(Math.max(0, clock.nowMs() - stopAtMs), timeoutMs)
  // A game that does not read its input must not hold up the escalation, so nobody waits for this.
  const asked = rule.type === 'command' ? live.run.input(rule.value) : live.run.signal(rule.value)
  asked.catch((error: unknown) => {
    server.context.log.warn({ serverId: server.id, err: errorText(error) }, 'the stop order did not reach the server')
  })
  const exit = await waitForEnd(server, live, timeoutMs - passedMs)
  if (exit !== undefined) return exit
  await rememberStep(server, live, 'sigterm')
  await server.note(`Server has not stopped in ${Math.round(timeoutMs / 1000)} s, sending SIGTERM`)
  await live.run.signal('SIGTERM').catch(() => {}) // it has ended in this moment, or SIGKILL follows
  const terminated = await waitForEnd(server, live, TERM_MS)
  if (terminated !== undefined) return terminated
  await rememberStep(server, live, 'sigkill')
  await server.note('Server has not stopped after SIGTERM, sending SIGKILL')
  return await killRun(server, live)
}

/**
 * A run that has ended in this moment needs no order any more: its exit is waited for. A holder that cannot write the
 * expectation down (INTERNAL: a full disk) knows of it, and so does the journal.
 */
function passOver(error: unknown): void {
  if (!(error instanceof AgentFailure) || (error.code !== 'NOT_RUNNING' && error.code !== 'INTERNAL')) throw error
}

/** Writes down how far it had to go to end the run: its end is explained by that, also by a later agent. */
export async function rememberStep(
  server: GameServer,
  live: LiveRun,
  stopStep: NonNullable<LaunchFacts['stopStep']>,
): Promise<void> {
  const { launch } = server.facts
  if (launch === null || launch.ended || launch.id !== live.run.record.launchId || launch.stopStep === 'kill') return
  await server.remember({ launch: { ...launch, stopStep } })
}

/** Ends every process of a run now. Resolves when its exit is journaled. */
export async function killRun(server: GameServer, live: LiveRun): Promise<ServerExit> {
  await live.run.expectExit().catch(() => {}) // only a run that has ended refuses, or a disk that is full
  await live.run.signal('SIGKILL').catch(() => {}) // likewise
  const exit = await waitForEnd(server, live, KILL_MS)
  if (exit === undefined)
    throw new AgentFailure('TIMEOUT', 'The processes of the server do not end, even after SIGKILL')
  return exit
}

/** The exit when it comes within `ms`, else `undefined`. Rejects when the agent ends meanwhile: the order goes on later. */
export async function waitForEnd(server: GameServer, live: LiveRun, ms: number): Promise<ServerExit | undefined> {
  const { clock, ending } = server.context
  const over = new AbortController()
  const pause = clock.sleep(ms, AbortSignal.any([over.signal, ending])).then(() => undefined)
  try {
    const exit = await Promise.race([live.ended, pause])
    if (exit === undefined && ending.aborted) throw new AgentFailure('INTERRUPTED', 'The agent ends')
    return exit
  } finally {
    over.abort()
  }
}
