import { isoTime } from '../../shared/kernel/time.ts'
import type { Db } from '../db/db.ts'
import { wholeTable } from '../db/table-parts.ts'

/** When the next of all grants and assignments ends, by which what somebody may do changes without any write. */
export class GrantEnds {
  /** Where the ends stand. */
  static readonly SEEN = [wholeTable('server_access'), wholeTable('node_assignment')]

  readonly #db: Db
  #known: { readonly since: number; readonly from: number; readonly next: number } | undefined

  constructor(db: Db) {
    this.#db = db
  }

  /** The first end after this time, in milliseconds since the epoch; infinity without one. It holds while {@link GrantEnds.SEEN} does not change. */
  async after(ms: number): Promise<number> {
    const known = this.#known
    if (known !== undefined && ms >= known.from && ms < known.next) {
      if (this.#db.changes.unmoved(GrantEnds.SEEN, known.since)) return known.next
    }
    const since = this.#db.changes.moment()
    const ends = await Promise.all(
      (['serverAccess', 'nodeAssignment'] as const).map((table) =>
        this.#db.read
          .selectFrom(table)
          .select((eb) => eb.fn.min<string | null>('expiresAt').as('next'))
          .where('expiresAt', '>', isoTime(ms))
          .executeTakeFirst(),
      ),
    )
    const times = ends.map((end) => (typeof end?.next === 'string' ? Date.parse(end.next) : Number.POSITIVE_INFINITY))
    const next = Math.min(...times)
    if (since !== undefined) this.#known = { since, from: ms, next }
    return next
  }
}
