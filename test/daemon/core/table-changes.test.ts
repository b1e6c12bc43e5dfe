import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { CompiledQuery, sql } from 'kysely'
import sqlite3 from 'sqlite3'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Batch, type Db, openDb, type Queries, type Tx } from '../../../src/daemon/db/db.ts'
import { keptRows } from '../../../src/daemon/db/kept-results.ts'
import { migrate } from '../../../src/daemon/db/migrations.ts'
import { countRows, keptTotal } from '../../../src/daemon/db/paging.ts'
import { readTogether } from '../../../src/daemon/db/read-together.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { namedTables } from '../../../src/daemon/db/sqlite/named-tables.ts'
import { type JsonStatement, jsonStatement } from '../../../src/daemon/db/statement.ts'
import { keepingTo, type Seen, seenRows, wholeTable } from '../../../src/daemon/db/table-parts.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { pauseAfter, plantFaults, recordStatements } from '../../faulty-driver.ts'

let folder: string
let db: Db
let other: Connection

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-changes-'))
  const file = join(folder, 'panel.db')
  await migrate(file)
  const connection = await Connection.open(file, 'existing')
  await connection.exec(`
    create table parent (id text primary key); create table child (parent_id text references parent (id) on delete cascade, n int);
    create table grandchild (child text); create table apart (id text primary key);
    create table wide (id text primary key, a int, b int, c int, d);
    create table late (id text primary key, a int); insert into late (id) values ('one'), ('two');
    create table doubled (id text primary key, n int, twice int generated always as (n * 2) virtual);
    insert into wide (id) values ('one'), ('two'), ('three'); insert into doubled (id, n) values ('one', 1);
    create table noted (what text); create trigger note after update on parent begin insert into noted values ('x'); end;
    create trigger gone after delete on child begin delete from grandchild; end;`)
  await connection.close()
  db = await openDb(file, systemClock)
  other = await Connection.open(file, 'existing')
  await other.exec('pragma busy_timeout = 5000')
})

afterAll(async () => {
  await other.close()
  await db.close()
  await rm(folder, { recursive: true })
})

const TABLES = ['parent', 'child', 'grandchild', 'apart', 'noted']

async function movedBy(statement: string): Promise<string[]> {
  const before = await settled()
  await db.write(async ({ q }) => void (await sql.raw(statement).execute(q)))
  await settled()
  return TABLES.filter((table) => !db.changes.unmoved([wholeTable(table)], before))
}

async function settled(): Promise<number> {
  for (;;) {
    const moment = db.changes.moment()
    if (moment !== undefined) return moment
    await db.write(async () => undefined)
  }
}

test('a commit moves the tables that its statements change, and none that they read', async () => {
  expect(await movedBy("insert into apart values ('a')")).toEqual(['apart'])
  expect(await movedBy('insert into apart select id from parent')).toEqual(['apart'])
  expect(await movedBy('with one as (select id from parent) insert into "apart" select id from one')).toEqual(['apart'])
  expect(await movedBy('update grandchild set child = (select count(*) from apart)')).toEqual(['grandchild'])
  expect(await movedBy('select * from parent')).toEqual([])
})

test('what triggers and foreign keys change moves as well', async () => {
  expect(await movedBy("update parent set id = 'x' where id = 'y'")).toEqual(['parent', 'noted'])
  expect(await movedBy('delete from child')).toEqual(['child', 'grandchild'])
  const all = ['parent', 'child', 'grandchild', 'noted'] // what happens to a row, and sets off triggers, is not distinguished
  expect(await movedBy('delete from parent')).toEqual(all)
  expect(await movedBy("insert or replace into parent values ('p')")).toEqual(all)
  expect(await movedBy("replace into parent values ('p')")).toEqual(all)
})

/** What queries over `parent` and `wide` see, and what of it each statement below changes. */
const LOOKS = {
  a: 'select a from wide where b = 1',
  c: 'select "c" from "wide"',
  count: 'select count(*) from wide',
  star: 'select * from wide',
  computed: 'select twice from doubled',
}
type Look = keyof typeof LOOKS | 'one' | 'two'

async function lookedAt(statement: string, values: readonly unknown[] = []): Promise<Look[]> {
  const seen: Partial<Record<Look, readonly Seen[]>> = {
    one: [seenRows({ table: 'wide', ids: ['one'] })],
    two: [seenRows({ table: 'wide', ids: ['two', 'three'] })],
  }
  for (const [name, query] of Object.entries(LOOKS)) {
    const all: Seen[] = []
    await sql.raw(query).execute(db.noting((some) => all.push(...some)))
    seen[name as Look] = all // of its own names
  }
  const before = await settled()
  await db.write(async ({ q }) => void (await q.executeQuery(CompiledQuery.raw(statement, [...values]))))
  await settled()
  return (Object.keys(seen) as Look[]).filter((look) => !db.changes.unmoved(seen[look] ?? [], before)).sort()
}

test('of a row that is read by its id moves what was read of it', async () => {
  const all: Seen[] = []
  await sql.raw("select a from wide where id in ('one')").execute(db.noting((some) => all.push(...some)))
  const seen = keepingTo({ table: 'wide', ids: ['one'] }, all)
  const moves = async (text: string, ...values: unknown[]): Promise<boolean> => {
    const before = await settled()
    await db.write(async ({ q }) => void (await q.executeQuery(CompiledQuery.raw(text, values))))
    await settled()
    return !db.changes.unmoved(seen, before)
  }
  expect(await moves('update wide set b = 1, c = 2 where id = ?', 'one')).toBe(false)
  expect(await moves('update wide set a = 1 where id = ?', 'two')).toBe(false)
  expect(await moves('update wide set b = 1')).toBe(false)
  expect(await moves('update wide set a = 1, b = 2 where id = ?', 'one')).toBe(true)
  expect(await moves('update wide set a = 1')).toBe(true)
  expect(await moves('delete from wide where id = ?', 'nobody')).toBe(true)
})

test('who asks for rows of a table for the first time is not shown an older change as if it were of others', async () => {
  const write = (text: string, values: unknown[]) =>
    db.write(async ({ q }) => void (await q.executeQuery(CompiledQuery.raw(text, values))))
  const before = await settled()
  await write('update late set a = 1 where id = ?', ['one'])
  const between = await settled()
  const two = [seenRows({ table: 'late', ids: ['two'] })]
  expect(db.changes.unmoved(two, before)).toBe(false) // it was any row, as far as is known
  await write('update late set a = 2 where id = ?', ['one'])
  await settled()
  expect(db.changes.unmoved(two, between)).toBe(true)
  expect(db.changes.unmoved([seenRows({ table: 'late', ids: ['one'] })], between)).toBe(false)
})

test('an update moves the columns that it sets, and where it names them the rows', async () => {
  const everyRow = (...looks: Look[]): Look[] => [...looks, 'one', 'star', 'two'].sort() as Look[]
  expect(await lookedAt('update wide set a = 1, "c" = c + (select max(b, 2) from wide) where id = ?', ['one'])).toEqual(
    ['a', 'c', 'one', 'star'],
  )
  expect(await lookedAt('update "wide" set "d" = ? where "wide"."id" = ? and (a = 1 or a = 2)', [1, 'three'])).toEqual([
    'star',
    'two',
  ])
  expect(await lookedAt('UPDATE wide SET b = ? WHERE id IN (SELECT value FROM json_each(?))', [1, '["one"]'])).toEqual([
    'a',
    'one',
    'star',
  ])
  const joined = 'update wide set d = given.value ->> 1 from json_each(?) as given where wide.id = given.value ->> 0'
  expect(await lookedAt(joined, ['[["two", 5], ["other", 6]]'])).toEqual(['star', 'two'])
  // Of any rows, as far as anybody knows.
  expect(await lookedAt('update wide set d = 1')).toEqual(everyRow())
  expect(await lookedAt('update wide set d = 1 where id = ? or a = 1', ['one'])).toEqual(everyRow())
  expect(await lookedAt('update wide set d = 1 where id = ? collate nocase', ['one'])).toEqual(everyRow())
  expect(await lookedAt('update wide set d = 1 where id = ? and a = 1 or b = 1', ['one'])).toEqual(everyRow())
  expect(await lookedAt('update wide set d = 1 where id >= ?', ['one'])).toEqual(everyRow())
  expect(await lookedAt('update wide set d = 1 where not id = ?', ['one'])).toEqual(everyRow())
  expect(await lookedAt('update wide set d = 1 where id in (select value from json_each(?))', ['[1]'])).toEqual(
    everyRow(),
  )
})

test('all of a table moves by what is not read, and rows that are added are not mistaken for others', async () => {
  const all: Look[] = ['a', 'c', 'count', 'one', 'star', 'two']
  expect(await lookedAt("insert into wide (id) values ('new')")).toEqual(all)
  expect(await lookedAt('delete from wide where id = ?', ['new'])).toEqual(all)
  expect(await lookedAt("update wide set d = 'a, b = 1 where id = ?' where id = 'one'")).toEqual(all)
  expect(await lookedAt('update wide set id = ? where id = ?', ['one', 'one'])).toEqual(all)
  expect(await lookedAt('update wide set (a, b) = (1, 2) where id = ?', ['one'])).toEqual(all)
  expect(await lookedAt('update wide set d = a is distinct from b, c = 1 where id = ?', ['one'])).toEqual(all)
  expect(await lookedAt('update or ignore wide set d = 1 where id = ?', ['one'])).toEqual(all)
  expect(await lookedAt('update wide set d = 1 where id = ?; delete from wide', ['one'])).toEqual(all)
  expect(await lookedAt('update doubled set n = 5 where id = ?', ['one'])).toEqual(['computed'])
})

const ROWS = ['one', 'two', 'three', 'four']
const row = fc.constantFrom(...ROWS)
const rows = fc.uniqueArray(row, { minLength: 1, maxLength: 3 })
const column = fc.constantFrom('a', 'b', 'c', 'd')
const condition = fc
  .tuple(
    fc.constantFrom('id = ?', '"wide"."id" = ?', 'not id = ?', 'id > ?', "id = ? or 'x' = 'y'", '? = id'),
    column,
    row,
  )
  .chain(([id, also, value]) =>
    fc
      .constantFrom(
        id,
        `${id} and ${also} is not null`,
        `${id} or ${also} = 1`,
        `${id} and ${also} is null or ${also} = 1`,
        `${also} = 1 and ${id}`,
      )
      .map((text) => ({ text, values: [value] })),
  )
const among = rows.map((ids) => ({ text: 'id in (select value from json_each(?))', values: [JSON.stringify(ids)] }))
const anyWhere = fc.oneof(
  condition,
  among,
  column.map((name) => ({ text: `${name} = 1`, values: [] as string[] })),
)
const set = fc
  .uniqueArray(
    fc.tuple(
      column,
      fc.oneof(fc.nat(2).map(String), column, fc.constant('(select max(b) from wide)'), fc.constant('coalesce(a, b)')),
    ),
    {
      selector: ([name]) => name,
      minLength: 1,
      maxLength: 3,
    },
  )
  .map((pairs) => pairs.map(([name, value]) => `${name} = ${value}`).join(', '))
const write = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .tuple(set, anyWhere)
      .map(([to, { text, values }]) => ({ sql: `update wide set ${to} where ${text}`, values })),
  },
  fc.tuple(set, rows).map(([to, ids]) => ({
    sql: `update "wide" set ${to} from json_each(?) as given where "wide".id = given.value ->> 0`,
    values: [JSON.stringify(ids.map((id) => [id, 1]))],
  })),
  row.map((id) => ({ sql: 'delete from wide where id = ?', values: [id] })),
  fc.tuple(fc.constantFrom('insert or ignore', 'insert or replace'), row, fc.nat(2)).map(([how, id, a]) => ({
    sql: `${how} into wide (id, a, b) values (?, ${a}, 1)`,
    values: [id],
  })),
  row.map((id) => ({
    sql: 'insert into wide (id, c) values (?, 1) on conflict (id) do update set b = 2',
    values: [id],
  })),
)
const look = fc.oneof(
  fc.tuple(column, anyWhere).map(([name, { text, values }]) => ({
    sql: `select ${name} from wide where ${text} order by id`,
    values,
    ids: undefined,
  })),
  anyWhere.map(({ text, values }) => ({ sql: `select count(*) from wide where ${text}`, values, ids: undefined })),
  fc.constant({ sql: 'select * from wide order by id', values: [], ids: undefined }),
  fc.constant({
    sql: 'select p.id, w.b from parent as p left join wide as w on w.id = p.id order by p.id',
    values: [],
    ids: undefined,
  }),
  fc.tuple(rows, fc.oneof(fc.constant('*'), column, fc.constant('a, d'))).map(([ids, names]) => ({
    sql: `select ${names} from wide where id in (select value from json_each(?)) order by id`,
    values: [JSON.stringify(ids)],
    ids,
  })),
)

test('what has not moved reads as it did, whatever was written', async () => {
  await db.write(async ({ q }) => {
    for (const id of ROWS) await sql`insert or ignore into parent (id) values (${id})`.execute(q)
  })
  let unmoved = 0
  const reading = async ({
    sql: text,
    values,
    ids,
  }: {
    sql: string
    values: readonly string[]
    ids: readonly string[] | undefined
  }) => {
    const seen: Seen[] = []
    const { rows } = await db.noting((some) => seen.push(...some)).executeQuery(CompiledQuery.raw(text, [...values]))
    return { seen: ids === undefined ? seen : keepingTo({ table: 'wide', ids }, seen), rows }
  }
  const property = fc.asyncProperty(
    fc.array(look, { minLength: 6, maxLength: 6 }),
    fc.array(write, { minLength: 1, maxLength: 6 }),
    async (looks, writes) => {
      const since = await settled()
      const before = await Promise.all(looks.map(reading))
      for (const { sql: text, values } of writes) {
        await db.write(async ({ q }) => void (await q.executeQuery(CompiledQuery.raw(text, values))))
        await settled()
        for (const [i, one] of looks.entries()) {
          const { seen, rows: was } = before[i] ?? { seen: [], rows: [] }
          if (!db.changes.unmoved(seen, since)) continue
          unmoved += 1
          expect({ text, values, one, rows: (await reading(one)).rows }).toEqual({ text, values, one, rows: was })
        }
      }
    },
  )
  await fc.assert(property, { numRuns: 150 })
  expect(unmoved).toBeGreaterThan(100) // else nothing was shown
})

test('a row that is kept by its id is as it is read, whatever is written', async () => {
  const rows = jsonStatement(
    (q, { ids }: { ids: string }) =>
      q // a table of this test alone
        .selectFrom('wide' as never)
        .select(['id', 'a', 'd'] as never)
        .where('id' as never, 'in', sql`(select value from json_each(${ids}))` as never),
    { keepsTo: ({ ids }) => ({ table: 'wide', ids: JSON.parse(ids) as string[] }) },
  ) as JsonStatement<{ ids: string }, { id: string; a: unknown; d: unknown }>
  const kept = readTogether(rows, 'wide', { kept: true })
  const one = async (q: Queries) => (await sql`select id, a, d from wide where id = 'one'`.execute(q)).rows[0]
  await db.write(async ({ q }) => void (await sql`insert or ignore into wide (id) values ('one'), ('two')`.execute(q)))
  for (const write of [
    "update wide set a = 11, d = 'x' where id = 'two'",
    "update wide set a = coalesce(a, 0) + 1 where id = 'one'",
    "delete from wide where id = 'one'",
    "insert into wide (id, a) values ('one', 5)",
    "replace into wide (id, a) values ('one', 6)",
    'update wide set d = 7',
  ]) {
    await settled()
    const before = await kept(db.read, 'one')
    await db.write(async ({ q }) => {
      expect(await kept(q, 'one')).toEqual(before)
      const id = / where id = '(\w+)'$/.exec(write)?.[1]
      const query = id === undefined ? write : write.replace(`'${id}'`, '?')
      await q.executeQuery(CompiledQuery.raw(query, id === undefined ? [] : [id]))
      expect([await kept(q, 'one')]).toEqual([await one(q)])
    })
    await settled()
    expect([await kept(db.read, 'one')]).toEqual([await one(db.read)])
    const driver = recordStatements()
    await kept(db.read, 'one')
    driver.remove()
    expect(driver.texts).toEqual([])
  }
})

test('a total beyond what lists report stays while rows are added, and no other', async () => {
  const q = db.read
  let added = 0
  const add = (table: string, many: number) =>
    db.write(async (tx) => {
      const ids = JSON.stringify(Array.from({ length: many }, () => `${table} ${added++}`))
      await sql`insert into ${sql.table(table)} (id) select value from json_each(${ids})`.execute(tx.q)
    })
  const none = sql<boolean>`not exists (select 1 from apart where id like 'apart%')`
  const total = async (where = sql<boolean>`1 = 1`): Promise<number> => {
    await settled() // else nothing is kept
    return countRows(q, q.selectFrom('wide' as never).where(where))
  }
  await add('wide', 10_100)
  expect(await total()).toBe(10_001)
  await add('wide', 5)
  expect(await total()).toBe(10_001)
  await db.write(async (tx) => void (await sql`delete from wide`.execute(tx.q)))
  expect(await total()).toBe(0)
  await add('wide', 3)
  expect(await total()).toBe(3)
  const unset = sql<boolean>`b is null`
  await add('wide', 10_100)
  expect(await total(unset)).toBe(10_001)
  const upsert = sql`insert into wide (id) select id from wide where true on conflict (id) do update set b = 2`
  await db.write(async (tx) => void (await upsert.execute(tx.q)))
  expect(await total(unset)).toBe(0)
  // A row more in another table may be one less of those that are counted.
  expect(await total(none)).toBe(10_001)
  await add('apart', 1)
  expect(await total(none)).toBe(0)
  const some = 'select 1 from wide left join apart on apart.id = wide.id where apart.id is null limit 10001'
  const counting = CompiledQuery.raw(`select count(*) as total from (${some})`) as CompiledQuery<{ total: number }>
  const alone = async (): Promise<number> => {
    await settled()
    return keptTotal(q, counting)
  }
  expect(await alone()).toBe(10_001)
  await db.write(async (tx) => void (await sql`insert or ignore into apart select id from wide`.execute(tx.q)))
  expect(await alone()).toBe(0)
})

test('a statement of which nothing is known moves everything', async () => {
  expect(await movedBy('create table later (id text)')).toEqual(TABLES)
  expect(await movedBy('reindex apart')).toEqual(TABLES)
})

test('a commit of another connection moves everything, and whoever wants to know hears of it', async () => {
  const before = await settled()
  let heard = 0
  const end = db.changes.onForeign(() => heard++)
  await other.run("insert into apart values ('other')")
  expect(db.changes.moment()).toBeUndefined()
  expect(heard).toBeGreaterThan(0)
  await settled()
  expect(db.changes.unmoved([wholeTable('parent')], before)).toBe(false)
  const after = await settled()
  await db.write(async ({ q }) => void (await sql.raw('delete from noted').execute(q)))
  await settled()
  expect(db.changes.unmoved([wholeTable('parent'), wholeTable('apart')], after)).toBe(true)
  end()
})

test('a transaction that is undone moves nothing that others rely on for longer than itself', async () => {
  const before = await settled()
  const refused = db.write(async ({ q }) => {
    await sql.raw("insert into apart values ('undone')").execute(q)
    throw new Error('refused')
  })
  await expect(refused).rejects.toThrow('refused')
  expect(await settled()).toBeGreaterThanOrEqual(before)
  expect(db.changes.unmoved([wholeTable('parent')], before)).toBe(true)
})

test('a statement that reads more than tables is refused where tables are noted', async () => {
  const named = await namedTables(other)
  for (const more of [
    'random()',
    "datetime('now')",
    'current_timestamp',
    '(select name from sqlite_schema)',
    'changes()',
  ]) {
    expect(() => named.readBy(`select ${more} from apart`)).toThrow('more than tables')
  }
  const read = named.readBy('select "n" from "child" join parent on 1 = 1')
  expect(read).toEqual([
    { table: 'child', columns: ['n'] },
    { table: 'parent', columns: [] },
  ])
  await expect(sql`select random()`.execute(db.noting(() => undefined))).rejects.toThrow('more than tables')
})

const countOf = (table: string) => sql<{ count: number }>`select count(*) as count from ${sql.raw(table)}`
const counted = async (q: Queries, table: string): Promise<number | undefined> =>
  (await keptRows(q, countOf(table).compile(q)))[0]?.count
const read = async (q: Queries, table: string): Promise<number | undefined> =>
  (await countOf(table).execute(q)).rows[0]?.count

test('what is kept is as it is read, whoever commits at the same time', async () => {
  for (let i = 0; i < 300; i++) {
    const foreign = other.run(`insert into apart values ('foreign ${i}')`)
    const own = db.write(async ({ q }) => {
      await counted(q, 'apart')
      await sql`insert into noted values ('own')`.execute(q)
    })
    await Promise.all(i % 2 === 0 ? [foreign, own] : [own, foreign])
    expect(await counted(db.read, 'apart')).toBe(await read(db.read, 'apart'))
    expect(await counted(db.read, 'noted')).toBe(await read(db.read, 'noted'))
  }
})

test('a transaction sees what it has changed itself, and what it has seen goes with it when it is undone', async () => {
  const add = "insert into grandchild values ('new')"
  await settled()
  const before = await counted(db.read, 'grandchild')
  const seen: unknown[] = []
  const undone = db.write(async ({ q }) => {
    seen.push(await counted(q, 'grandchild'))
    await sql.raw(add).execute(q)
    seen.push(await counted(q, 'grandchild'))
    throw new Error('undone')
  })
  await expect(undone).rejects.toThrow('undone')
  expect(seen).toEqual([before, Number(before) + 1])
  expect(await counted(db.read, 'grandchild')).toBe(before)
  const [, second] = await Promise.all([
    db.write(async ({ q }) => void (await sql.raw(add).execute(q))),
    db.write(({ q }) => counted(q, 'grandchild')),
  ])
  expect(second).toBe(Number(before) + 1)
})

test('while a commit is on its way, what it changes is read as it is then, and nothing else is read again', async () => {
  await settled()
  const [apart, wide] = [await counted(db.read, 'apart'), await counted(db.read, 'wide')]
  const during = async () => {
    const recorded = recordStatements()
    try {
      return { apart: await counted(db.read, 'apart'), wide: await counted(db.read, 'wide'), read: recorded.texts }
    } finally {
      recorded.remove()
    }
  }
  let looked: Awaited<ReturnType<typeof during>> | undefined
  const before = db.changes.moment()
  let between: number | undefined
  const driver = pauseAfter(async ({ sql }) => {
    if (sql !== 'COMMIT' || looked !== undefined) return
    between = db.changes.moment()
    looked = await during() // on disk, but nobody has heard of it
  })
  try {
    await db.write(async ({ q }) => void (await sql`insert into apart (id) values (hex(randomblob(8)))`.execute(q)))
  } finally {
    driver.remove()
  }
  expect(looked).toEqual({ apart: Number(apart) + 1, wide, read: [expect.stringContaining('apart')] })
  const after = await settled()
  expect([before, between, after]).toEqual([before, Number(before) + 0.5, Number(before) + 1])
  expect(await counted(db.read, 'apart')).toBe(Number(apart) + 1)
})

/** Does `work`, and has another process commit right behind the end of its transaction; answers in which ways that is seen. */
async function commitBehind(
  end: 'COMMIT' | 'ROLLBACK',
  work: (tx: Tx) => Promise<unknown>,
): Promise<{ isReadAnew: boolean; isHeard: boolean }> {
  const kept = () => keptRows(db.read, db.read.selectFrom('location').select('id'))
  await settled()
  const before = (await kept()).length
  let foreign = 0
  const stop = db.changes.onForeign(() => (foreign += 1))
  const id = randomUUID()
  const insert = "insert into location (id, name, created_at, updated_at) values (?, ?, '', '')"
  let adding: Promise<unknown> | undefined
  const driver = pauseAfter(async (statement) => {
    if (statement.sql !== end || adding !== undefined) return
    adding = other.run(insert, [id, id])
    await adding
  })
  try {
    await db.write(work).catch(() => undefined)
    // Whoever is undone hears of it before the others' commit.
    await expect.poll(() => adding).toBeDefined()
    await adding
  } finally {
    driver.remove()
  }
  await settled()
  stop()
  return { isReadAnew: (await kept()).length === before + 1, isHeard: foreign > 0 }
}

test.each([
  ['reads alone', sql`select id from wide`, false],
  ['changes no row', sql`update wide set a = 1 where id = 'none'`, false],
  ['writes what is there already', sql`update wide set a = a`, false],
  ['adds nothing that is there already', sql`insert into wide (id) values ('one') on conflict do nothing`, false],
  ['puts what is there already', sql`insert into wide (id) values ('one') on conflict (id) do update set a = a`, false],
  ['adds a row and is undone', sql`insert into apart (id) values ('undone')`, true],
  ['adds a row', sql`insert into apart (id) values (hex(randomblob(8)))`, false],
  [
    'puts what is there, and says so in another way',
    sql`insert into wide (id) values ('one') on conflict (id) do/**/update set a = a`,
    false,
  ],
])('another process that commits right behind a transaction that %s is seen', async (_, query, isUndone) => {
  await db.write(async ({ q }) => void (await sql`insert or ignore into wide (id) values ('one')`.execute(q)))
  const seen = await commitBehind('COMMIT', async ({ q }) => {
    await query.execute(q)
    if (isUndone) throw new Error('undone')
  })
  expect(seen).toEqual({ isReadAnew: true, isHeard: true })
})

test('another process that commits right behind a commit that fails is seen', async () => {
  const twice: Batch<string> = {
    write: async ({ q }) => {
      for (let i = 0; i < 2; i++) await sql`insert into apart (id) values ('twice')`.execute(q)
    },
  }
  const seen = await commitBehind('ROLLBACK', async (tx) => {
    await sql`insert into apart (id) values (hex(randomblob(8)))`.execute(tx.q)
    tx.collect(twice, 'row')
  })
  expect(seen).toEqual({ isReadAnew: true, isHeard: true })
})

test('another process that commits right behind a transaction that has no room is seen', async () => {
  const faults = plantFaults(({ sql: text }) => (text.startsWith('update wide') ? 'SQLITE_FULL' : undefined))
  try {
    const seen = await commitBehind('ROLLBACK', async ({ q }) => {
      await sql`insert into apart (id) values (hex(randomblob(8)))`.execute(q)
      await sql`update wide set a = 1`.execute(q)
    })
    expect(seen).toEqual({ isReadAnew: true, isHeard: true })
  } finally {
    faults.remove()
  }
  await db.write(({ q }) => sql`update wide set a = 1`.execute(q)) // it can be written again
})

test('another process that commits again behind a transaction that had to wait too long is seen', async () => {
  const kept = () => keptRows(db.read, db.read.selectFrom('location').select('id'))
  const add = (id: string) =>
    `insert into location (id, name, created_at, updated_at) values ('${id}', '${id}', '', '')`
  await db.write(({ q }) => sql`pragma busy_timeout = 20`.execute(q))
  try {
    await settled()
    const before = (await kept()).length
    await other.exec(`begin immediate; ${add('held')}`)
    await expect(db.write(async () => undefined)).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    await other.exec('commit')
    await expect.poll(() => db.changes.moment()).toBeDefined()
    expect(await kept()).toHaveLength(before + 1)
    await other.run(add('held again'))
    await expect.poll(() => db.changes.moment()).toBeDefined()
    expect(await kept()).toHaveLength(before + 2)
  } finally {
    await db.write(({ q }) => sql`pragma busy_timeout = 5000`.execute(q))
  }
})

test('what another process commits is heard of while a transaction of this one waits to begin', async () => {
  await settled()
  let heard = 0
  const stop = db.changes.onForeign(() => (heard += 1))
  await other.exec('begin immediate; insert into apart values (hex(randomblob(8)))')
  let waits = Promise.resolve()
  const asked = new Promise<void>((resolve) => {
    const driver = onBegin(() => {
      driver.remove()
      resolve()
    })
  })
  try {
    waits = db.write(async () => undefined)
    await asked
    await other.exec('commit; begin immediate')
    await db.changes.looked()
    db.changes.moment()
    expect(heard).toBeGreaterThan(0)
  } finally {
    await other.exec('commit')
    await waits
    stop()
  }
})

/** Calls back when a transaction has been asked to begin. */
function onBegin(asked: () => void): { remove(): void } {
  return plantFaults(({ sql: text }) => {
    if (text === 'BEGIN IMMEDIATE') setImmediate(asked)
    return undefined
  })
}

test('another process that commits while the first of a commit is undone is seen by the next', async () => {
  const kept = (q: Queries) => keptRows(q, q.selectFrom('location').select('id'))
  await settled()
  const before = (await kept(db.read)).length
  const insert = "insert into location (id, name, created_at, updated_at) values ('between', 'between', '', '')"
  const { prototype } = sqlite3.Database
  const { exec } = prototype
  prototype.exec = function (this: sqlite3.Database, script: string, callback?: (error: Error | null) => void) {
    const [undo, ...rest] = script.split('; ')
    if (undo !== 'ROLLBACK' || rest.length === 0) return exec.call(this, script, callback)
    return exec.call(this, undo, () => {
      void other.run(insert).then(() => exec.call(this, rest.join('; '), callback))
    })
  }
  try {
    const undone = db.write(async ({ q }) => {
      await sql`insert into apart values ('undone')`.execute(q)
      throw new Error('undone')
    })
    const seen = db.write(({ q }) => kept(q))
    await expect(undone).rejects.toThrow('undone')
    expect(await seen).toHaveLength(before + 1)
  } finally {
    prototype.exec = exec
  }
})
