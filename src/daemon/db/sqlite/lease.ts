import type { Connection } from './connection.ts'
import type { ConnectionSource } from './dialect.ts'

/** A connection on loan. */
export interface Lease {
  readonly source: ConnectionSource
  end(): Promise<void>
}

/**
 * Lends the writer to the queries of one job. After `end`, which resolves when none of them runs any more, it is refused:
 * work that goes on after its end must not write into the transactions of others.
 */
export function leaseOf(writer: Connection): Lease {
  let over = false
  let busy = 0
  let idle = (): void => undefined
  return {
    source: {
      acquire: async () => {
        if (over) throw new Error('this transaction is over: nothing can be written by it any more')
        busy++
        return writer
      },
      release: () => {
        busy--
        if (busy === 0) idle()
      },
    },
    end: () =>
      new Promise((resolve) => {
        over = true
        idle = resolve
        if (busy === 0) resolve()
      }),
  }
}
