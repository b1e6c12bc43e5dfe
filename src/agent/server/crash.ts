import type { PowerState } from '../../shared/kernel/server-life.ts'
import type { ServerExit } from '../../shared/protocol/server.ts'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import type { RunExit } from '../runtime/runtime.ts'
import type { ServerFacts } from '../state/journal-record.ts'

const WINDOW_MS = 10 * 60_000
const RESET_MS = 5 * 60_000
const FIRST_DELAY_MS = 2000
const LAST_DELAY_MS = 5 * 60_000

/** What an exit means for the server's future. */
export interface CrashVerdict {
  /** It was ordered, or clean. */
  readonly expected: boolean
  readonly crashed: boolean
  /** The crashes that count from now on. */
  readonly crashes: number[]
  /** The clean ends that lengthen the pause before the next start. */
  readonly finishes: number[]
  /** How long until the next start; `null` when there is none by the agent's own will. */
  readonly restartInMs: number | null
  /** The limit of crashes is reached. */
  readonly gaveUp: boolean
}

/**
 * Validates an exit against the restart policy. Ordered ends and clean ones are never crashes. Back-off 2 s · 2ⁿ plus jitter,
 * at most 5 min; the agent gives up when `maxCrashes` crashes lie within 10 min; 5 min of running forgive all earlier ones.
 */
export function classifyExit(options: {
  spec: ServerSpec
  facts: ServerFacts
  exit: RunExit
  ordered: boolean
  isBad: boolean
  /** The container engine has ended it: no fault of the server, which is started again. */
  isEngineRestart?: boolean
  nowMs: number
  random: () => number
}): CrashVerdict {
  const { spec, facts, exit, nowMs, random } = options
  const { policy, maxCrashes } = spec.restart
  const calm = { crashed: false, crashes: [], finishes: [], restartInMs: null, gaveUp: false }
  if (options.ordered) return { ...calm, expected: true }
  const readyAtMs = facts.launch?.readyAtMs ?? null
  const forgiven = readyAtMs !== null && exit.endedAtMs - readyAtMs >= RESET_MS
  const earlier = (instants: readonly number[]): number[] => (forgiven ? [] : recent(instants, nowMs))
  if (!options.isBad) {
    if (policy !== 'always') return { ...calm, expected: true }
    const finishes = [...earlier(facts.finishes ?? []), nowMs]
    const crashes = earlier(facts.crashes)
    return { ...calm, expected: true, crashes, finishes, restartInMs: backOff(finishes.length, random) }
  }
  if (options.isEngineRestart === true && policy !== 'never') {
    const counts = { crashes: earlier(facts.crashes), finishes: earlier(facts.finishes ?? []) }
    return { ...calm, ...counts, expected: false, restartInMs: backOff(1, random) }
  }
  const crashes = [...earlier(facts.crashes), nowMs]
  const crash = { ...calm, expected: false, crashed: true, crashes }
  if (policy === 'never') return crash
  if (crashes.length >= maxCrashes) return { ...crash, gaveUp: true }
  return { ...crash, restartInMs: backOff(crashes.length, random) }
}

/** The wait before the next start after the `count`th crash in a row. */
export function backOff(count: number, random: () => number): number {
  const base = Math.min(LAST_DELAY_MS, FIRST_DELAY_MS * 2 ** (count - 1))
  return Math.min(LAST_DELAY_MS, Math.round(base + base * 0.25 * random()))
}

/**
 * How long until the next start that is due; `null` when none is. An instant that lies farther ahead than any wait comes
 * from a clock that was set back since, and does not put the start off.
 */
export function untilRestart(
  facts: Pick<ServerFacts, 'nextRestartAtMs' | 'crashes' | 'finishes'>,
  nowMs: number,
): number | null {
  if (facts.nextRestartAtMs === null) return null
  const longest = backOff(Math.max(1, facts.crashes.length, facts.finishes?.length ?? 0), () => 1)
  return Math.min(longest, Math.max(0, facts.nextRestartAtMs - nowMs))
}

/** How many crashes count now: none any more once the server has been up for five minutes. */
export function crashCount(facts: ServerFacts, power: PowerState, nowMs: number): number {
  const readyAtMs = facts.launch?.readyAtMs ?? null
  if (power === 'running' && readyAtMs !== null && nowMs - readyAtMs >= RESET_MS) return 0
  return facts.crashes.length
}

function recent(crashes: readonly number[], nowMs: number): number[] {
  // An instant ahead of now comes from a clock that was set back; it counts, because it cannot be old.
  return crashes.filter((atMs) => nowMs - atMs < WINDOW_MS)
}

/** How an exit reads in a sentence: "exit code 1", "signal SIGKILL". */
export function exitText(exit: Pick<ServerExit, 'code' | 'signal' | 'oom'>): string {
  if (exit.oom) return 'out of memory'
  if (exit.signal !== null) return `signal ${exit.signal}`
  return exit.code === null ? 'unknown exit code' : `exit code ${exit.code}`
}
