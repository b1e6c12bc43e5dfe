import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Batch, type Db, openDb, type Tx } from '../../../src/daemon/db/db.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { MOVED } from '../../../src/daemon/db/sqlite/failures.ts'
import { statement } from '../../../src/daemon/db/statement.ts'
import { PanelError } from '../../../src/shared/kernel/errors.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { type Planted, pauseBefore, plantFaults, recordStatements } from '../../faulty-driver.ts'

let folder: string
let db: Db
let planted: Planted | undefined

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-brief-'))
  db = await openDb(join(folder, 'panel.db'), systemClock)
  await db.write(({ q }) => sql`create table note (id text primary key, place integer)`.execute(q))
  await db.write(({ q }) => sql`insert into note (id, place) values ('first', 0)`.execute(q))
})
afterEach(async () => {
  planted?.remove()
  planted = undefined
  await db.close()
  await rm(folder, { recursive: true })
})

const add = statement((q, { ids }: { ids: string }) => ({
  compile: () => sql`insert into note (id) select value from json_each(${ids}) order by key`.compile(q),
}))
const ensureCount = statement((q, { count }: { count: number }) => ({
  compile: () => sql`select raise(abort, ${sql.lit(MOVED)}) where (select count(*) from note) <> ${count}`.compile(q),
}))

/** Notes left to the end of a commit, as long as there are so many. */
const notes = (count = 1): Batch<string> => ({
  write: async ({ q }, ids) => {
    await add(q, { ids: JSON.stringify(ids) })
  },
  soon: (_, ids) => [ensureCount.bound({ count }), { ...add.bound({ ids: JSON.stringify(ids) }), adds: true }],
})

const stored = async (q = db.read): Promise<string[]> =>
  (await sql<{ id: string }>`select id from note order by rowid`.execute(q)).rows.map(({ id }) => id)

/** What was asked of the driver by `work`, by the first word of each statement. */
async function wordsOf(work: () => Promise<unknown>): Promise<string[]> {
  const recorded = recordStatements()
  try {
    await work()
  } finally {
    recorded.remove()
  }
  return recorded.texts.map((text) => /^\s*(\w+)/.exec(text)?.[1]?.toLowerCase() ?? '')
}

const readAndLeave = (batch: Batch<string>, done: string[]) => async (tx: Tx) => {
  tx.onCommit(() => done.push('hook'))
  const before = await stored(tx.q)
  for (const id of ['a', 'b']) tx.collect(batch, id)
  return before
}

it('what only reads and collects is stored by one statement, which is a transaction of its own', async () => {
  const done: string[] = []
  await db.write(readAndLeave(notes(), []), 'brief') // makes the statement
  const batch = notes(3)
  const leave = async (tx: Tx) => {
    tx.onCommit(() => done.push('hook'))
    for (const id of await stored(tx.q)) tx.collect(batch, `behind ${id}`)
  }
  expect(await wordsOf(() => db.write(leave, 'brief'))).toEqual(['select', 'insert'])
  expect([await stored(), done]).toEqual([['first', 'a', 'b', 'behind first', 'behind a', 'behind b'], ['hook']])
})

it('what has nothing to store asks for nothing more', async () => {
  expect(await wordsOf(() => db.write(({ q }) => stored(q), 'brief'))).toEqual(['select'])
})

it('what writes is begun again in a transaction, and so are those that follow', async () => {
  const done: string[] = []
  let times = 0
  const work = async (tx: Tx) => {
    times += 1
    tx.onCommit(() => done.push('hook'))
    tx.collect(notes(99), `left ${times}`)
    await sql`insert into note (id) values (${`written ${times}`})`.execute(tx.q)
  }
  await db.write(work, 'brief')
  expect([times, done, await stored()]).toEqual([2, ['hook'], ['first', 'written 2', 'left 2']])
  await db.write(work, 'brief')
  expect([times, await stored()]).toEqual([3, ['first', 'written 2', 'left 2', 'written 3', 'left 3']])
})

it('what a batch cannot write without asking is written in a transaction', async () => {
  const { write } = notes()
  await db.write(async (tx) => tx.collect({ write }, 'asked'), 'brief')
  expect(await stored()).toEqual(['first', 'asked'])
})

it('what is not as it was known is asked for in a transaction', async () => {
  const done: string[] = []
  await db.write(readAndLeave(notes(7), done), 'brief')
  expect([await stored(), done]).toEqual([['first', 'a', 'b'], ['hook']])
})

it('what another process writes meanwhile is seen', async () => {
  const other = await Connection.open(db.file, 'existing')
  let written: Promise<unknown> | undefined
  try {
    const before = db.write(async (tx) => {
      const seen = await stored(tx.q)
      written ??= other.run("insert into note (id) values ('theirs')")
      await written
      for (const id of seen) tx.collect(notes(99), `behind ${id}`)
    }, 'brief')
    await before
    expect(await stored()).toEqual(['first', 'theirs', 'behind first', 'behind theirs'])
  } finally {
    await other.close()
  }
})

it('what is refused leaves nothing', async () => {
  const refusal = new PanelError('CONFLICT', 'not now')
  const work = async (tx: Tx) => {
    tx.collect(notes(), 'left')
    throw refusal
  }
  expect(await wordsOf(() => expect(db.write(work, 'brief')).rejects.toBe(refusal))).toEqual([])
  expect(await stored()).toEqual(['first'])
})

it.each(['SQLITE_FULL', 'SQLITE_IOERR'] as const)(
  'a failure by %s is answered as such, and nothing of it is stored',
  async (code) => {
    const done: string[] = []
    planted = plantFaults(({ sql: text }) => (text.startsWith('insert into as_one_') ? code : undefined))
    const expected = code === 'SQLITE_FULL' ? 'INSUFFICIENT_SPACE' : 'DATABASE_UNAVAILABLE'
    await expect(db.write(readAndLeave(notes(), done), 'brief')).rejects.toMatchObject({ code: expected })
    expect([await stored(), done, db.health().status]).toEqual([['first'], [], 'unwritable'])
    planted.remove()
    await db.write(readAndLeave(notes(), done), 'brief')
    expect([await stored(), done, db.health().status]).toEqual([['first', 'a', 'b'], ['hook'], 'ok'])
  },
)

it('what comes while it runs is stored behind it', async () => {
  const batch = notes()
  let second: Promise<unknown> | undefined
  planted = pauseBefore(async ({ sql: text }) => {
    if (text.startsWith('insert into as_one_')) second ??= db.write(({ q }) => add(q, { ids: '["later"]' }))
  })
  await db.write(readAndLeave(batch, []), 'brief')
  await second
  expect(await stored()).toEqual(['first', 'a', 'b', 'later'])
})

it('what comes together shares a commit', async () => {
  const batch = notes(2)
  const words = await wordsOf(() =>
    Promise.all([db.write(readAndLeave(batch, []), 'brief'), db.write(({ q }) => add(q, { ids: '["c"]' }))]),
  )
  expect(words.filter((word) => word === 'commit')).toEqual(['commit'])
  expect(await stored()).toEqual(['first', 'c', 'a', 'b'])
})
