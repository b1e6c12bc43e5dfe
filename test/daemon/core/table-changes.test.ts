import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Db, openDb, type Queries } from '../../../src/daemon/db/db.ts'
import { keptRows } from '../../../src/daemon/db/kept-results.ts'
import { migrate } from '../../../src/daemon/db/migrations.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { namedTables } from '../../../src/daemon/db/sqlite/named-tables.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'

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
  return TABLES.filter((table) => !db.changes.unmoved([table], before))
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
  expect(db.changes.unmoved(['parent'], before)).toBe(false)
  const after = await settled()
  await db.write(async ({ q }) => void (await sql.raw('delete from noted').execute(q)))
  await settled()
  expect(db.changes.unmoved(['parent', 'apart'], after)).toBe(true)
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
  expect(db.changes.unmoved(['parent'], before)).toBe(true)
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
  expect(named.readBy('select "n" from "child" join parent on 1 = 1')).toEqual(['child', 'parent'])
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
