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
 * Lends the writer to the queries of one job, the first of which waits for `begin`. After `end`, which resolves when none of them runs
 * any more, it is refused: work that goes on after its end must not write into the transactions of others.
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
  return {
    source: {
      acquire: async () => {
        if (over) throw new Error('this transaction is over: nothing can be written by it any more')
        busy++
        if (begin === undefined) return writer
        try {
          begun ??= begin()
          await begun
        } catch (error) {
          free()
          throw error
        }
        return writer
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
