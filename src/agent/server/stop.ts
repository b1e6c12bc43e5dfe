import type { ServerExit } from '../../shared/protocol/server.ts'
import type { StopRule } from '../../shared/protocol/server-spec.ts'
import { RconUnanswered } from '../console/rcon/rcon-client.ts'
import { typeLine } from '../console/type-line.ts'
import { AgentFailure } from '../failure.ts'
import { errorText } from '../logger.ts'
import type { LaunchFacts } from '../state/journal-record.ts'
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
 * Stops the game by the rule it was started with, then with SIGTERM, then with SIGKILL. Resolves when its exit is journaled.
 * Its time counts from when it was asked; taken up again after the agent was away, what has passed since then counts. A game
 * that could not be asked runs on, and the order fails.
 */
export async function stopGame(server: GameServer, options: StopOptions): Promise<ServerExit | undefined> {
  const live = server.game
  const { launch } = server.facts
  if (live === undefined || launch === null) {
    await server.exitHandled()
    return undefined
  }
  const { power, facts } = server
  const rule = server.rules.stop
  const timeoutMs = options.timeoutMs ?? rule.timeoutMs
  const { stopStep = 'rule' } = launch
  const nowMs = server.context.clock.nowMs()
  const stopAtMs = launch.stopAtMs ?? nowMs
  await server.change({
    power: 'stopping',
    facts: {
      launch: { ...launch, stopAtMs, stopStep, stopTimeoutMs: timeoutMs },
      desired: options.desired,
      reason: options.reason ?? null,
    },
    commandId: options.commandId,
  })
  try {
    await live.run.expectExit().catch(passOver)
  } catch (error) {
    const isTakenUp = launch.stopAtMs !== null
    const reason = `It could not be stopped: ${messageOf(error)}; stop it again, or look at its node`
    const before = { launch, desired: facts.desired, reason }
    // An agent that ends leaves the stop as it is: the next one takes it up.
    if (!server.context.ending.aborted && server.game === live) {
      await server.change(isTakenUp ? { facts: { reason } } : { power, facts: before })
    }
    throw error
  }
  try {
    return await endInSteps(server, live, { rule, timeoutMs, sinceMs: launch.askedAtMs ?? nowMs })
  } catch (error) {
    const reason = `It could not be stopped: ${messageOf(error)}; kill it, or look at its node`
    if (!server.context.ending.aborted && server.game === live) await server.change({ facts: { reason } })
    throw error
  }
}

async function endInSteps(
  server: GameServer,
  live: LiveRun,
  { rule, timeoutMs, sinceMs }: { readonly rule: StopRule; readonly timeoutMs: number; readonly sinceMs: number },
): Promise<ServerExit> {
  const passedMs = Math.max(0, server.context.clock.nowMs() - sinceMs)
  const leftMs = Math.max(0, timeoutMs - passedMs)
  const refused = new AbortController()
  // A game that does not read its input must not hold up the escalation, so nobody waits for this.
  if (server.facts.launch?.askedAtMs === undefined) {
    ask(server, live, rule).then(
      (isAsked) => isAsked || refused.abort(),
      (error: unknown) => {
        // It was asked or not: the time goes on either way, and a later agent asks again.
        server.context.log.warn({ serverId: server.id, err: errorText(error) }, 'cannot record stop order')
      },
    )
  }
  const exit = await waitForEnd(server, live, leftMs, refused.signal)
  if (exit !== undefined) return exit
  await recordStep(server, live, 'sigterm')
  const why = refused.signal.aborted
    ? `could not be asked to stop (${server.facts.launch?.unasked})`
    : `has not stopped in ${Math.round(timeoutMs / 1000)} s`
  await server.note(`Server ${why}, sending SIGTERM`)
  await live.run.signal('SIGTERM').catch(() => {}) // it has ended in this moment, or SIGKILL follows
  // A game that never heard of it has all its time now.
  const terminated = await waitForEnd(server, live, refused.signal.aborted ? Math.max(leftMs, TERM_MS) : TERM_MS)
  if (terminated !== undefined) return terminated
  await recordStep(server, live, 'sigkill')
  await server.note('Server has not stopped after SIGTERM, sending SIGKILL')
  return await killRun(server, live)
}

/** Sends what the stop rule says, and writes down that the game has it, or why not. False when it has not. */
async function ask(server: GameServer, live: LiveRun, rule: StopRule): Promise<boolean> {
  const isOurs = (): boolean => server.game === live && server.facts.launch?.id === live.run.record.launchId
  try {
    await (rule.type === 'command'
      ? typeLine(server, live, rule.value, { isStop: true })
      : live.run.signal(rule.value, rule.key))
  } catch (error) {
    // One that has ended in this moment needs no word.
    if (error instanceof AgentFailure && error.code === 'NOT_RUNNING') return true
    // A game that stops may close its RCON before it answers; it gets its time to save.
    if (!(error instanceof RconUnanswered)) {
      const { launch } = server.facts
      const unasked = messageOf(error).slice(0, 300)
      if (isOurs() && launch !== null) await server.record({ launch: { ...launch, unasked } })
      server.context.log.warn({ serverId: server.id, err: errorText(error) }, 'cannot send stop order to server')
      return false
    }
  }
  const { launch } = server.facts
  if (isOurs() && launch !== null) {
    const { unasked: _, ...heard } = launch // an earlier agent may not have got through
    await server.record({ launch: { ...heard, askedAtMs: server.context.clock.nowMs() } })
  }
  return true
}

/**
 * The stop command, typed by a person: the server is stopping for the time of its rule. A game that does not heed it runs on,
 * and an end after that is its own.
 */
export async function typeStop(
  server: GameServer,
  live: LiveRun,
  { line, signal }: { readonly line: string; readonly signal: AbortSignal },
): Promise<void> {
  const { timeoutMs } = server.rules.stop
  await live.run.expectExit(timeoutMs)
  server.typingStops += 1
  try {
    await typeLine(server, live, line, { signal })
  } catch (error) {
    const isAnother = server.typingStops > 1 || server.power === 'stopping'
    // What has not reached the game is no reason for its end.
    if (!isAnother && !mayHaveArrived(error)) await live.run.expectExit(0).catch(passOver)
    throw error
  } finally {
    server.typingStops -= 1
  }
  if (server.game !== live || server.power !== 'running') return
  await server.change({ power: 'stopping' })
  const runsOn = async (): Promise<void> => {
    const exit = await waitForEnd(server, live, timeoutMs)
    // Once its first process has ended, the rest of the run goes the same way.
    if (exit !== undefined || live.run.pid !== live.run.record.pid) await live.ended
    const isStopped = server.facts.launch?.stopAtMs !== null
    if (server.game === live && server.power === 'stopping' && !isStopped) await server.change({ power: 'running' })
  }
  server.typedStop = runsOn().catch((error: unknown) => {
    if (server.context.ending.aborted) return
    server.context.log.warn({ serverId: server.id, err: errorText(error) }, 'cannot follow typed stop command')
  })
}

function mayHaveArrived(error: unknown): boolean {
  return error instanceof RconUnanswered || !(error instanceof AgentFailure) || error.code === 'INTERRUPTED'
}

function messageOf(error: unknown): string {
  return error instanceof AgentFailure ? error.message : 'The agent failed to reach its process'
}

/**
 * A run that has ended in this moment needs no order any more: its exit is waited for. A holder that cannot write the
 * expectation down (INTERNAL: a full disk) knows of it, and so does the journal.
 */
function passOver(error: unknown): void {
  if (!(error instanceof AgentFailure) || (error.code !== 'NOT_RUNNING' && error.code !== 'INTERNAL')) throw error
}

/** Writes down how far it had to go to end the run: its end is explained by that, also by a later agent. */
export async function recordStep(
  server: GameServer,
  live: LiveRun,
  stopStep: NonNullable<LaunchFacts['stopStep']>,
): Promise<void> {
  const { launch } = server.facts
  if (launch === null || launch.ended || launch.id !== live.run.record.launchId || launch.stopStep === 'kill') return
  await server.record({ launch: { ...launch, stopStep } })
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

/**
 * The exit when it comes within `ms`, else `undefined`; `cut` ends the wait before. Rejects when the agent ends meanwhile: the
 * order goes on later.
 */
export async function waitForEnd(
  server: GameServer,
  live: LiveRun,
  ms: number,
  cut?: AbortSignal,
): Promise<ServerExit | undefined> {
  const { clock, ending } = server.context
  const over = new AbortController()
  const cuts = cut === undefined ? [over.signal, ending] : [over.signal, ending, cut]
  const pause = clock.sleep(ms, AbortSignal.any(cuts)).then(() => undefined)
  try {
    const exit = await Promise.race([live.ended, pause])
    if (exit === undefined && ending.aborted) throw new AgentFailure('INTERRUPTED', 'The agent ends')
    return exit
  } finally {
    over.abort()
  }
}
