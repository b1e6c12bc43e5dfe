import { AsyncResource } from 'node:async_hooks'
import type { Log } from '../../../core/log.ts'

/**
 * Work that goes on after the answer, so that its time reveals nothing to the caller; the daemon waits for it when it stops. It
 * belongs to no transaction and no idempotency key, whatever it was begun in.
 */
export interface Deliveries {
  /** Begins the work; a failure is logged with this name. */
  run(name: string, work: (signal: AbortSignal) => Promise<void>): void
  /** Resolves when nothing is under way any more. */
  settled(): Promise<void>
  /** Aborts what is under way, and waits for it. */
  close(): Promise<void>
}

/** Deliveries that log their failures. */
export function createDeliveries(log: Log): Deliveries {
  const running = new Set<Promise<void>>()
  const closing = new AbortController()
  const outside = new AsyncResource('deliveries')
  const settled = async (): Promise<void> => {
    while (running.size > 0) await Promise.all(running)
  }
  return {
    run: (name, work) => {
      const job = outside
        .runInAsyncScope(() => work(closing.signal))
        .catch((err: unknown) => log.error({ err }, `${name} failed`))
        .finally(() => running.delete(job))
      running.add(job)
    },
    settled,
    close: async () => {
      closing.abort()
      await settled()
    },
  }
}
