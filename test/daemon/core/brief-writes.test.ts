import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createAudit } from '../../../src/daemon/access/audit.ts'
import { auditHash } from '../../../src/daemon/access/audit-chain.ts'
import { createBus } from '../../../src/daemon/core/bus.ts'
import { BriefTries } from '../../../src/daemon/db/brief.ts'
import { type Batch, type Db, openDb, type Queries, type Tx } from '../../../src/daemon/db/db.ts'
import { keptRows } from '../../../src/daemon/db/kept-results.ts'
import { migrate } from '../../../src/daemon/db/migrations.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { changing, statement } from '../../../src/daemon/db/statement.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { isCommit, pauseAfter, pauseBefore, plantFaults, recordStatements } from '../../faulty-driver.ts'
import { testClock } from './test-clock.ts'

let folder: string
let db: Db
let other: Connection
let brief: BriefTries
let planted: { remove(): void } | undefined
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-brief-'))
  await migrate(join(folder, 'panel.db'))
  db = await openDb(join(folder, 'panel.db'), systemClock)
  other = await Connection.open(join(folder, 'panel.db'), 'existing')
  brief = new BriefTries()
})
afterEach(async () => {
  planted?.remove()
  planted = undefined
  await other.close()
  await db.close()
  await rm(folder, { recursive: true })
})

const settings = (q: Queries) => q.selectFrom('setting').select(['key', 'value']).orderBy('key')
const readValue = async (q: Queries, key: string) =>
  (await q.selectFrom('setting').select('value').where('key', '=', key).executeTakeFirst())?.value
const stored = async () => Object.fromEntries((await settings(db.read).execute()).map(({ key, value }) => [key, value]))

const put = statement((q, { key, value }: { key: string; value: string }) => ({
  compile: () =>
    sql`insert into setting (key, value, updated_at) values (${key}, ${value}, '') on conflict (key) do update set value = excluded.value`.compile(
      q,
    ),
}))
const replace = changing((q, { key, value, was }: { key: string; value: string; was: string }) => ({
  compile: () => sql`update setting set value = ${value} where key = ${key} and value = ${was}`.compile(q),
}))
const addRow = changing((q, { key }: { key: string }) => ({
  compile: () => sql`insert into setting (key, value, updated_at) values (${key}, '1', '')`.compile(q),
}))
const FOREIGN =
  "insert into setting (key, value, updated_at) values (?, ?, '') on conflict (key) do update set value = excluded.value"

/** Until all that is committed is counted. */
const settled = () => expect.poll(() => db.changes.moment()).toBeDefined()

const seed = async (key: string, value: string) => {
  await db.write((tx) => put(tx.q, { key, value }))
  await settled()
}

/** Adds one to what is there, as a brief transaction; counts how often its work is called. */
const addOne = (calls: { count: number }, during?: () => Promise<unknown>) =>
  db.write(
    async (tx) => {
      calls.count += 1
      const value = Number((await readValue(tx.q, 'count')) ?? 0)
      if (calls.count === 1) await during?.()
      await put(tx.q, { key: 'count', value: String(value + 1) })
      return value
    },
    { brief },
  )

it('is one statement for all that it changes, which readers see when it is answered', async () => {
  await addOne({ count: 0 })
  await settled()
  const recorded = recordStatements()
  planted = recorded
  const calls = { count: 0 }
  expect(await addOne(calls)).toBe(1)
  recorded.remove()
  expect(recorded.texts).toEqual([expect.stringMatching(/^select/), expect.stringMatching(/^insert into script_/)])
  expect(calls.count).toBe(1)
  expect(await stored()).toEqual({ count: '2' })
})

it('is on the disk when it is answered, as another connection and the next process see it', async () => {
  for (let i = 1; i <= 5; i++) {
    await addOne({ count: 0 })
    expect(await other.all("select value from setting where key = 'count'")).toEqual([{ value: String(i) }])
  }
  await db.close()
  db = await openDb(join(folder, 'panel.db'), systemClock)
  expect(await stored()).toEqual({ count: '5' })
})

it('is carried out again, with what another process has committed since it has read', async () => {
  await addOne({ count: 0 })
  const calls = { count: 0 }
  expect(await addOne(calls, () => other.run(FOREIGN, ['count', '41']))).toBe(41)
  expect(calls.count).toBe(2)
  expect(await stored()).toEqual({ count: '42' })
})

it('loses nothing of what another process adds all the time', async () => {
  await other.run(FOREIGN, ['count', '0'])
  let theirs = 0
  let isOver = false
  const adding = (async () => {
    while (!isOver) {
      await other.run("update setting set value = value + 1 where key = 'count'")
      theirs += 1
    }
  })()
  for (let i = 0; i < 200; i++) await addOne({ count: 0 })
  isOver = true
  await adding
  expect(theirs).toBeGreaterThan(0)
  expect(await stored()).toEqual({ count: String(200 + theirs) })
})

it('that reads what it has changed is carried out as others are', async () => {
  let calls = 0
  const seen = await db.write(
    async (tx) => {
      calls += 1
      await put(tx.q, { key: 'a', value: '1' })
      return await readValue(tx.q, 'a')
    },
    { brief },
  )
  expect([calls, seen]).toEqual([2, '1'])
  expect(await stored()).toEqual({ a: '1' })
})

it.each<[string, (tx: Tx) => Promise<unknown>]>([
  ['asks how many rows it has changed', (tx) => tx.q.updateTable('setting').set({ value: '2' }).executeTakeFirst()],
  ['asks for rows that it has changed', (tx) => tx.q.deleteFrom('setting').returning('key').execute()],
  [
    'goes on after that was refused',
    (tx) =>
      tx.q
        .deleteFrom('setting')
        .execute()
        .catch(() => undefined),
  ],
  ['changes the schema', (tx) => sql`create table extra (id text)`.execute(tx.q)],
])('that %s is carried out as others are, and once', async (_, ask) => {
  await seed('a', '1')
  let calls = 0
  await db.write(
    async (tx) => {
      calls += 1
      await ask(tx)
      await put(tx.q, { key: 'b', value: String(calls) })
    },
    { brief },
  )
  expect(calls).toBe(2)
  expect((await stored())['b']).toBe('2')
})

it('that changes other rows than it expects is carried out as others are, which say so', async () => {
  await seed('a', '1')
  const outcomes: boolean[] = []
  await db.write(
    async (tx) => {
      await put(tx.q, { key: 'b', value: '1' })
      outcomes.push(await replace(tx.q, { key: 'a', value: '2', was: 'something else' }, 1))
    },
    { brief },
  )
  expect(outcomes).toEqual([true, false])
  expect(await stored()).toEqual({ a: '1', b: '1' })
})

it('that throws leaves nothing, and is not carried out again', async () => {
  let calls = 0
  const failing = db.write(
    async (tx) => {
      calls += 1
      await put(tx.q, { key: 'a', value: '1' })
      throw new Error('its own')
    },
    { brief },
  )
  await expect(failing).rejects.toThrow('its own')
  expect(calls).toBe(1)
  expect(await stored()).toEqual({})
})

it('fails by a constraint as others do, and leaves nothing', async () => {
  const twice = db.write(
    async (tx) => {
      await addRow(tx.q, { key: 'a' }, 1)
      await addRow(tx.q, { key: 'a' }, 1)
    },
    { brief },
  )
  await expect(twice).rejects.toThrow('UNIQUE constraint failed')
  expect(await stored()).toEqual({})
})

it('that finds no room is refused and leaves nothing, and those behind it are stored when there is room', async () => {
  await addOne({ count: 0 })
  planted = plantFaults(({ sql: text }) => (isCommit(text) ? 'SQLITE_FULL' : undefined))
  await expect(addOne({ count: 0 })).rejects.toMatchObject({ code: 'INSUFFICIENT_SPACE' })
  expect(db.health()).toMatchObject({ status: 'unwritable' })
  planted.remove()
  await addOne({ count: 0 })
  expect(db.health()).toMatchObject({ status: 'ok' })
  expect(await stored()).toEqual({ count: '2' })
})

it('is refused when it goes on after the database could not be read, and leaves nothing', async () => {
  planted = plantFaults(({ sql: text }) => (/^select .* from "setting"/.test(text) ? 'SQLITE_IOERR' : undefined))
  const careless = db.write(
    async (tx) => {
      await readValue(tx.q, 'a').catch(() => undefined)
      await put(tx.q, { key: 'a', value: '1' }).catch(() => undefined)
    },
    { brief },
  )
  await expect(careless).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
  planted.remove()
  expect(await stored()).toEqual({})
})

it('is not stored as part of a transaction that could not be rolled back', async () => {
  let isFailing = true
  planted = plantFaults(({ sql: text }) =>
    isFailing && (text === 'ROLLBACK' || text === 'COMMIT') ? 'SQLITE_ERROR' : undefined,
  )
  await expect(db.write((tx) => put(tx.q, { key: 'lost', value: '1' }))).rejects.toThrow('planted by a test')
  isFailing = false
  await addOne({ count: 0 })
  await addOne({ count: 0 })
  expect(await other.all('select key, value from setting')).toEqual([{ key: 'count', value: '2' }])
})

it('writes nothing of what goes on after its end', async () => {
  const late: Promise<unknown>[] = []
  const work = async (tx: Tx) => {
    await put(tx.q, { key: 'in time', value: '1' })
    late.push(
      new Promise((resolve) => setImmediate(resolve))
        .then(() => put(tx.q, { key: 'late', value: '1' }))
        .catch((error: unknown) => error),
    )
  }
  await db.write(work, { brief })
  await Promise.allSettled(late)
  await addOne({ count: 0 })
  expect(await stored()).toEqual({ 'in time': '1', count: '1' })
})

it('shares a commit with others that wait, and begins with what a scope begins with', async () => {
  const recorded = recordStatements()
  planted = recorded
  await Promise.all([addOne({ count: 0 }), db.write((tx) => put(tx.q, { key: 'plain', value: '1' }))])
  expect(recorded.texts.filter(isCommit)).toEqual(['COMMIT'])
  await db.withFirst(
    (tx) => put(tx.q, { key: 'first', value: '1' }).then(() => undefined),
    () => addOne({ count: 0 }),
  )
  expect(await stored()).toEqual({ count: '2', first: '1', plain: '1' })
})

it('shares a commit with others of its kind where many wait', async () => {
  await seed('a', '1')
  const recorded = recordStatements()
  planted = recorded
  const tries = Array.from({ length: 50 }, () => new BriefTries())
  await Promise.all(tries.map((one, i) => db.write((tx) => put(tx.q, { key: `k${i}`, value: '1' }), { brief: one })))
  expect(recorded.texts.filter(isCommit).length).toBeLessThanOrEqual(3)
  expect(Object.keys(await stored()).length).toBe(51)
})

it('that cannot be written is refused with those that waited behind it, and at once', async () => {
  await seed('a', '1')
  planted = plantFaults(({ sql: text }) => (isCommit(text) || text.startsWith('BEGIN') ? 'SQLITE_BUSY' : undefined))
  const asked = recordStatements()
  const outcomes = await Promise.allSettled([addOne({ count: 0 }), addOne({ count: 0 })])
  asked.remove()
  const refused = { status: 'rejected', reason: expect.objectContaining({ code: 'DATABASE_UNAVAILABLE' }) }
  expect(outcomes).toEqual([refused, refused])
  expect(asked.texts.filter((text) => isCommit(text) || text.startsWith('BEGIN'))).toHaveLength(1) // each waits for five seconds
})

it('sees what it has changed, also where that is kept in memory', async () => {
  await seed('a', '1')
  const kept = (q: Queries) => keptRows(q, settings(q))
  await kept(db.read)
  const seen = await db.write(
    async (tx) => {
      await put(tx.q, { key: 'a', value: '2' })
      return await kept(tx.q)
    },
    { brief },
  )
  expect(seen).toEqual([{ key: 'a', value: '2' }])
})

it('has nothing of what its work has left running when it was called before', async () => {
  await seed('a', '1')
  const written: string[] = []
  const batch: Batch<string> = { write: async (_, rows) => void written.push(...rows) }
  const hooks: number[] = []
  let calls = 0
  await db.write(
    async (tx) => {
      calls += 1
      const call = calls
      const late = async () => {
        await new Promise((resolve) => setImmediate(resolve))
        tx.collect(batch, `of call ${call}`)
        tx.onCommit(() => hooks.push(call))
      }
      await Promise.all([late(), tx.q.updateTable('setting').set({ value: '2' }).execute()])
    },
    { brief },
  )
  expect([calls, written, hooks]).toEqual([2, ['of call 2'], [2]])
})

it.each([
  [
    'a comment',
    (key: string) => sql`insert into setting (key, value, updated_at) /* which? */ values (${key}, '2', '')`,
  ],
  ['a name', (key: string) => sql`insert into setting select ${key}, "which?", '' from (select 2 as "which?")`],
  ['a text', (key: string) => sql`insert into setting (key, value, updated_at) values (${key}, 'which?', '')`],
])('takes values where they belong beside a question mark in %s', async (_, insert) => {
  await seed('a', '1')
  const odd = statement((q, { key }: { key: string }) => ({ compile: () => insert(key).compile(q) }))
  await db.write(
    async (tx) => {
      await odd(tx.q, { key: 'b' })
      await put(tx.q, { key: 'c', value: '3' })
    },
    { brief },
  )
  expect(await stored()).toMatchObject({ a: '1', b: expect.anything(), c: '3' })
})

it('gives events numbers that were never given before, also when another process has removed them all', async () => {
  const bus = createBus(db)
  const numbers: number[] = []
  bus.listen(({ id }) => numbers.push(id))
  const add = () =>
    db.write((tx) => bus.append(tx, { type: 'smtp_settings_updated', data: { updatedBy: null } }), { brief })
  for (let i = 0; i < 3; i++) await add()
  await other.run('delete from event')
  for (let i = 0; i < 3; i++) await add()
  expect(numbers).toEqual([1, 2, 3, 4, 5, 6])
})

it('is tried less and less often where it turns out not to be brief, and again when it is', async () => {
  let calls = 0
  const write = (isBrief: boolean) =>
    db.write(
      async (tx) => {
        calls += 1
        await put(tx.q, { key: 'a', value: String(calls) })
        if (!isBrief) await readValue(tx.q, 'a')
      },
      { brief },
    )
  for (let i = 0; i < 200; i++) await write(false)
  expect(calls).toBeLessThanOrEqual(200 + 10)
  const recorded = recordStatements()
  planted = recorded
  for (let i = 0; i < 200; i++) await write(true)
  const scripts = recorded.texts.filter((text) => text.startsWith('insert into script_')).length
  expect(scripts).toBeGreaterThan(130)
})

it('that waits for something else than the database is undone, and holds up nobody for longer', async () => {
  await db.close()
  const clock = testClock()
  db = await openDb(join(folder, 'panel.db'), clock)
  const stuck = db.write(
    async (tx) => {
      await put(tx.q, { key: 'a', value: '1' })
      await new Promise(() => undefined)
    },
    { brief },
  )
  const refused = expect(stuck).rejects.toThrow('longer than 10 s')
  await expect.poll(() => clock.sleepers()).toBe(1)
  clock.advance(10_000)
  await refused
  await addOne({ count: 0 })
  expect(await stored()).toEqual({ count: '1' })
})

it('is counted: what was read of it is read again, and nothing else', async () => {
  const kept = () => keptRows(db.read, settings(db.read))
  const locations = () => keptRows(db.read, db.read.selectFrom('location').select('id'))
  const add = (key: string) => db.write(async (tx) => void (await addRow(tx.q, { key }, 1)), { brief })
  await add('a')
  await settled()
  await Promise.all([kept(), locations()])
  await add('b')
  await settled()
  const recorded = recordStatements()
  planted = recorded
  expect(await kept()).toEqual(['a', 'b'].map((key) => ({ key, value: '1' })))
  expect(await locations()).toEqual([])
  expect(recorded.texts).toEqual([expect.stringContaining('setting')])
})

it('is seen as soon as it is on the disk, also by who asks before it is answered', async () => {
  const kept = () => keptRows(db.read, settings(db.read))
  await addOne({ count: 0 })
  await kept()
  const seen: unknown[] = []
  planted = pauseAfter(async ({ sql: text }) => {
    if (text.startsWith('insert into script_')) seen.push(await kept())
  })
  await addOne({ count: 0 })
  expect(seen).toEqual([[{ key: 'count', value: '2' }]])
})

it('hides nothing that another process commits right before it, not for a moment', async () => {
  const kept = () => keptRows(db.read, settings(db.read))
  await addOne({ count: 0 })
  await kept()
  const seen: unknown[] = []
  planted = pauseBefore(async ({ sql: text }) => {
    if (!text.startsWith('insert into script_') || seen.length > 0) return
    await other.run(FOREIGN, ['foreign', '1'])
    seen.push(await kept())
  })
  await addOne({ count: 0 })
  expect(seen).toEqual([
    [
      { key: 'count', value: '1' },
      { key: 'foreign', value: '1' },
    ],
  ])
  expect(await kept()).toEqual([
    { key: 'count', value: '2' },
    { key: 'foreign', value: '1' },
  ])
})

it('writes the rows that are left to its end, numbered and chained behind those of other processes', async () => {
  const bus = createBus(db)
  const audit = createAudit(bus, systemClock)
  const record = () =>
    db.write((tx) => audit.record(tx, { caller: undefined, origin: null }, { action: 'a.b', resource: 'a' }), { brief })
  const numbers: number[] = []
  bus.listen(({ id }) => numbers.push(id))
  await record()
  await record()
  await other.run("insert into event (type, data, created_at) values ('job_changed', '{}', '')")
  await record()
  await db.write((tx) => audit.record(tx, { caller: undefined, origin: null }, { action: 'a.c', resource: 'a' }))
  const recorded = recordStatements()
  planted = recorded
  for (let i = 0; i < 5; i++) await record() // after what was not brief it is not tried each time
  expect(recorded.texts.filter(isCommit).at(-1)).toMatch(/^insert into script_.*audit_log.*event/s)
  expect(recorded.texts.at(-1)).toMatch(/^insert into script_/)
  expect(numbers).toEqual([1, 2, 4, 5, 6, 7, 8, 9, 10])
  const stored = await db.read.selectFrom('event').select(['id', 'type']).orderBy('id').execute()
  expect(stored.map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  expect(stored[2]?.type).toBe('job_changed')
  const rows = await db.read.selectFrom('auditLog').selectAll().orderBy('seq').execute()
  expect(rows.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
  let before = '0'.repeat(64)
  for (const { seq, hash, ...content } of rows) {
    before = auditHash(before, content)
    expect([seq, hash]).toEqual([seq, before])
  }
})

it('carries out what a batch has failed to write as others do, once for each', async () => {
  let calls = 0
  const batch: Batch<string> = {
    write: async (tx, rows) => {
      calls += 1
      for (const key of rows) await put(tx.q, { key, value: (await readValue(tx.q, 'a')) ?? 'none' })
    },
  }
  await db.write(
    async (tx) => {
      await put(tx.q, { key: 'a', value: '1' })
      tx.collect(batch, 'b')
    },
    { brief },
  )
  expect(calls).toBe(2)
  expect(await stored()).toEqual({ a: '1', b: '1' })
})
