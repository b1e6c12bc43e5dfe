import type { Runner } from './connection.ts'
import type { ConnectionSource } from './dialect.ts'
import { mayHaveRolledBack } from './failures.ts'

/** A connection on loan. */
export interface Lease {
  readonly source: ConnectionSource
  /** Whether anything was asked. */
  hasBegun(): boolean
  /** What has undone the whole transaction, or may have. */
  failure(): { readonly error: unknown } | undefined
  end(): Promise<void>
}

/**
 * Lends the writer to the queries of one job. The first of them sets off `begin`. What may change anything runs alone, what only reads beside
 * others of its kind and beside `begin`: after a failure that has undone the transaction, which any statement can have, nothing more is asked, since it would be stored by itself. After
 * `end`, which resolves when none of them runs any more, all is refused: work that goes on after its end must not write into the transactions of others.
 */
export function leaseOf(writer: Runner, begin?: () => Promise<unknown>): Lease {
  let over = false
  let begun = false
  let failure: { readonly error: unknown } | undefined
  let lent = 0
  let running = 0
  /** Whether what runs may change anything. */
  let writing = false
  /** What waits until nothing else runs. */
  const waiting: (() => void)[] = []
  let idle = (): void => undefined
  const lookAround = (): void => {
    if (running === 0) waiting.shift()?.()
    if (running === 0 && lent === 0) idle()
  }
  const start = async <T>(
    run: () => Promise<T>,
    { writes, endsAll }: { readonly writes: boolean; readonly endsAll: (error: unknown) => boolean },
  ): Promise<T> => {
    running++
    writing = writes
    try {
      return await run()
    } catch (error) {
      if (endsAll(error)) failure ??= { error }
      throw error
    } finally {
      running--
      writing &&= !writes
      lookAround()
    }
  }
  const inTurn = <T>(run: () => Promise<T>, writes: boolean): Promise<T> =>
    new Promise((resolve, reject) => {
      waiting.push(() => {
        if (failure === undefined) void start(run, { writes, endsAll: mayHaveRolledBack }).then(resolve, reject)
        else reject(failure.error) // whoever asked gives the connection back, and with it the turn to the next
      })
    })
  return {
    source: {
      acquire: async () => {
        if (over) throw new Error('this transaction is over: nothing can be written by it any more')
        lent++
        return writer
      },
      carryOut: (sql, run) => {
        if (!begun && begin !== undefined) {
          // Whatever it fails with, statements of this job would be part of others; that is said by `failure`.
          start(begin, { writes: false, endsAll: () => true }).catch(() => undefined)
        }
        begun = true
        if (failure !== undefined) return Promise.reject(failure.error)
        const writes = !ONLY_READS.test(sql)
        return (writes ? running > 0 : writing)
          ? inTurn(run, writes)
          : start(run, { writes, endsAll: mayHaveRolledBack })
      },
      release: () => {
        lent--
        lookAround()
      },
    },
    hasBegun: () => begun,
    failure: () => failure,
    end: () =>
      new Promise((resolve) => {
        over = true
        idle = resolve
        lookAround()
      }),
  }
}

/** A statement that changes nothing. */
export const ONLY_READS = /^\s*select\b/i
