import type { Clock } from '../../shared/kernel/time.ts'

/**
 * The machine's clock, as `systemClock` is; that one comes with zod, which would cost every holder memory and time, as the modules
 * behind `performance` do.
 */
export const holderClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => Number(process.hrtime.bigint()) / 1e6,
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve()
      const done = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal?.addEventListener('abort', done)
    }),
}
