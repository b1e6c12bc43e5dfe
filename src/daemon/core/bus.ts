import { sql } from 'kysely'
import { EVENTS, type EventData, type EventType, isEventType } from '../../shared/kernel/events.ts'
import type { IsoTime } from '../../shared/kernel/time.ts'
import type { Batch, Db, Queries, Tx } from '../db/db.ts'
import { changing } from '../db/statement.ts'

/** A written event. `id` grows without end over the installation's life. */
export interface BusEvent {
  readonly id: number
  readonly type: EventType
  readonly serverId: string | null
  readonly data: Record<string, unknown>
  readonly timestamp: IsoTime
}

/** An event before the commit that makes it true; its number is given by that. */
export type CommittingEvent = Omit<BusEvent, 'id'>

/** An event that is about to be true: its type with the data of that type. */
export type NewEvent = {
  readonly [T in EventType]: { readonly type: T; readonly serverId?: string; readonly data: EventData<T> }
}[EventType]

/**
 * The event log: an event is a row of the transaction that makes it true, and is handed to listeners
 * after the commit, in the order of ids.
 */
export interface Bus {
  append(tx: Tx, event: NewEvent): Promise<void>
  /**
   * Runs `work` for every event from now on, in the transaction that makes it true: what `work` writes is there exactly when
   * the event is, and its failure undoes both.
   */
  enlist(work: (tx: Tx, event: CommittingEvent) => Promise<void>): void
  /** Events after `id`, oldest first, at most `limit`. */
  after(id: number, limit: number): Promise<BusEvent[]>
  /** The ids of the first and last kept event; `last` is `first` - 1 when there is none. */
  bounds(): Promise<{ first: number; last: number }>
  /** Calls back for every event from now on, until the returned function is called. Callbacks must not fail or wait. */
  listen(listener: (event: BusEvent) => void): () => void
  /** Forgets events beyond the newest `keep`, or older than `before`; never the last one. */
  prune(before: IsoTime, keep: number): Promise<void>
}

/** The bus over the `event` table. */
export function createBus(db: Db): Bus {
  const eventLog = createEventLog()
  const listeners = new Set<(event: BusEvent) => void>()
  const enlisted: ((tx: Tx, event: CommittingEvent) => Promise<void>)[] = []
  return {
    append: async (tx, { type, serverId, data }) => {
      const clean = EVENTS[type].data.parse(data)
      const event: CommittingEvent = { type, serverId: serverId ?? null, data: clean, timestamp: tx.now }
      const written: Written = { id: 0, event }
      tx.collect(eventLog, written)
      tx.onCommit(() => {
        const numbered = { id: written.id, type, serverId: event.serverId, data: clean, timestamp: tx.now }
        for (const listener of listeners) listener(numbered)
      })
      for (const work of enlisted) await work(tx, event)
    },
    enlist: (work) => void enlisted.push(work),
    after: async (id, limit) => {
      const rows = await db.read
        .selectFrom('event')
        .selectAll()
        .where('id', '>', id)
        .orderBy('id')
        .limit(limit)
        .execute()
      return rows.flatMap((row) => {
        if (!isEventType(row.type)) return [] // written by a newer version before a downgrade
        const data = JSON.parse(row.data) as Record<string, unknown> // written by append from an object
        return [{ id: row.id, type: row.type, serverId: row.serverId, data, timestamp: row.createdAt }]
      })
    },
    bounds: async () => {
      const { fn } = db.read
      const row = await db.read
        .selectFrom('event')
        .select([fn.min('id').as('first'), fn.max('id').as('last')])
        .executeTakeFirst()
      const last = Number(row?.last ?? 0)
      return { first: Number(row?.first ?? last + 1), last }
    },
    listen: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    prune: (before, keep) =>
      db.write(async (tx) => {
        const byNumber = tx.q.selectFrom('event').select('id').orderBy('id', 'desc').limit(1)
        const last = await byNumber.executeTakeFirst()
        const limit = (await byNumber.offset(keep).executeTakeFirst())?.id ?? 0
        // The very last one stays: it says up to where a viewer who resumes there has seen everything.
        await tx.q
          .deleteFrom('event')
          .where('id', '<', last?.id ?? 0)
          .where((where) => where.or([where('createdAt', '<', before), where('id', '<=', limit)]))
          .execute()
      }),
  }
}

/** An event with the number that it gets when it is written. */
interface Written {
  id: number
  readonly event: CommittingEvent
}

/** The events of a commit, which get their numbers in the order in which they were appended. */
function createEventLog(): Batch<Written> {
  /** The number of the last event that this process has committed, as long as it is the last one: the database is asked each time. */
  let known: number | undefined
  return {
    write: async ({ q, onCommit }, written) => {
      const events = written.map(({ event }) => event)
      let before = known
      if (before === undefined || !(await append(q, events, before))) {
        before = await readLast(q)
        if (!(await append(q, events, before))) throw new Error('events were added within the transaction of others')
      }
      for (const [place, one] of written.entries()) one.id = before + 1 + place
      const last = before + written.length
      onCommit(() => {
        known = last
      })
    },
  }
}

/** The number of the last event that there has ever been (https://www.sqlite.org/autoinc.html); 0 when there was none. */
const LAST = sql<number>`coalesce((select seq from sqlite_sequence where name = 'event'), 0)`

async function readLast(q: Queries): Promise<number> {
  const { rows } = await sql<{ last: number }>`select ${LAST} as last`.execute(q)
  return rows[0]?.last ?? 0
}

/** Writes the events behind the one with this number; answers whether that was the last one. */
async function append(q: Queries, events: readonly CommittingEvent[], last: number): Promise<boolean> {
  const rows = events.map(({ type, serverId, data, timestamp }) =>
    // The data as text within the text, which is what is stored.
    [type, serverId, JSON.stringify(data), timestamp],
  )
  return await insertEvents(q, { rows: JSON.stringify(rows), last }, events.length)
}

const insertEvents = changing<{ rows: string; last: number }>((q, { rows, last }) => ({
  compile: () =>
    sql`
      insert into event (id, type, server_id, data, created_at)
      select ${last} + 1 + key, value ->> 0, value ->> 1, value ->> 2, value ->> 3
      from json_each(${rows}) where ${LAST} = ${last} order by key`.compile(q),
}))
