import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it, test } from 'vitest'
import {
  MIGRATIONS,
  type Migration,
  migrate,
  NewerDatabaseError,
  SCHEMA_VERSION,
} from '../../../src/daemon/db/migrations.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { SmallDisk } from '../../faults/small-disk.ts'
import { runPanel } from '../../run-panel.ts'

/** `undefined` where this process may not mount a file system. */
const disk = await SmallDisk.mount(8)
const NO_DISK = disk === undefined ? ' (skipped: this user may not mount a file system)' : ''
afterAll(() => disk?.unmount())

let folder: string
let file: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-migrations-'))
  file = join(folder, 'panel.db')
})
afterEach(() => rm(folder, { recursive: true }))

const one: Migration = {
  id: 1,
  name: 'one',
  sql: 'create table one (a integer primary key) strict; insert into one values (7);',
}
const two: Migration = {
  id: 2,
  name: 'two',
  sql: 'create table two (a integer references one (a)) strict; insert into two values (7);',
}
const failing: Migration = {
  id: 2,
  name: 'failing',
  sql: 'create table two (a integer) strict; insert into nowhere values (1);',
}
const dangling: Migration = {
  id: 2,
  name: 'dangling',
  sql: 'create table two (a integer references one (a)) strict; insert into two values (8);',
}

async function ask(sql: string, at = file): Promise<Record<string, unknown>[]> {
  const connection = await Connection.open(at, 'existing')
  try {
    return await connection.all(sql)
  } finally {
    await connection.close()
  }
}

const state = async (at = file): Promise<unknown[]> => [
  (await ask('PRAGMA user_version', at))[0]?.['user_version'],
  (await ask("select name from sqlite_master where type = 'table' order by name", at)).map(({ name }) => name),
]

test('real numbers are in columns only that queries of JSON rows write with all their digits', async () => {
  await migrate(file)
  const columns =
    await ask(`select made.name as "of", given.name as "column" from sqlite_master as made, pragma_table_info(made.name) as given
    where made.type = 'table' and lower(given.type) = 'real' order by made.name`)
  // Whoever adds one adds it to REALS in db/json-rows.ts, and here.
  expect(columns).toEqual([
    { of: 'node', column: 'max_cpu_cores' },
    { of: 'server', column: 'cpu_cores' },
  ])
})

describe('migrating', () => {
  it('makes a new database, and finds nothing to do the second time', async () => {
    expect(await migrate(file)).toEqual({ from: 0, to: SCHEMA_VERSION, snapshot: undefined })
    expect(await migrate(file)).toEqual({ from: SCHEMA_VERSION, to: SCHEMA_VERSION, snapshot: undefined })
    expect(MIGRATIONS.map(({ id }) => id)).toEqual(MIGRATIONS.map((_, i) => i + 1))
    expect((await ask('PRAGMA journal_mode'))[0]).toEqual({ journal_mode: 'wal' })
  })

  it('takes all steps of a new database at once, to the same end as one by one', async () => {
    const stepwise = join(folder, 'stepwise.db')
    for (let count = 1; count <= MIGRATIONS.length; count++) await migrate(stepwise, MIGRATIONS.slice(0, count))
    await migrate(file)
    const whole = async (at: string): Promise<unknown> => {
      const schema = await ask('select type, name, tbl_name, sql from sqlite_master order by type, name', at)
      const tables = schema.filter(({ type }) => type === 'table').map(({ name }) => String(name))
      const rows = await Promise.all(tables.map(async (name) => [name, await ask(`select * from "${name}"`, at)]))
      const timeless = JSON.stringify(rows).replace(/"20[0-9-]{8}T[0-9:.]{12}Z"/g, '"<time>"')
      return { schema, rows: timeless, version: await ask('PRAGMA user_version', at) }
    }
    expect(await whole(file)).toEqual(await whole(stepwise))
  })

  it('makes nothing of a new database where a step leaves broken references', async () => {
    await expect(migrate(file, [one, dangling])).rejects.toThrow('migration 2 (dangling) failed')
    expect(await state()).toEqual([0, []])
    await migrate(file, [one, two])
    expect(await state()).toEqual([2, ['one', 'two']])
  })

  it('makes every table strict', async () => {
    await migrate(file)
    const loose = await ask(
      "select name from pragma_table_list where strict = 0 and type = 'table' and name not like 'sqlite_%'",
    )
    expect(loose).toEqual([])
  })

  it('copies what was there before it changes anything', async () => {
    await migrate(file, [one])
    const { from, to, snapshot } = await migrate(file, [one, two])
    expect([from, to]).toEqual([1, 2])
    expect(await state()).toEqual([2, ['one', 'two']])
    expect(await state(snapshot)).toEqual([1, ['one']])
    expect(await ask('select a from one', snapshot)).toEqual([{ a: 7 }])
  })

  it.each([failing, dangling])(
    'by a step that is $name leaves the database as it was, and can be tried again',
    async (bad) => {
      await migrate(file, [one])
      await expect(migrate(file, [one, bad])).rejects.toThrow(
        `migration 2 (${bad.name}) failed; the database is as it was`,
      )
      expect(await state()).toEqual([1, ['one']])
      await migrate(file, [one, two])
      expect(await state()).toEqual([2, ['one', 'two']])
    },
  )

  it('takes back the steps before one that fails, so that the program before still opens the database', async () => {
    await migrate(file, [one])
    const third = { id: 3, name: 'third', sql: failing.sql.replace('create table two (a integer) strict;', '') }
    await expect(migrate(file, [one, two, third])).rejects.toThrow(
      'migration 3 (third) failed; the database is as it was',
    )
    expect(await state()).toEqual([1, ['one']])
    expect(await migrate(file, [one])).toMatchObject({ from: 1, to: 1 })
  })

  it('keeps the five newest copies', async () => {
    const steps = Array.from({ length: 9 }, (_, i) => ({
      id: i + 1,
      name: `step ${i}`,
      sql: `create table t${i} (a integer) strict;`,
    }))
    for (let count = 1; count <= steps.length; count++) await migrate(file, steps.slice(0, count))
    const names = (await readdir(join(folder, 'snapshots'))).sort()
    expect(names.map((name) => /^before-v(\d+)/.exec(name)?.[1])).toEqual(['5', '6', '7', '8', '9'])
  })
})

describe.skipIf(disk === undefined)(`migrating on a disk that gets full${NO_DISK}`, () => {
  it('leaves the database as it was, with all the room that there was, wherever it has to end', async () => {
    if (disk === undefined) return
    const small = join(disk.folder, 'panel.db')
    await migrate(small, MIGRATIONS.slice(0, 20))
    const { size } = await stat(small)
    const refused: string[] = []
    for (let room = 64 * 1024; ; room += 64 * 1024) {
      await disk.clear()
      await disk.leave(room)
      const why = await migrate(small).then(
        () => undefined,
        (error: Error) => `${error.message} ${String(error.cause)}`,
      )
      if (why === undefined) break
      expect(why).toMatch(/disk is full|ENOSPC/)
      refused.push(why)
      await disk.clear()
      expect(await readdir(join(disk.folder, 'snapshots'))).toEqual([])
      expect([(await ask('PRAGMA user_version', small))[0], (await stat(small)).size]).toEqual([
        { user_version: 20 },
        size,
      ])
    }
    // Some ended while they copied, and some amid the steps.
    expect(refused.filter((why) => why.includes('migration 2')).length).toBeGreaterThan(0)
    expect(refused.filter((why) => !why.includes('migration 2')).length).toBeGreaterThan(0)
    expect((await ask('PRAGMA user_version', small))[0]).toEqual({ user_version: SCHEMA_VERSION })
  })
})

describe('a database of a newer program', () => {
  it('is refused and not touched', async () => {
    await migrate(file, [one, two])
    const before = await readFile(file)
    const refused = migrate(file, [one])
    await expect(refused).rejects.toBeInstanceOf(NewerDatabaseError)
    await expect(migrate(file, [one])).rejects.toThrow(
      /schema version 2.*knows versions up to 1: start the newer panel/,
    )
    expect((await readFile(file)).equals(before)).toBe(true)
  })

  it('ends the daemon with a clear word and exit code 14', { timeout: 30_000 }, async () => {
    await migrate(file)
    const connection = await Connection.open(file, 'existing')
    await connection.exec('PRAGMA user_version = 999')
    await connection.close()
    await mkdir(join(folder, 'data', 'db'), { recursive: true })
    await copyFile(file, join(folder, 'data', 'db', 'panel.db'))
    const env = { HOME: folder, PANEL_DATA__DIR: join(folder, 'data'), PANEL_HTTP__LISTEN: '127.0.0.1:0' }
    const { code, stderr } = await runPanel(['daemon', 'run'], { env })
    expect([code, stderr]).toEqual([14, expect.stringContaining('has schema version 999')])
    expect(stderr).toContain('start the newer panel')
  })
})

describe('the right to the keys of nodes', () => {
  it('goes to whoever could enrol agents before, and not to who could only edit nodes', async () => {
    await migrate(file, MIGRATIONS.slice(0, 13))
    const held: Readonly<Record<string, readonly string[]>> = {
      administrator: ['*'],
      editor: ['node.read', 'node.update'],
      adder: ['node.update', 'node.create', 'server.read'],
      scoped: ['node.create:node_1', 'node.create:*'],
      nobody: [],
    }
    const connection = await Connection.open(file, 'existing')
    const stamps = "'2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z'"
    await connection.exec(
      `insert into user (id, email, username, created_at, updated_at) values ('u', 'e', 'u', ${stamps});`,
    )
    for (const [name, permissions] of Object.entries(held)) {
      const json = JSON.stringify(permissions)
      await connection.exec(`insert into role values ('${name}', '${name}', null, '${json}', 0, ${stamps});
        insert into api_key (id, user_id, name, start, secret_hash, rate_limit_enabled, rate_limit_max,
          rate_limit_time_window, all_permissions, permissions, created_at, updated_at)
        values ('${name}', 'u', '${name}', '', '${name}', 0, 1, 1, 0, '${json}', ${stamps});`)
    }
    await connection.close()
    await migrate(file)
    const expected = {
      ...held,
      adder: ['node.update', 'node.create', 'server.read', 'node.rotate_key'],
      scoped: ['node.create:node_1', 'node.create:*', 'node.rotate_key:node_1', 'node.rotate_key:*'],
    }
    for (const table of ['role', 'api_key']) {
      const rows = await ask(`select name, permissions from ${table}`)
      expect(Object.fromEntries(rows.map((row) => [row['name'], JSON.parse(String(row['permissions']))]))).toEqual(
        expected,
      )
    }
  })
})
