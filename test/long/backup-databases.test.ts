// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setServerAccess } from '../../src/shared/api/access.ts'
import { login } from '../../src/shared/api/auth.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { type BackupStage, enterBackupStage } from '../daemon/backups/backup-stage.ts'
import { addDatabase, addHost } from '../daemon/databases/stage.ts'
import { NO_MARIADB, startMariadb, type TestMariadb } from '../mariadb.ts'
import { NO_POSTGRES, startPostgres, type TestPostgres } from '../postgres.ts'

const NASTY = `it's; -- a "test" \\ with %s, ünï 🎲 and a line\nbreak`

let stage: BackupStage
beforeAll(async () => {
  stage = await enterBackupStage()
}, 60_000)
afterAll(() => stage.close())

/** Makes a backup with its databases, and shows what of them is in it. */
async function along(name: string) {
  const made = await stage.make({ name, databases: true })
  expect(made).toMatchObject({ status: 'completed', error: null })
  const { data } = await stage.ask('GET', `/${made.id}/entries`)
  const authorization = `Bearer ${stage.panel.adminToken}`
  const url = (database: string) =>
    `${stage.panel.url}/api/servers/${stage.serverId}/backups/${made.id}/file?database=${database}`
  const dump = async (database: string): Promise<string> =>
    (await fetch(url(database), { headers: { authorization } })).text()
  return { made, kept: data.databases as { name: string; size: number }[], dump }
}

describe.skipIf(NO_MARIADB !== undefined)(`a backup with a MariaDB along${NO_MARIADB ? `: ${NO_MARIADB}` : ''}`, () => {
  let mariadb: TestMariadb
  beforeAll(async () => {
    mariadb = await startMariadb()
  }, 60_000)
  afterAll(() => mariadb.close())

  it('brings back tables, rows, keys and views as they were, also into another database', async () => {
    const host = await addHost(stage.panel, mariadb, { engine: 'mysql' })
    const made = await addDatabase(stage.panel, stage.serverId, { hostId: host.id, name: 'world' })
    const client = await mariadb.connect({ user: made.username, password: made.password ?? '', database: made.name })
    await client.query(
      'CREATE TABLE players (id INT AUTO_INCREMENT PRIMARY KEY, name TEXT, head BLOB, seen DATETIME(3), gold DECIMAL(20,4))',
    )
    await client.query('CREATE TABLE homes (player INT, x DOUBLE, FOREIGN KEY (player) REFERENCES players (id))')
    await client.query('CREATE VIEW rich AS SELECT name FROM players WHERE gold > 1')
    const head = Buffer.from([0, 1, 39, 92, 255])
    for (let i = 1; i <= 300; i++) {
      const row = [i % 7 === 0 ? null : `${NASTY} ${i}`, head, '2026-01-02 03:04:05.678', '12345678901234.5678']
      await client.query('INSERT INTO players (name, head, seen, gold) VALUES (?, ?, ?, ?)', row)
    }
    await client.query('INSERT INTO homes VALUES (1, 0.1), (2, NULL)')
    const rows = async (database = made.name) => {
      const all = []
      for (const table of ['players', 'homes', 'rich'])
        all.push(await mariadb.ask(`SELECT * FROM \`${database}\`.${table} ORDER BY 1`))
      return JSON.stringify(all)
    }
    const before = await rows()
    const backup = await along('mariadb')
    expect(backup.made.databases).toMatchObject([{ name: made.name, engine: 'mysql', rows: 302, left: [] }])
    expect(backup.kept).toMatchObject([{ name: made.name }])
    expect(await backup.dump(made.name)).toContain('CREATE TABLE')
    await client.query('DELETE FROM homes')
    await client.query('DROP TABLE homes')
    await client.query("UPDATE players SET name = 'gone'")
    await client.query('CREATE TABLE later (a INT)')
    const restore = { files: false, databases: true }
    expect(await stage.done('POST', `/${backup.made.id}/restore`, restore)).toMatchObject({ status: 'succeeded' })
    expect(await rows()).toBe(before)
    const tables = await mariadb.ask(
      `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = '${made.name}' ORDER BY 1`,
    )
    expect(tables.map(({ name }) => name)).toEqual(['homes', 'players', 'rich'])
    const other = await stage.another('heir')
    const target = await addDatabase(stage.panel, other.serverId, { hostId: host.id, name: 'second' })
    const elsewhere = { ...restore, toServerId: other.serverId, databaseMap: { [made.name]: target.id } }
    expect(await stage.done('POST', `/${backup.made.id}/restore`, elsewhere)).toMatchObject({ status: 'succeeded' })
    expect(await rows(target.name)).toBe(before)
    const unknown = { ...restore, toServerId: other.serverId }
    expect((await stage.ask('POST', `/${backup.made.id}/restore`, unknown)).code).toBe('DATABASE_NOT_FOUND')
    // As a migration records one that another panel goes on using.
    await client.query("UPDATE players SET name = 'of the other panel'")
    await stage.panel.app.core.db.write(async (tx) => {
      await tx.q.updateTable('serverDatabase').set({ managed: 0 }).where('id', '=', made.id).execute()
    })
    const played = await rows()
    expect((await stage.ask('POST', `/${backup.made.id}/restore`, restore)).code).toBe('DATABASE_NOT_MANAGED')
    expect(await rows()).toBe(played)
    const alone = { files: true, forceDatabases: true }
    expect((await stage.ask('POST', `/${backup.made.id}/restore`, alone)).code).toBe('VALIDATION_ERROR')
    const forced = { ...restore, forceDatabases: true }
    expect(await stage.done('POST', `/${backup.made.id}/restore`, forced)).toMatchObject({ status: 'succeeded' })
    expect(await rows()).toBe(before)
    await client.end()
  })

  it('that was found in its store is restored with them, and keeps them from who may not read them', async () => {
    const { client } = stage.panel
    const host = await addHost(stage.panel, mariadb, { engine: 'mysql' })
    const { serverId } = await stage.another('found')
    const { name } = await addDatabase(stage.panel, serverId, { hostId: host.id, name: 'kept' })
    await mariadb.ask(`CREATE TABLE \`${name}\`.gold (amount INT)`)
    await mariadb.ask(`INSERT INTO \`${name}\`.gold VALUES (7)`)
    const { id } = await stage.make({ databases: true, compression: 'none' }, serverId)
    const [email, password] = ['reader@example.org', 'A long pass word 1']
    const reader = await client.call(createUser, { body: { email, username: 'reader', password, roleIds: [] } })
    const { token } = await stage.panel.as(undefined).call(login, { body: { email, password } })
    await client.call(setServerAccess, {
      params: { serverId },
      body: { targetUserId: reader.id, permissions: ['server.read', 'backup.read'], filePaths: null },
    })
    const download = async (bearer: string): Promise<string> => {
      const headers = { authorization: `Bearer ${bearer}` }
      return await (
        await fetch(`${stage.panel.url}/api/servers/${serverId}/backups/${id}/download`, { headers })
      ).text()
    }
    const find = async () => {
      await stage.api('DELETE', `/backups/${id}?force=true`)
      const { data } = await stage.api('POST', '/backups/scan', { storeId: 'bst_local' })
      expect(data.added).toMatchObject([{ backupId: id }])
    }
    await find()
    expect(await download(stage.panel.adminToken)).toContain('CREATE TABLE')
    expect(await download(token)).not.toContain('CREATE TABLE')
    expect(await stage.get(id)).toMatchObject({ databases: [{ name, engine: 'mysql', tables: null }] })
    await mariadb.ask(`UPDATE \`${name}\`.gold SET amount = 1`)
    const restore = { files: false, databases: true }
    const { data } = await stage.api('POST', `/servers/${serverId}/backups/${id}/restore`, restore)
    expect(await stage.job(data.jobId)).toMatchObject({ status: 'succeeded' })
    expect(await mariadb.ask(`SELECT amount FROM \`${name}\`.gold`)).toEqual([{ amount: 7 }])
    // As those have it that were found before it stood there which databases are in them.
    await stage.panel.app.core.db.write((tx) =>
      tx.q.updateTable('backup').set({ databases: '[]' }).where('id', '=', id).execute(),
    )
    expect(await download(token)).not.toContain('CREATE TABLE')
  })
})

describe.skipIf(NO_POSTGRES !== undefined)(
  `a backup with a PostgreSQL along${NO_POSTGRES ? `: ${NO_POSTGRES}` : ''}`,
  () => {
    let postgres: TestPostgres
    beforeAll(async () => {
      postgres = await startPostgres()
    }, 60_000)
    afterAll(() => postgres.close())

    it('brings back tables, rows, sequences, keys and views as they were', async () => {
      const host = await addHost(stage.panel, postgres, { engine: 'postgresql' })
      const { serverId } = await stage.another('elephants')
      const made = await addDatabase(stage.panel, serverId, { hostId: host.id, name: 'herd' })
      const client = await postgres.connect({ user: made.username, password: made.password ?? '', database: made.name })
      await client.query(
        'CREATE TABLE players (id serial PRIMARY KEY, name text, head bytea, seen timestamptz, gold numeric(20,4), tags text[], extra jsonb)',
      )
      await client.query('CREATE TABLE homes (player int REFERENCES players (id), x double precision)')
      await client.query('CREATE INDEX players_gold ON players (gold)')
      await client.query('CREATE VIEW rich AS SELECT name FROM players WHERE gold > 1')
      const head = Buffer.from([0, 1, 39, 92, 255])
      for (let i = 1; i <= 300; i++) {
        const row = [
          i % 7 === 0 ? null : `${NASTY} ${i}`,
          head,
          '2026-01-02T03:04:05.678Z',
          '12345678901234.5678',
          ['a', "b'c"],
          { a: NASTY },
        ]
        await client.query(
          'INSERT INTO players (name, head, seen, gold, tags, extra) VALUES ($1, $2, $3, $4, $5, $6)',
          row,
        )
      }
      await client.query('INSERT INTO homes VALUES (1, 0.1), (2, NULL)')
      const rows = async () => {
        const all = []
        for (const table of ['players', 'homes', 'rich'])
          all.push(
            (
              await client.query(
                `SELECT * FROM ${table} ORDER BY 1, 2 NULLS LAST`.replace(
                  'rich ORDER BY 1, 2 NULLS LAST',
                  'rich ORDER BY 1',
                ),
              )
            ).rows,
          )
        return JSON.stringify(all)
      }
      const before = await rows()
      const backup = await stage.make({ name: 'postgres', databases: true }, serverId)
      expect(backup).toMatchObject({ status: 'completed', error: null })
      expect(backup.databases).toMatchObject([{ name: made.name, engine: 'postgresql', rows: 302, left: [] }])
      await client.query('DROP TABLE homes')
      await client.query("UPDATE players SET name = 'gone'")
      await client.query('CREATE TABLE later (a int)')
      const asked = await stage.api('POST', `/servers/${serverId}/backups/${backup.id}/restore`, {
        files: false,
        databases: true,
      })
      expect(await stage.job(asked.data.jobId)).toMatchObject({ status: 'succeeded' })
      expect(await rows()).toBe(before)
      const { rows: next } = await client.query("INSERT INTO players (name) VALUES ('new') RETURNING id")
      expect(next).toEqual([{ id: 301 }])
      expect(
        (await client.query("SELECT to_regclass('later') AS later, to_regclass('players_gold') AS gold")).rows,
      ).toEqual([{ later: null, gold: 'players_gold' }])
      await client.end()
    })

    it('is failed, and named so, when the database host is away', async () => {
      const { serverId } = await stage.another('lost')
      const host = await addHost(stage.panel, postgres, { engine: 'postgresql' })
      await addDatabase(stage.panel, serverId, { hostId: host.id, name: 'away' })
      await postgres.crash()
      try {
        const backup = await stage.make({ name: 'away', databases: true }, serverId)
        expect(backup).toMatchObject({ status: 'failed', storedBytes: null })
        expect(backup.error).toContain('host')
        expect(await stage.make({ name: 'files', databases: false }, serverId)).toMatchObject({ status: 'completed' })
      } finally {
        await postgres.restart()
      }
    }, 120_000)
  },
)
