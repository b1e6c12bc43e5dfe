import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { MIGRATIONS, migrate } from '../../../src/daemon/db/migrations.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'

const AT = "'2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z'"

it('knows in a database of version 23 which databases a migration has recorded where they lie', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'panel-recorded-'))
  const file = join(folder, 'panel.db')
  try {
    await migrate(file, MIGRATIONS.slice(0, 23))
    const connection = await Connection.open(file, 'existing')
    const host = `'dbh_1', 'maria', 'mysql', '127.0.0.1', 3306, 'panel', 'sealed', 'off', null, null, ${AT}`
    await connection.exec(`insert into database_host values (${host})`)
    // The last one is on its way out already, and its server is gone.
    for (const [id, state] of [
      ['db_made', 'ready'],
      ['db_recorded', 'ready'],
      ['db_copied', 'ready'],
      ['db_deleting', 'deleting'],
    ]) {
      const columns = 'id, host_id, server_id, name, username, remote, password, state, created_at, updated_at'
      const values = `'${id}', 'dbh_1', null, '${id}', '${id}', '%', 'sealed', '${state}', ${AT}`
      await connection.exec(`insert into server_database (${columns}) values (${values})`)
    }
    const mapped = [
      ['database', 'database', 'db_recorded'],
      ['database', 'database', 'db_deleting'],
      ['database', 'database_copy', 'db_copied'],
      ['database_content', 'database', 'db_copied'],
    ]
    for (const [place, [source, target, id]] of mapped.entries()) {
      const values = `'mgm_${place}', 'fp', '${source}', '${id}', '${target}', '${id}', 1, 'hash', null, null, ${AT}`
      await connection.exec(`insert into migration_map values (${values})`)
    }
    await connection.close()
    await migrate(file)
    const migrated = await Connection.open(file, 'existing')
    expect(await migrated.all('select id from server_database where managed = 0 order by id')).toEqual([
      { id: 'db_deleting' },
      { id: 'db_recorded' },
    ])
    await migrated.close()
  } finally {
    await rm(folder, { recursive: true })
  }
})
