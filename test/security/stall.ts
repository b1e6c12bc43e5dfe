import { monitorEventLoopDelay } from 'node:perf_hooks'

/** Milliseconds for which the event loop of this process answered nothing, at most, while `work` ran. */
export async function longestStall(work: () => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 5 })
  delay.enable()
  await work()
  // A stall that has just ended is seen at the next turn.
  await new Promise((resolve) => setImmediate(resolve))
  delay.disable()
  return delay.max / 1e6
}
