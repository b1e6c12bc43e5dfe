// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listServerDatabases } from '../../src/shared/api/databases.ts'
import type { MigrationDetail } from '../../src/shared/api/migration.ts'
import { addHost } from '../daemon/databases/stage.ts'
import { failedSteps, MigrationStage } from '../daemon/migration/migration-stage.ts'
import { NO_MARIADB, startMariadb, type TestMariadb } from '../mariadb.ts'

const NAME = 's1_main'
const USER = 'u1_of_the_source'
const PASSWORD = `it's"\\=^@ a secret`

describe.skipIf(NO_MARIADB !== undefined)(`databases that move in${NO_MARIADB ? `: ${NO_MARIADB}` : ''}`, () => {
  let mariadb: TestMariadb
  let stage: MigrationStage

  beforeAll(async () => {
    mariadb = await startMariadb()
    await mariadb.ask(`CREATE DATABASE ${NAME}`)
    await mariadb.ask(`CREATE USER '${USER}'@'%' IDENTIFIED BY '${PASSWORD.replace(/['\\]/g, '\\$&')}'`)
    await mariadb.ask(`GRANT ALL ON ${NAME}.* TO '${USER}'@'%'`)
    await mariadb.ask(`CREATE TABLE ${NAME}.homes (id int auto_increment primary key, name varchar(100), at blob)`)
    await mariadb.ask(`INSERT INTO ${NAME}.homes (name, at) VALUES ('Ä''s\\n "home"', x'00ff'), (NULL, NULL)`)
    const few = { servers: 1, nodes: 1, suspended: 0, fullSlots: 0, zeroSlots: 0, oddities: false, filesPerServer: 1 }
    stage = await MigrationStage.open({
      source: {
        ...few,
        customize: ({ servers: [server], databaseHosts: [host] }) => {
          const [database] = server?.databases ?? []
          if (database === undefined || host === undefined) throw new Error('a source has a database on a host')
          Object.assign(database, { database: NAME, username: USER, password: PASSWORD })
          Object.assign(host, { host: '127.0.0.1', port: mariadb.port })
        },
      },
    })
  }, 90_000)
  afterAll(async () => {
    await stage.close()
    await mariadb.close()
  }, 60_000)

  const moved = (conflicts: object, more: object = {}): Promise<MigrationDetail> =>
    stage.moved({ options: { conflicts: { port: 'remap', ...conflicts }, ...more } })
  const codes = ({ steps }: MigrationDetail): string[] =>
    steps.flatMap(({ action, status, errorCode }) => (status === 'failed' ? [`${action} ${errorCode}`] : []))
  const copied = async () => {
    const [server] = await stage.servers()
    const [database] = await stage.panel.client.call(listServerDatabases, {
      params: { serverId: server?.id ?? ('' as never) },
    })
    return database ?? expect.fail()
  }
  const rowsOf = (name: string) => mariadb.ask(`SELECT id, name, hex(at) AS at FROM ${name}.homes ORDER BY id`)

  it('are made anew here with what they hold, and the source keeps its own', { timeout: 300_000 }, async () => {
    const nowhere = await moved({ database: 'copy' })
    expect(nowhere).toMatchObject({ status: 'failed', errorCode: 'PLAN_CONFLICT' })
    expect(nowhere.plan?.conflicts.map(({ code }) => code)).toEqual(['DATABASE_HOST_MISSING'])
    await addHost(stage.panel, mariadb, { engine: 'mysql' })

    // Loopback of the source is another machine: it is asked only when somebody says so.
    const refused = await moved({ database: 'copy' })
    expect(codes(refused)).toEqual(['copy_database DATABASE_HOST_REFUSED'])
    const made = await copied()
    expect(made.name).not.toBe(NAME)

    const named = { databaseHosts: [`127.0.0.1:${mariadb.port}`] }
    const first = await moved({ database: 'copy' }, named)
    expect(failedSteps(first)).toEqual([])
    expect(first.report?.totals['database_content']).toMatchObject({ read: 1, created: 1 })
    expect(first.report?.warnings.join()).toContain(made.name)
    expect((await copied()).id).toBe(made.id)
    const there = await rowsOf(NAME)
    expect(there).toHaveLength(2)
    expect(await rowsOf(made.name)).toEqual(there)
    expect(JSON.stringify(first)).not.toContain('a secret')

    const second = await moved({ database: 'copy' }, named)
    expect(failedSteps(second)).toEqual([])
    expect(second.report?.totals['database_content']).toMatchObject({ read: 1, unchanged: 1 })

    await mariadb.ask(`DELETE FROM ${NAME}.homes WHERE id = 2`)
    await mariadb.ask(`INSERT INTO ${NAME}.homes (name) VALUES ('new')`)
    const third = await moved({ database: 'copy' }, named)
    expect(failedSteps(third)).toEqual([])
    expect(third.report?.totals['database_content']).toMatchObject({ read: 1, updated: 1 })
    expect(await rowsOf(made.name)).toEqual(await rowsOf(NAME))
    expect((await rowsOf(NAME)).map(({ id }) => id)).toEqual([1, 3])
  })
})
