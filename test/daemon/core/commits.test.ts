import { copyFile, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openDb, type Queries } from '../../../src/daemon/db/db.ts'
import { ALONE, gather, type Settled } from '../../../src/daemon/db/gather.ts'
import { MIGRATIONS, migrate } from '../../../src/daemon/db/migrations.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { listLocations } from '../../../src/shared/api/locations.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { pauseBefore, plantFaults, type SqliteCode } from '../../faulty-driver.ts'
import { startPanel, type TestPanel } from '../../panel.ts'

let folder: string
let panel: TestPanel
let faults: { remove(): void } | undefined
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-commits-'))
  panel = await startPanel()
})
afterEach(() => faults?.remove())
afterAll(async () => {
  await panel?.close()
  await rm(folder, { recursive: true })
})

describe('a commit that fails', () => {
  const add = async (name: string) => {
    const headers = { authorization: `Bearer ${panel.adminToken}`, 'content-type': 'application/json' }
    const request = { method: 'POST', headers, body: JSON.stringify({ name }) }
    const response = await fetch(`${panel.url}/api/locations`, request)
    const { code } = (await response.json()) as { code?: string }
    return [response.status, code]
  }
  const names = async () => (await panel.client.call(listLocations, { query: { limit: 100 } })).map(({ name }) => name)

  const failures: [SqliteCode, number, string][] = [
    ['SQLITE_FULL', 507, 'INSUFFICIENT_SPACE'],
    ['SQLITE_IOERR', 503, 'DATABASE_UNAVAILABLE'],
    ['SQLITE_READONLY', 503, 'DATABASE_UNAVAILABLE'],
  ]
  it.each(failures)(
    'with %s is answered as %i %s to all that it was for, and leaves nothing',
    async (failure, status, code) => {
      faults = plantFaults(({ sql: text }) => (text === 'COMMIT' ? failure : undefined))
      // Together, so that they share one commit, and alone.
      const answers = [...(await Promise.all(['a', 'b', 'c'].map((name) => add(name + failure)))), await add(failure)]
      expect(answers).toEqual(Array(4).fill([status, code]))
      expect((await names()).filter((name) => name.includes(failure))).toEqual([])
      faults.remove()
      expect(await add(`after ${failure}`)).toEqual([201, undefined])
      expect(await names()).toContain(`after ${failure}`)
    },
  )

  it('runs nothing that was to follow it', async () => {
    const file = join(folder, 'hooks.db')
    await migrate(file)
    const db = await openDb(file, systemClock)
    try {
      const done: string[] = []
      const put = (id: string) =>
        db.write(async (tx) => {
          tx.onCommit(() => done.push(id))
          const row = { id, name: id, description: null, createdAt: tx.now, updatedAt: tx.now }
          await tx.q.insertInto('location').values(row).execute()
        })
      faults = plantFaults(({ sql: text }) => (text === 'COMMIT' ? 'SQLITE_FULL' : undefined))
      await expect(put('one')).rejects.toMatchObject({ code: 'INSUFFICIENT_SPACE' })
      expect(db.health().status).toBe('unwritable')
      faults.remove()
      await put('two')
      expect(done).toEqual(['two'])
      expect(db.health().status).toBe('ok')
      expect((await db.read.selectFrom('location').select('id').execute()).map(({ id }) => id)).toEqual(['two'])
    } finally {
      await db.close()
    }
  })
})

describe('a transaction that cannot begin', () => {
  it('fails those that waited for it, and none that came meanwhile', async () => {
    const file = join(folder, 'begin.db')
    await migrate(file)
    const db = await openDb(file, systemClock)
    const put = (id: string) =>
      db.write(async (tx) => {
        const row = { id, name: id, description: null, createdAt: tx.now, updatedAt: tx.now }
        await tx.q.insertInto('location').values(row).execute()
        return id
      })
    const late: Promise<string>[] = []
    try {
      faults = plantFaults(({ sql: text }) => {
        if (text !== 'BEGIN IMMEDIATE' || late.length > 0) return undefined
        late.push(put('late'))
        return 'SQLITE_IOERR'
      })
      const refused = { status: 'rejected', reason: expect.objectContaining({ code: 'DATABASE_UNAVAILABLE' }) }
      expect(await Promise.allSettled([put('one'), put('two')])).toEqual([refused, refused])
      expect(await Promise.all(late)).toEqual(['late'])
      expect((await db.read.selectFrom('location').select('id').execute()).map(({ id }) => id)).toEqual(['late'])
    } finally {
      faults?.remove()
      await db.close()
    }
  })
})

describe('a commit that breaks a reference', () => {
  it('fails, and what is written behind it is stored, also when another process has written', async () => {
    const file = join(folder, 'references.db')
    await migrate(file)
    const db = await openDb(file, systemClock)
    const other = await Connection.open(file, 'existing')
    try {
      await db.write(async ({ q }) => {
        await sql`create table kept_by (id text primary key)`.execute(q)
        await sql`create table keeps (of text references kept_by (id) deferrable initially deferred)`.execute(q)
      })
      const broken = db.write(({ q }) => sql`insert into keeps (of) values ('nobody')`.execute(q))
      await expect(broken).rejects.toThrow('FOREIGN KEY')
      await other.run("insert into kept_by (id) values ('other')")
      await db.write(({ q }) => sql`insert into kept_by (id) values ('next')`.execute(q))
      const rows = await sql<{ id: string }>`select id from kept_by order by id`.execute(db.read)
      expect(rows.rows).toEqual([{ id: 'next' }, { id: 'other' }])
    } finally {
      await other.close()
      await db.close()
    }
  })
})

describe('what is written together while the database closes', () => {
  /** Two kinds of rounds that make one of them, or all, go on in transactions of their own. */
  it.each(['alone', 'all'])('settles everyone, and answers what is stored: %s go on alone', async (who) => {
    const file = join(folder, `closing-${who}.db`)
    await migrate(file)
    const db = await openDb(file, systemClock)
    let closing: Promise<void> | undefined
    const put = gather<string, string>(db, async (tx, ids) => {
      if (ids.length > 1) closing ??= db.close()
      if (ids.length > 1 && who === 'all') throw new Error('not together')
      const settled: (Settled<string> | typeof ALONE)[] = []
      for (const id of ids) {
        if (id === 'a' && ids.length > 1) settled.push(ALONE)
        else {
          const row = { id, name: id, description: null, createdAt: tx.now, updatedAt: tx.now }
          await tx.q.insertInto('location').values(row).execute()
          settled.push({ value: id })
        }
      }
      return settled
    })
    const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((id) => put(id)))
    await closing
    const again = await openDb(file, systemClock)
    const stored = await again.read.selectFrom('location').select('id').orderBy('id').execute()
    await again.close()
    const refused = { status: 'rejected', reason: expect.objectContaining({ code: 'SHUTTING_DOWN' }) }
    const [, b, c] = outcomes
    if (who === 'all') expect(outcomes).toEqual([refused, refused, refused])
    else expect([b, c]).toMatchObject([{ value: 'b' }, { value: 'c' }])
    expect(stored.map(({ id }) => id)).toEqual(who === 'all' ? [] : ['b', 'c'])
  })
})

describe('the connections', () => {
  it('wait for the disk at every commit, keep references whole, and read without writing', async () => {
    const file = join(folder, 'pragmas.db')
    await migrate(file)
    const db = await openDb(file, systemClock)
    const ask = async (q: Queries, name: string) =>
      Object.values((await sql`${sql.raw(`pragma ${name}`)}`.execute(q)).rows[0] ?? {})[0]
    try {
      const writer = await db.write(async ({ q }) => [
        await ask(q, 'synchronous'),
        await ask(q, 'foreign_keys'),
        await ask(q, 'journal_mode'),
      ])
      expect(writer).toEqual([2, 1, 'wal']) // 2 is FULL: the log is synced before a commit is over
      expect(await ask(db.read, 'query_only')).toBe(1)
    } finally {
      await db.close()
    }
  })
})

describe('a migration that is killed', () => {
  /** What a killed process leaves: the file and its log as they are at this moment, also what was not synced. */
  const keep = async (file: string, to: string): Promise<void> => {
    await mkdir(to)
    for (const name of await readdir(join(file, '..'))) {
      if (/^panel\.db(-wal)?$/.test(name)) await copyFile(join(file, '..', name), join(to, name))
    }
  }
  const shape = async (file: string) => {
    const connection = await Connection.open(file, 'create')
    const [row] = await connection.all('PRAGMA user_version')
    const tables = await connection.all(
      "select name, sql from sqlite_schema where name not like 'sqlite_%' order by name",
    )
    await connection.close()
    return { version: Number(row?.['user_version']), tables: JSON.stringify(tables) }
  }

  it('before any of its statements has happened whole or not at all, and happens at the next start', {
    tags: ['long'],
  }, async () => {
    const whole: string[] = []
    for (let version = 0; version <= MIGRATIONS.length; version++) {
      const file = join(folder, `whole-${version}.db`)
      if (version > 0) await migrate(file, MIGRATIONS.slice(0, version))
      whole.push((await shape(file)).tables)
    }
    await mkdir(join(folder, 'killed'))
    const file = join(folder, 'killed', 'panel.db')
    await migrate(file, MIGRATIONS.slice(0, 1)) // a new one takes all steps in one
    const kept: { folder: string; before: string }[] = []
    let moments = 0
    faults = pauseBefore(async ({ sql: before }) => {
      const to = join(folder, `kill-${moments++}`)
      await keep(file, to)
      kept.push({ folder: to, before })
    })
    await migrate(file)
    faults.remove()
    expect(kept.length).toBeGreaterThan(MIGRATIONS.length)
    expect(kept.some(({ before }) => before === 'COMMIT')).toBe(true)
    for (const { folder: at, before } of kept) {
      const { version, tables } = await shape(join(at, 'panel.db'))
      expect([1, MIGRATIONS.length], `killed before ${before}`).toContain(version)
      expect(tables, `killed before ${before}`).toBe(whole[version])
    }
    for (const { folder: at } of kept.filter(({ before }) => before === 'COMMIT').slice(-2)) {
      await migrate(join(at, 'panel.db'))
      expect((await shape(join(at, 'panel.db'))).tables).toBe(whole[MIGRATIONS.length])
    }
    expect((await shape(file)).tables).toBe(whole[MIGRATIONS.length])
  })
})
