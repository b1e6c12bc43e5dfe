import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import sqlite3 from 'sqlite3'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Batch, type Db, openDb, type Tx } from '../../../src/daemon/db/db.ts'
import { keptRows } from '../../../src/daemon/db/kept-results.ts'
import { migrate } from '../../../src/daemon/db/migrations.ts'
import { now, systemClock } from '../../../src/shared/kernel/time.ts'
import { plantFaults, type SqliteCode } from '../../faulty-driver.ts'

/** A failure of the disk undoes the whole transaction in SQLite, behind its back: what is asked next would be stored by itself. */

let folder: string
let db: Db
let faults: { remove(): void } | undefined
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-half-'))
  const file = join(folder, 'panel.db')
  await migrate(file)
  db = await openDb(file, systemClock)
})
afterEach(async () => {
  faults?.remove()
  faults = undefined
  await db.close()
  await rm(folder, { recursive: true })
})

const FULL = { code: 'INSUFFICIENT_SPACE' }

/** More than there is room for. */
const BIG = 'x'.repeat(2 ** 20)

/** The database has room for small rows alone. */
async function fill(): Promise<void> {
  await db.write(async ({ q }) => {
    const { rows } = await sql<{ pageCount: number }>`pragma page_count`.execute(q)
    await sql`pragma max_page_count = ${sql.lit(Number(rows[0]?.pageCount))}`.execute(q)
  })
}

const put = ({ q }: Pick<Tx, 'q'>, key: string, value = '1') =>
  q
    .insertInto('setting')
    .values({ key, value, updatedAt: now(systemClock) })
    .execute()

async function keys(): Promise<string[]> {
  return (await db.read.selectFrom('setting').select('key').orderBy('key').execute()).map(({ key }) => key)
}

/** Which of these are answered as stored, by name. */
async function answered(all: Readonly<Record<string, Promise<unknown>>>): Promise<string[]> {
  const outcomes = await Promise.allSettled(Object.values(all))
  return Object.keys(all).filter((_, place) => outcomes[place]?.status === 'fulfilled')
}

/** Reads, and takes so much memory for it. Once it is prepared it overtakes statements that are not, although they were asked for before. */
const takeMemory = ({ q }: Pick<Tx, 'q'>, bytes: number) =>
  sql`select length(hex(randomblob(${bytes}))) as n from sqlite_schema limit 1`.execute(q)

it('stores nothing of what was asked together with what has no room', async () => {
  await fill()
  const both = db.write((tx) => Promise.all([put(tx, 'big', BIG), put(tx, 'small')]))
  await expect(both).rejects.toMatchObject(FULL)
  expect(await keys()).toEqual([])
})

it('stores nothing of what was asked together with what has no room, however that is written', async () => {
  await fill()
  const both = db.write((tx) =>
    Promise.all([
      put(tx, 'big', BIG),
      sql`with one as (select 'small' as key) insert into setting select key, '1', '' from one`.execute(tx.q),
    ]),
  )
  await expect(both).rejects.toMatchObject(FULL)
  expect(await keys()).toEqual([])
})

it('stores nothing of what was asked together with a read for which there is no memory', async () => {
  await db.write(async (tx) => {
    await sql`pragma hard_heap_limit = 300000000`.execute(tx.q)
    await takeMemory(tx, 8) // is prepared from now on
  })
  const kept = () => keptRows(db.read, db.read.selectFrom('setting').select('key'))
  expect(await kept()).toEqual([])
  const read = async (tx: Tx): Promise<unknown> => {
    for (let i = 0; i < 20; i++) await Promise.resolve() // behind the other, in the same turn
    return await takeMemory(tx, 900_000_000)
  }
  try {
    const both = db.write((tx) => Promise.all([put(tx, 'beside'), read(tx)]))
    await expect(both).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
  } finally {
    await db.write(({ q }) => sql`pragma hard_heap_limit = 0`.execute(q))
  }
  expect(await keys()).toEqual([])
  expect(await kept()).toEqual([])
})

it('answers thousands that wait behind what has no room', async () => {
  await fill()
  const outcomes = await db
    .write((tx) =>
      Promise.allSettled([put(tx, 'big', BIG), ...Array.from({ length: 20_000 }, (_, i) => put(tx, `key ${i}`))]),
    )
    .catch((error: unknown) => error)
  expect(outcomes).toMatchObject(FULL)
  await db.write((tx) => put(tx, 'next'))
  expect(await keys()).toEqual(['next'])
})

it('stores what it answers as stored, when one of a commit has no room', async () => {
  await fill()
  const stored = await answered({
    before: db.write((tx) => put(tx, 'before')),
    both: db.write((tx) => Promise.all([put(tx, 'big', BIG), put(tx, 'both')])),
    behind: db.write((tx) => put(tx, 'behind')),
  })
  expect(stored).toContain('behind')
  expect(await keys()).toEqual([...stored].sort())
})

it('stores nothing of what a commit writes at its end when a part of it has no room', async () => {
  await fill()
  const batch = (): Batch<string> => ({
    write: async (tx, rows) => {
      await Promise.all(rows.map((key) => put(tx, key, key === 'big' ? BIG : '1')))
    },
  })
  const [one, two] = [batch(), batch()]
  const refused = db.write(async (tx) => {
    tx.collect(one, 'big')
    tx.collect(two, 'small')
    await put(tx, 'own')
  })
  await expect(refused).rejects.toMatchObject(FULL)
  expect(await keys()).toEqual([])
})

it('answers as failed what goes on although it had no room, and all that it has undone', async () => {
  await fill()
  const stored = await answered({
    before: db.write((tx) => put(tx, 'before')),
    careless: db.write(async (tx) => {
      await put(tx, 'big', BIG).catch(() => undefined)
      await put(tx, 'careless').catch(() => undefined)
    }),
    behind: db.write((tx) => put(tx, 'behind')),
  })
  expect(stored).toEqual(['behind'])
  expect(await keys()).toEqual(stored)
})

it.each<SqliteCode>(['SQLITE_FULL', 'SQLITE_IOERR', 'SQLITE_NOMEM', 'SQLITE_INTERRUPT', 'SQLITE_READONLY'])(
  'undoes all of a commit when one goes on after %s, and says to each what it was',
  async (failure) => {
    let failing = 1
    faults = plantFaults(({ sql: text }) =>
      /^insert into "setting"/.test(text) && failing++ === 2 ? failure : undefined,
    )
    const outcomes = await Promise.allSettled([
      db.write((tx) => put(tx, 'before')),
      db.write(async (tx) => {
        await put(tx, 'careless').catch(() => undefined)
        throw new Error('its own')
      }),
      db.write((tx) => put(tx, 'behind')),
    ])
    expect(outcomes).toEqual([
      { status: 'rejected', reason: expect.objectContaining({ message: expect.not.stringContaining('its own') }) },
      { status: 'rejected', reason: expect.objectContaining({ message: 'its own' }) },
      { status: 'fulfilled', value: expect.anything() },
    ])
    expect(await keys()).toEqual(['behind'])
  },
)

it('refuses what waits when the database can still not be written, and tries what comes meanwhile', async () => {
  let failing = true
  faults = plantFaults(({ sql: text }) => (failing && text === 'COMMIT' ? 'SQLITE_FULL' : undefined))
  await expect(db.write((tx) => put(tx, 'first'))).rejects.toMatchObject(FULL)
  faults.remove()
  const late: Promise<unknown>[] = []
  faults = plantFaults(({ sql: text }) => {
    if (!failing || !text.startsWith('PRAGMA user_version =')) return undefined
    failing = false
    late.push(db.write((tx) => put(tx, 'late')))
    return 'SQLITE_FULL'
  })
  const waiting = ['one', 'two'].map((key) => db.write((tx) => put(tx, key)))
  for (const { status } of await Promise.allSettled(waiting)) expect(status).toBe('rejected')
  await Promise.all(late)
  expect(await keys()).toEqual(['late'])
})

it('says that there is no room to those whose rows were to be written at the end, also when that goes on', async () => {
  await fill()
  const batch: Batch<string> = {
    write: async (tx, rows) => {
      for (const key of rows) await put(tx, key, BIG).catch(() => undefined)
      await put(tx, 'end').catch(() => undefined)
    },
  }
  const refused = db.write(async (tx) => {
    tx.collect(batch, 'big')
    await put(tx, 'own')
  })
  await expect(refused).rejects.toMatchObject(FULL)
  expect(await keys()).toEqual([])
})

it('writes on after a transaction that could not be rolled back at once', async () => {
  let failing = 2
  faults = plantFaults(({ sql: text }) => {
    if (failing === 2 && /^insert into "setting"/.test(text)) failing = 1
    else if (failing === 1 && text === 'ROLLBACK') failing = 0
    else return undefined
    return 'SQLITE_IOERR'
  })
  await expect(db.write((tx) => put(tx, 'first'))).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
  await db.write((tx) => put(tx, 'second'))
  expect(await keys()).toEqual(['second'])
})

it('undoes what a job has asked and not waited for, however far that is', async () => {
  for (let turns = 0; turns < 40; turns++) {
    const undone = db.write(async (tx) => {
      put(tx, 'undone').catch(() => undefined)
      for (let i = 0; i < turns; i++) await Promise.resolve()
      throw new Error('undone')
    })
    const next = db.write((tx) => put(tx, `next ${turns}`))
    await expect(undone).rejects.toThrow('undone')
    await next
  }
  expect(await keys()).not.toContain('undone')
  expect(await keys()).toHaveLength(40)
})

it('goes on with what fails for itself alone', async () => {
  const done = db.write(async (tx) => {
    await put(tx, 'one')
    await put(tx, 'one').catch(() => undefined)
    await put(tx, 'two')
  })
  await done
  expect(await keys()).toEqual(['one', 'two'])
})

it.each<[SqliteCode, number]>([
  ['SQLITE_FULL', 1],
  ['SQLITE_IOERR', 2],
  ['SQLITE_READONLY', 3],
  ['SQLITE_ERROR', 2],
])('stores what it answers as stored, when a savepoint fails with %s', async (failure, place) => {
  let savepoints = 0
  faults = plantFaults(({ sql: text }) => {
    if (text === 'SAVEPOINT job') savepoints += 1
    return text === 'SAVEPOINT job' && savepoints === place ? failure : undefined
  })
  const all = ['four', 'one', 'three', 'two']
  const work = (key: string) => async (tx: Tx) => {
    await put(tx, key)
    if (key === 'three') throw new Error('undone')
  }
  const stored = await answered(Object.fromEntries(all.map((key) => [key, db.write(work(key))])))
  expect(savepoints).toBeGreaterThanOrEqual(place)
  expect(await keys()).toEqual(stored)
})

it('stores what it answers as stored, when a point to go back to fails behind all else of its job', async () => {
  const { prototype } = sqlite3.Statement
  const { run } = prototype
  let points = 0
  prototype.run = function (this: sqlite3.Statement & { sql?: string }, values: unknown, callback?: never) {
    if (this.sql !== 'SAVEPOINT job' || ++points < 2) return run.call(this, values, callback as never)
    const fail: (error: Error) => void = callback as never
    setTimeout(() => fail(Object.assign(new Error('SQLITE_ERROR: planted'), { code: 'SQLITE_ERROR' })), 50)
    return this
  } as typeof run
  faults = { remove: () => void Object.assign(prototype, { run }) }
  const stored = await answered({
    one: db.write((tx) => put(tx, 'one')),
    two: db.write((tx) => put(tx, 'two')),
    three: db.write(async ({ q }) => {
      await q.selectFrom('setting').select('key').execute()
      throw new Error('refused')
    }),
  })
  expect(stored).not.toContain('three')
  expect(await keys()).toEqual(stored.sort())
})
