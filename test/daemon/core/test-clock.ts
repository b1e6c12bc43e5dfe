import { type Clock, systemClock } from '../../../src/shared/kernel/time.ts'

/** A clock that stands still until the test moves it; sleepers wake when it has moved far enough. */
export interface TestClock extends Clock {
  advance(ms: number): void
  /** How many sleep now. */
  sleepers(): number
}

export function testClock(): TestClock {
  const begin = systemClock.nowMs()
  let passed = 0
  const waiting = new Set<{ readonly at: number; readonly wake: () => void }>()
  return {
    nowMs: () => begin + passed,
    monotonicMs: () => passed,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted === true) return resolve()
        const sleeper = { at: passed + ms, wake: () => done() }
        const done = (): void => {
          waiting.delete(sleeper)
          signal?.removeEventListener('abort', done)
          resolve()
        }
        waiting.add(sleeper)
        signal?.addEventListener('abort', done)
      }),
    advance: (ms) => {
      passed += ms
      for (const sleeper of [...waiting].sort((a, b) => a.at - b.at)) if (sleeper.at <= passed) sleeper.wake()
    },
    sleepers: () => waiting.size,
  }
}
