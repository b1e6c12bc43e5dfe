import type { IsoTime } from './time.ts'

/** Where time comes from. The daemon and the agent get it as a parameter, so that tests own time. */
export interface Clock {
  /** Milliseconds since the epoch, by the wall clock; for stamps that people read. */
  nowMs(): number
  /** Milliseconds of a clock that never jumps; for durations and deadlines. */
  monotonicMs(): number
  /** Resolves after `ms`, or at once when `signal` aborts (it does not reject: callers look at the signal). */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** The instant `ms` milliseconds after the epoch. */
export function isoTime(ms: number): IsoTime {
  if (ms !== last.ms) last = { ms, text: new Date(ms).toISOString() as IsoTime } // a Date prints exactly the branded form
  return last.text
}

/** Under load the same instant is asked for many times. */
let last: { readonly ms: number; readonly text: IsoTime } = { ms: 0, text: '1970-01-01T00:00:00.000Z' as IsoTime }

/** The clock's present instant. */
export function now(clock: Clock): IsoTime {
  return isoTime(clock.nowMs())
}

/** The machine's own clock. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve()
      const done = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      let timer: ReturnType<typeof setTimeout>
      const waitFor = (left: number): void => {
        const piece = Math.min(left, LONGEST_TIMER_MS)
        timer = setTimeout(() => (left > piece ? waitFor(left - piece) : done()), piece)
      }
      waitFor(ms)
      signal?.addEventListener('abort', done)
    }),
}

/** A timer of Node that is longer than this ends at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/**
 * Milliseconds of a duration as people write it: `90` (seconds), `500ms`, `30s`, `10m`, `2h`, `7d`, `1h30m`.
 * `undefined` when the text is none.
 */
export function parseDuration(text: string): number | undefined {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000
  if (!/^(\d{1,15}(\.\d{1,15})?(ms|s|m|h|d))+$/.test(text)) return undefined
  const unit: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
  let total = 0
  for (const [, amount, name] of text.matchAll(/(\d{1,15}(?:\.\d{1,15})?)(ms|s|m|h|d)/g)) {
    total += Number(amount) * (unit[name ?? ''] ?? 0)
  }
  return total
}
