import type { Connection } from './connection.ts'
import type { ConnectionSource } from './dialect.ts'

/** A connection on loan. */
export interface Lease {
  readonly source: ConnectionSource
  /** Whether anything was asked. */
  hasBegun(): boolean
  end(): Promise<void>
}

/**
 * Lends the writer to the queries of one job. The first of them sets off `begin`; what may change anything waits for it, what only reads runs
 * beside it. After `end`, which resolves when none of them runs any more, it is refused: work that goes on after its end must not write into the
 * transactions of others.
 */
export function leaseOf(writer: Connection, begin?: () => Promise<unknown>): Lease {
  let over = false
  let begun: Promise<unknown> | undefined
  let busy = 0
  let idle = (): void => undefined
  const free = (): void => {
    busy--
    if (busy === 0) idle()
  }
  const beginOnce = (): Promise<unknown> => {
    if (begun !== undefined || begin === undefined) return begun ?? DONE
    busy++
    begun = begin().finally(free)
    begun.catch(() => undefined) // whoever writes hears of it; to those that read it is nothing
    return begun
  }
  return {
    source: {
      acquire: async () => {
        if (over) throw new Error('this transaction is over: nothing can be written by it any more')
        busy++
        return writer
      },
      ready: (sql) => {
        const ready = beginOnce()
        return ONLY_READS.test(sql) ? undefined : ready
      },
      release: free,
    },
    hasBegun: () => begun !== undefined,
    end: () =>
      new Promise((resolve) => {
        over = true
        idle = resolve
        if (busy === 0) resolve()
      }),
  }
}

const DONE = Promise.resolve()

const ONLY_READS = /^\s*select\b/i
