import type { Queries } from './db.ts'
import { KeepingQueries } from './kept-results.ts'
import type { JsonStatement } from './statement.ts'

const MOST_IDS = 64

interface Waiting<O> {
  readonly resolve: (row: O | undefined) => void
  readonly reject: (error: unknown) => void
}

/**
 * Reads single rows outside of transactions so that those which are asked for at the same time come by one statement: the way to a
 * thread of SQLite and back costs several times what a row does. `statement` answers the rows with these ids (as JSON) of `table`; the answer is `undefined`
 * for one that is not there. Inside a transaction it is a statement of its own. `kept`: outside of transactions a row is read again only when something of it has changed; it
 * belongs to all who ask, and must not be changed.
 */
export function readTogether<O extends { readonly id: string }>(
  statement: JsonStatement<{ readonly ids: string }, O>,
  table: string,
  { kept = false }: { readonly kept?: boolean } = {},
): (q: Queries, id: string) => Promise<O | undefined> {
  const batches = new WeakMap<Queries, Batch<O>>()
  const read = (q: Queries, ids: readonly string[]): Promise<O[]> => statement(q, { ids: JSON.stringify(ids) })
  return async (q, id) => {
    const keepsTo = { table, ids: [id] }
    const shared = q instanceof KeepingQueries ? q.shared(statement.sql(), keepsTo) : undefined
    if (shared === undefined) return (await read(q, [id]))[0]
    const batch = batches.get(shared) ?? new Batch((ids) => read(shared, ids))
    batches.set(shared, batch)
    if (!kept || !(shared instanceof KeepingQueries)) return await batch.row(id)
    const readOne = async (): Promise<O[]> => {
      const row = await batch.row(id)
      return row === undefined ? [] : [row]
    }
    return (await shared.keptBy(statement.sql(), keepsTo, readOne))[0]
  }
}

class Batch<O extends { readonly id: string }> {
  readonly #read: (ids: readonly string[]) => Promise<O[]>
  #waiting = new Map<string, Waiting<O>[]>()
  #isRunning = false
  #isPlanned = false

  constructor(read: (ids: readonly string[]) => Promise<O[]>) {
    this.#read = read
  }

  row(id: string): Promise<O | undefined> {
    return new Promise((resolve, reject) => {
      const known = this.#waiting.get(id)
      if (known === undefined) this.#waiting.set(id, [{ resolve, reject }])
      else known.push({ resolve, reject })
      this.#plan()
    })
  }

  /**
   * Behind all that this turn of the event loop has brought. One statement at a time: what comes meanwhile is read by the next one, and the other
   * connection that reads stays free for lists.
   */
  #plan(): void {
    if (this.#isPlanned || this.#isRunning || this.#waiting.size === 0) return
    this.#isPlanned = true
    setImmediate(() => {
      this.#isPlanned = false
      void this.#readNext()
    })
  }

  async #readNext(): Promise<void> {
    const waiting = [...this.#waiting]
    const taken = waiting.slice(0, MOST_IDS)
    // Another map: tables that one has outgrown stay linked to those that follow, and keep what was in them until all of the heap is collected.
    this.#waiting = new Map(waiting.slice(MOST_IDS))
    this.#isRunning = true
    try {
      const found = await this.#read(taken.map(([id]) => id))
      const rows = new Map(found.map((row) => [row.id, row]))
      for (const [id, waiting] of taken) for (const { resolve } of waiting) resolve(rows.get(id))
    } catch (error) {
      for (const [, waiting] of taken) for (const { reject } of waiting) reject(error)
    } finally {
      this.#isRunning = false
      this.#plan()
    }
  }
}
