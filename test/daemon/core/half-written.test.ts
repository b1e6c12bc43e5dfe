import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Batch, type Db, openDb, type Tx } from '../../../src/daemon/db/db.ts'
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

it('stores nothing of what was asked together with what has no room', async () => {
  await fill()
  const both = db.write((tx) => Promise.all([put(tx, 'big', BIG), put(tx, 'small')]))
  await expect(both).rejects.toMatchObject(FULL)
  expect(await keys()).toEqual([])
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
