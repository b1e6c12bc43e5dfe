import type { ServerExit } from '../shared/frames.ts'
import type { PowerState } from '../shared/server-life.ts'
import type { ServerSpec } from '../shared/server-spec.ts'
import type { ServerFacts } from './journal-record.ts'
import type { RunExit } from './runtime/runtime.ts'

const WINDOW_MS = 10 * 60_000
const RESET_MS = 5 * 60_000
const FIRST_DELAY_MS = 2000
const LAST_DELAY_MS = 5 * 60_000

/** What an exit means for the server's future. */
export interface CrashVerdict {
  readonly exit: ServerExit
  readonly crashed: boolean
  /** The crashes that count from now on. */
  readonly crashes: number[]
  /** How long until the next start; `null` when there is none by the agent's own will. */
  readonly restartInMs: number | null
  /** The limit of crashes is reached. */
  readonly gaveUp: boolean
}

/**
 * Judges an exit by the restart policy. Ordered ends are never crashes. Back-off 2 s · 2ⁿ plus jitter, at most 5 min; the
 * agent gives up when `maxCrashes` crashes lie within 10 min; 5 min of running forgive all earlier ones.
 */
export function judgeExit(options: {
  spec: ServerSpec
  facts: ServerFacts
  exit: RunExit
  ordered: boolean
  nowMs: number
  random: () => number
}): CrashVerdict {
  const { spec, facts, exit, nowMs } = options
  const { policy, maxCrashes } = spec.restart
  const clean = exit.code === 0 && exit.signal === null && !exit.oom && exit.by === null
  const expected = options.ordered || (clean && policy !== 'always')
  const shape: ServerExit = {
    code: exit.code,
    signal: exit.signal,
    oom: exit.oom,
    expected,
    uptimeMs: Math.max(0, exit.uptimeMs),
  }
  if (expected) {
    return { exit: shape, crashed: false, crashes: [], restartInMs: null, gaveUp: false }
  }
  const readyAtMs = facts.launch?.readyAtMs ?? null
  const forgiven = readyAtMs !== null && exit.endedAtMs - readyAtMs >= RESET_MS
  const crashes = [...(forgiven ? [] : recent(facts.crashes, nowMs)), nowMs]
  if (policy === 'never') return { exit: shape, crashed: true, crashes, restartInMs: null, gaveUp: false }
  if (crashes.length >= maxCrashes) return { exit: shape, crashed: true, crashes, restartInMs: null, gaveUp: true }
  return { exit: shape, crashed: true, crashes, restartInMs: backOff(crashes.length, options.random), gaveUp: false }
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
export function untilRestart(facts: Pick<ServerFacts, 'nextRestartAtMs' | 'crashes'>, nowMs: number): number | null {
  if (facts.nextRestartAtMs === null) return null
  const longest = backOff(Math.max(1, facts.crashes.length), () => 1)
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
