import { sql } from 'kysely'
import { TOTAL_CAP } from '../../../../shared/kernel/page.ts'
import type { Queries } from '../../../db/db.ts'
import { KeepingQueries } from '../../../db/kept-results.ts'
import { statement } from '../../../db/statement.ts'

/** When so many rows were added since somebody last asked, all numbers are read; so many more than lists count are known before the oldest are forgotten. */
const MOST_ADDED = 1000

/** Numbers in the order of lists, the newest last. */
interface Newest {
  readonly numbers: number[]
  /** The highest number that there was. */
  last: number
  /** The time of the newest row. */
  time: string
  /** What was committed up to then is in it. */
  since: number
}

/**
 * The numbers of the newest rows of the audit log, as many as a list counts, in memory: after a change only those of the rows that it has added are
 * read. Where rows go, another program writes or the clock is set back, all are read anew, which takes as long as ten pages.
 */
export class NewestNumbers {
  #newest: Newest | undefined
  #reading: { readonly since: number; readonly done: Promise<Newest | undefined> } | undefined

  /** Those of a page of all rows, the newest first; `undefined`: it is not known, or not full. */
  async page(q: Queries, { page, limit }: { page: number; limit: number }): Promise<number[] | undefined> {
    const numbers = q instanceof KeepingQueries ? (await this.#now(q))?.numbers : undefined
    if (numbers === undefined || numbers.length < page * limit) return undefined
    const end = numbers.length - (page - 1) * limit
    return numbers.slice(end - limit, end).reverse()
  }

  async #now(q: KeepingQueries): Promise<Newest | undefined> {
    const newest = this.#newest
    const { moment, unmoved } = q.sightOf(numbersBehind.sql())
    const since = moment()
    if (since === undefined) return undefined
    if (newest !== undefined && unmoved(newest.since)) return newest
    if (this.#reading?.since !== since) this.#reading = { since, done: this.#catchUp(q, since) }
    const reading = this.#reading
    try {
      return await reading.done
    } finally {
      if (this.#reading === reading) this.#reading = undefined
    }
  }

  async #catchUp(q: KeepingQueries, since: number): Promise<Newest | undefined> {
    const known = this.#newest
    const isGrown =
      known !== undefined &&
      q.sightOf(numbersBehind.sql(), { stays: true }).unmoved(known.since) &&
      (await hasGrown(known, q))
    const newest = isGrown ? known : await readNewest(q)
    if (newest !== undefined) newest.since = Math.max(newest.since, since)
    this.#newest = newest
    return newest
  }
}

/** Adds what is behind the last number; false: that is more than may be, or not newer. */
async function hasGrown(newest: Newest, q: Queries): Promise<boolean> {
  const { numbers } = newest
  const added = await numbersBehind(q, { last: newest.last, most: MOST_ADDED })
  if (added.length === MOST_ADDED) return false
  for (const { seq, createdAt } of added) {
    if (seq <= newest.last) continue // somebody else has added it meanwhile
    if (createdAt < newest.time) return false
    numbers.push(seq)
    newest.last = seq
    newest.time = createdAt
  }
  if (numbers.length > TOTAL_CAP + MOST_ADDED) numbers.splice(0, numbers.length - TOTAL_CAP)
  return true
}

async function readNewest(q: Queries): Promise<Newest | undefined> {
  const [found] = await newestNumbers(q, { most: TOTAL_CAP })
  if (typeof found?.last !== 'number' || typeof found.time !== 'string') return undefined // there are no rows
  const numbers = JSON.parse(found.numbers) as number[] // as the statement writes them
  return { numbers, last: found.last, time: found.time, since: 0 }
}

interface Found {
  readonly numbers: string
  readonly time: string | null
  readonly last: number | null
}

// With `+ 0` the limit is an expression: for one that is bound alone SQLite compiles the statement anew.
const newestNumbers = statement<{ most: number }, Found>((q, { most }) => ({
  compile: () =>
    sql<Found>`
      select json_group_array(seq order by created_at, seq) as numbers, max(created_at) as time,
        (select max(seq) from audit_log) as last
      from (select seq, created_at from audit_log order by created_at desc, seq desc limit ${most} + 0)`.compile(q),
}))

const numbersBehind = statement<{ last: number; most: number }, { seq: number; createdAt: string }>(
  (q, { last, most }) => ({
    compile: () =>
      sql<{ seq: number; createdAt: string }>`
        select seq, created_at from audit_log where seq > ${last} order by seq limit ${most} + 0`.compile(q),
  }),
)
