import { createHash, hash } from 'node:crypto'
import { type Clock, isoTime } from '../../shared/kernel/time.ts'
import type { Holder } from '../access/permit.ts'
import type { At } from '../access/relations.ts'
import { PackedBytes } from '../core/packed-bytes.ts'
import type { Db } from '../db/db.ts'
import type { Seen } from '../db/table-parts.ts'
import { GrantEnds } from './grant-ends.ts'
import { Places } from './places.ts'
import { WorthKeeping } from './worth-keeping.ts'

/** What a cached answer is made from: only what is taken from here may change it. */
export interface Reading {
  /** Reads the database; what its queries see is noted. Where `now` is asked for, the answer lasts until the next grant ends. */
  readonly at: At
  /**
   * Takes a value of the memory or of the clock: as soon as `look` gives another one (by `Object.is`), the answer is made anew. A function that
   * is the same for all answers, with what it is to look at, is less to keep than one of each answer's own.
   */
  live<T>(look: () => T): T
  live<T, O>(look: (of: O) => T, of: O): T
}

/** An answer as it goes out. */
export interface CachedAnswer {
  readonly payload: Buffer
  /** Changes with the bytes; without its quotes. */
  readonly etag: string
}

/** Far more than an answer beside its bytes and its key. */
const OVERHEAD = 1000
const MOST_FREE = 64
/** So many are made at once. What a page is made of is large, and more would only hold it for longer; of single objects many are read by one statement. */
const MOST_MADE = { page: 4, single: 48 } as const
/** One answer must not drive out all others. */
const SHARE = 8
/** Longer than any question that means something: who asks by longer ones, each another, must not have them kept. */
const LONGEST_KEY = 1000

/** An answer with what it was made of beside tables. */
interface Made extends CachedAnswer {
  /** Milliseconds since the epoch between which it holds. */
  readonly from: number
  readonly until: number
  readonly values: readonly Value[]
}

interface Entry extends Made {
  payload: Buffer
  readonly seen: readonly Seen[]
  readonly since: number
  readonly size: number
  /** Whether it was given to anybody since it was made. */
  isUsed: boolean
}

/** An answer that is being made. */
interface Running {
  readonly key: string
  readonly since: number
  readonly done: Promise<Made>
}

interface Value {
  readonly look: (of: unknown) => unknown
  readonly of: unknown
  readonly was: unknown
}

/** What makes an answer of which nothing is known yet. */
type Make = (reading: Reading) => Promise<Buffer>

/**
 * Answers that are given again as long as nothing that they were made of has changed: what was read of tables, the values
 * that were looked at, the caller's rights (a part of the key), and the ends of grants. Kept is what is asked for again ({@link WorthKeeping});
 * the least recently used go first.
 */
export class AnswerCache {
  readonly #db: Db
  readonly #clock: Clock
  readonly #most: number
  readonly #ends: GrantEnds
  readonly #entries = new Map<string, Entry>()
  readonly #worth: WorthKeeping
  /** Where the payloads of all entries lie. */
  readonly #memory = new PackedBytes<Entry>((entry, payload) => (entry.payload = payload))
  /** As many as there are {@link Places}. A map would hold on to them: see db/read-together.ts. */
  readonly #running: Running[] = []
  /** Each has a query builder of its own, which costs more than a small query: they are used again. */
  readonly #free: OneReading[] = []
  #bytes = 0
  readonly #places = { page: new Places(MOST_MADE.page), single: new Places(MOST_MADE.single) }

  /** `most`: how many bytes it keeps; 0 makes every answer anew. */
  constructor({ db, clock, most }: { db: Db; clock: Clock; most: number }) {
    this.#db = db
    this.#clock = clock
    this.#most = most
    this.#worth = new WorthKeeping(most)
    this.#ends = new GrantEnds(db)
  }

  /** The answer that is known by `key`, which must hold all that the caller and the request have to do with it. */
  async find(key: string): Promise<CachedAnswer | undefined> {
    if (!this.#entries.has(key)) return undefined
    await this.#db.changes.looked()
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    const moment = this.#db.changes.moment()
    if (moment === undefined) return undefined // it may hold again when what is committed now is known
    if (!this.#db.changes.unmoved(entry.seen, entry.since) || !this.#stands(entry)) {
      this.#remove(key, entry)
      if (!entry.isUsed) this.#worth.wasted(key)
      return undefined
    }
    if (!entry.isUsed) this.#worth.given(key)
    entry.isUsed = true
    this.#entries.delete(key) // and back at the end: the first of the map is the one unused for longest
    this.#entries.set(key, entry)
    return entry
  }

  /** Makes the answer, unless the same is being made already of what is there now, or was while this one waited. */
  async make(key: string, make: Make, kind: keyof typeof MOST_MADE): Promise<CachedAnswer> {
    if (this.#most === 0) return this.#made(key, { make, since: undefined })
    return await this.#places[kind].within(
      async (hasWaited) => (hasWaited ? await this.find(key) : undefined) ?? (await this.#makeNow(key, make)),
    )
  }

  async #makeNow(key: string, make: Make): Promise<CachedAnswer> {
    const now = this.#db.changes.moment()
    const running = this.#running.find((one) => one.since === now && one.key === key)
    const made = await running?.done.catch(() => undefined) // whoever began it gets the failure; this one makes its own
    // What is committed since is later than the question.
    if (made !== undefined && this.#stands(made)) return made
    const since = running === undefined ? now : this.#db.changes.moment()
    const done = this.#made(key, { make, since })
    if (since === undefined) return done
    const mine = { key, since, done }
    this.#running.push(mine)
    try {
      return await done
    } finally {
      this.#running.splice(this.#running.indexOf(mine), 1)
    }
  }

  async #made(key: string, { make, since }: { make: Make; since: number | undefined }): Promise<Made> {
    const reading = this.#free.pop() ?? new OneReading(this.#db)
    const from = this.#clock.nowMs()
    reading.begin(from)
    try {
      const payload = await make(reading)
      const { asksClock, values } = reading
      const until = asksClock && since !== undefined ? await this.#ends.after(from) : Number.POSITIVE_INFINITY
      const made = { payload, etag: etagOf(payload), from, until, values }
      const size = payload.length + key.length + OVERHEAD
      if (since === undefined || key.length > LONGEST_KEY || !this.#worth.isWorth(key, size)) return made
      const seen = [...reading.seen, ...(asksClock ? GrantEnds.SEEN : [])]
      this.#keep(key, { seen, since, size, isUsed: false, ...made })
      return made
    } finally {
      if (this.#free.length < MOST_FREE) this.#free.push(reading)
    }
  }

  #keep(key: string, entry: Entry): void {
    const { size, seen, since } = entry
    if (size > this.#most / SHARE || !this.#db.changes.unmoved(seen, since)) return
    const before = this.#entries.get(key)
    if (before !== undefined) this.#remove(key, before)
    this.#bytes += size
    entry.payload = this.#memory.put(entry.payload, entry)
    this.#entries.set(key, entry)
    for (const [oldest, each] of this.#entries) {
      if (this.#bytes <= this.#most) break
      this.#remove(oldest, each)
    }
  }

  #remove(key: string, entry: Entry): void {
    this.#entries.delete(key)
    this.#bytes -= entry.size
    this.#memory.drop(entry)
  }

  /** Whether what it was made of beside tables is as it was. */
  #stands({ from, until, values }: Made): boolean {
    if (until !== Number.POSITIVE_INFINITY) {
      const ms = this.#clock.nowMs()
      // A clock that was set back brings ended grants to life again.
      if (ms < from || ms >= until) return false
    }
    for (const { look, of, was } of values) if (!Object.is(look(of), was)) return false
    return true
  }
}

/** What distinguishes callers in answers: who they are and what they may do, not by which of their credentials they call. */
export function rightsKey(holder: Holder | undefined): string {
  if (holder === undefined) return ''
  const known = KEYS.get(holder)
  if (known !== undefined) return known
  const set = (permissions: ReadonlySet<string>): string => [...permissions].sort().join()
  // A key that may do nothing is no session of somebody without a role.
  const text = `${holder.userId} ${set(holder.permissions)} ${holder.scope === null ? 'whole' : `of ${set(holder.scope)}`}`
  const key = createHash('sha256').update(text).digest('base64url')
  KEYS.set(holder, key)
  return key
}

const KEYS = new WeakMap<Holder, string>()

/** Of a class, for what context.ts says of the signal of a request. */
class NotingAt implements At {
  readonly q: At['q']
  readonly #now: () => At['now']

  constructor(q: At['q'], now: () => At['now']) {
    this.q = q
    this.#now = now
  }

  get now(): At['now'] {
    return this.#now()
  }
}

class OneReading implements Reading {
  readonly at: At
  seen = new Set<Seen>()
  values: Value[] = []
  asksClock = false
  #now = isoTime(0)

  constructor(db: Db) {
    const q = db.noting((seen) => {
      for (const one of seen) this.seen.add(one)
    })
    this.at = new NotingAt(q, () => {
      this.asksClock = true
      return this.#now
    })
  }

  begin(ms: number): void {
    this.seen = new Set()
    this.values = []
    this.asksClock = false
    this.#now = isoTime(ms)
  }

  readonly live = <T>(look: (of: never) => T, of?: unknown): T => {
    const was = look(of as never) // by the signature of Reading
    this.values.push({ look: look as Value['look'], of, was })
    return was
  }
}

function etagOf(payload: Buffer): string {
  return hash('sha256', payload, 'base64url').slice(0, 27)
}
