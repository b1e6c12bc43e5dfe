// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import {
  adoptServerDatabase,
  deleteServerDatabase,
  listServerDatabases,
  rotateServerDatabase,
  type ServerDatabase,
} from '../../src/shared/api/databases.ts'
import { cancelMigration, type MigrationDetail } from '../../src/shared/api/migration.ts'
import { deleteServer, type Server } from '../../src/shared/api/servers.ts'
import type { MigrationId } from '../../src/shared/kernel/ids.ts'
import { addHost } from '../daemon/databases/stage.ts'
import { failedSteps, MigrationStage, type StartBody } from '../daemon/migration/migration-stage.ts'
import { refusal } from '../daemon/place-panel.ts'
import { eventually } from '../daemon/webhooks/receiver.ts'
import { betweenLooks } from '../looks.ts'
import { NO_MARIADB, startMariadb, type TestMariadb } from '../mariadb.ts'

const PASSWORD = 'Of-the-source-1'
const SERVERS = 3
/** For a whole migration, on a machine that is busy with others. */
const PATIENCE_MS = 240_000

describe.skipIf(NO_MARIADB !== undefined)(`databases of the source${NO_MARIADB ? `: ${NO_MARIADB}` : ''}`, () => {
  let mariadb: TestMariadb
  let stage: MigrationStage

  beforeAll(async () => {
    mariadb = await startMariadb()
    for (let id = 1; id <= SERVERS; id++) {
      await mariadb.ask(`CREATE DATABASE s${id}_main`)
      await mariadb.ask(`CREATE USER 'u${id}'@'%' IDENTIFIED BY '${PASSWORD}'`)
      await mariadb.ask(`GRANT ALL ON s${id}_main.* TO 'u${id}'@'%'`)
      await mariadb.ask(`CREATE TABLE s${id}_main.homes (id int)`)
      await mariadb.ask(`INSERT INTO s${id}_main.homes VALUES (${id})`)
    }
    const none = { suspended: 0, fullSlots: 0, zeroSlots: 0, oddities: false }
    stage = await MigrationStage.open({
      source: {
        ...{ servers: SERVERS, nodes: 1, filesPerServer: 1, ...none },
        customize: ({ servers, databaseHosts: [host] }) => {
          Object.assign(host ?? {}, { host: '127.0.0.1', port: mariadb.port })
          for (const server of servers) {
            const [database, username] = [`s${server.id}_main`, `u${server.id}`]
            const place = { id: server.id * 100 + 1, hostId: 1, remote: '%', maxConnections: 0 }
            server.databases = [{ ...place, database, username, password: PASSWORD }]
          }
        },
      },
    })
    await addHost(stage.panel, mariadb, { engine: 'mysql' })
  }, 90_000)
  afterAll(async () => {
    await stage.close()
    await mariadb.close()
  }, 60_000)

  const moved = async (more: StartBody = {}): Promise<MigrationDetail> =>
    stage.in(await stage.start(more), ['completed', 'failed', 'cancelled'], PATIENCE_MS)
  const schemas = async (): Promise<unknown[]> =>
    (
      await mariadb.ask(
        "SELECT schema_name AS name FROM information_schema.schemata WHERE schema_name NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') ORDER BY 1",
      )
    ).map(({ name }) => name)
  const OF_THE_SOURCE = ['s1_main', 's2_main', 's3_main']
  /** The source's game servers still get in, and find what they have written. */
  const serves = async (id: number): Promise<boolean> => {
    try {
      const client = await mariadb.connect({ user: `u${id}`, password: PASSWORD, database: `s${id}_main` })
      const [rows] = await client.query('SELECT id FROM homes')
      await client.end()
      return JSON.stringify(rows) === JSON.stringify([{ id }])
    } catch {
      return false
    }
  }
  const serverOf = async (id: number): Promise<Server> => {
    const uuid = stage.source.world.servers.find((one) => one.id === id)?.uuid
    return (await stage.servers()).find((one) => one.uuid === uuid) ?? expect.fail()
  }
  const databasesOf = async (id: number): Promise<ServerDatabase[]> =>
    stage.panel.client.call(listServerDatabases, { params: { serverId: (await serverOf(id)).id } })
  const paramsOf = async (id: number) => {
    const [database] = await databasesOf(id)
    const { id: databaseId, serverId } = database ?? expect.fail()
    return { serverId, databaseId }
  }
  /** Resolves while the migration is at this step, or behind it. */
  const reached = async (jobId: MigrationId, action: string, status: 'running' | 'completed'): Promise<void> => {
    for (const start = performance.now(); ; await betweenLooks(start)) {
      const { steps, ...job } = await stage.get(jobId)
      if (steps.some((step) => step.action === action && step.status === status)) return
      if (!['pending', 'validating', 'running'].includes(job.status) || performance.now() > start + PATIENCE_MS) {
        const open = steps.map((step) => `${step.action} ${step.status} ${step.error ?? ''}`)
        throw new Error(`it is ${job.status} (${job.error ?? ''}): ${open.join('\n')}`)
      }
    }
  }
  const rolledBack = async (jobId: MigrationId) => {
    await stage.panel.client.call(cancelMigration, { params: { jobId }, body: { rollback: true } })
    const job = await stage.in(jobId, ['cancelled'], PATIENCE_MS)
    await stage.source.setFaults({ delayMs: 0 })
    const undone = job.steps.filter(({ action }) => action.startsWith('rollback_'))
    expect(undone.filter(({ status }) => status === 'failed' || status === 'pending')).toEqual([])
    return undone
  }
  const copies = () => ({
    conflicts: { database: 'copy', port: 'remap' },
    databaseHosts: [`127.0.0.1:${mariadb.port}`],
  })

  it('that are recorded are shown so, and forgotten when they or their servers are deleted', async () => {
    const { client } = stage.panel
    const job = await moved()
    expect(failedSteps(job)).toEqual([])
    expect(job.report?.totals['database']).toMatchObject({ read: SERVERS, created: SERVERS })
    expect(job.report?.warnings.join('\n')).toContain('deleting it or its server here leaves it there')
    for (let id = 1; id <= SERVERS; id++) expect(await databasesOf(id)).toMatchObject([{ managed: false }])

    const one = await paramsOf(1)
    expect(await client.call(deleteServerDatabase, { params: one })).toEqual({ dropped: false })
    expect(await databasesOf(1)).toEqual([])
    const two = await serverOf(2)
    await client.call(deleteServer, { params: { serverId: two.id } })
    await eventually(
      'the server is gone',
      async () => (await stage.servers()).every(({ id }) => id !== two.id),
      PATIENCE_MS,
    )
    const rows = () => stage.panel.app.core.db.read.selectFrom('serverDatabase').selectAll().execute()
    expect((await rows()).map(({ state }) => state)).toEqual(['ready'])
    expect(await schemas()).toEqual(OF_THE_SOURCE)
    for (let id = 1; id <= SERVERS; id++) expect(await serves(id)).toBe(true)
    const [deleted] = await client.call(listAuditLogs, { query: { action: 'server.delete' } })
    expect(deleted?.details).toMatchObject({ databasesLeft: ['s2_main'] })

    // The next run brings both back.
    expect(failedSteps(await moved())).toEqual([])
    for (let id = 1; id <= SERVERS; id++) expect(await databasesOf(id)).toMatchObject([{ managed: false }])
  }, 600_000)

  it('that are recorded are changed only by force, and the panel’s own once they are adopted', async () => {
    const { client } = stage.panel
    const params = await paramsOf(3)
    expect(await refusal(client.call(rotateServerDatabase, { params }))).toMatchObject({ code: 'DATABASE_NOT_MANAGED' })
    expect(await serves(3)).toBe(true)
    expect(await client.call(adoptServerDatabase, { params })).toMatchObject({ managed: true })
    // A further run leaves alone what has become the panel's.
    const rotated = await client.call(rotateServerDatabase, { params })
    stage.source.world.servers
      .find(({ id }) => id === 3)
      ?.databases.forEach((row) => {
        row.maxConnections = 7
      })
    expect(failedSteps(await moved())).toEqual([])
    expect(await databasesOf(3)).toMatchObject([{ managed: true, password: rotated.password }])
    expect(await client.call(deleteServerDatabase, { params })).toEqual({ dropped: true })
    expect(await schemas()).toEqual(['s1_main', 's2_main'])
    for (const id of [1, 2]) expect(await serves(id)).toBe(true)
  }, 600_000)

  it('survive a rollback of the run that has recorded them', async () => {
    const { client } = stage.panel
    for (const { id: serverId } of await stage.servers()) await client.call(deleteServer, { params: { serverId } })
    await eventually('all servers are gone', async () => (await stage.servers()).length === 0, PATIENCE_MS)
    await stage.source.setFaults({ delayMs: 100 })
    const server = stage.source.world.servers[0]
    const jobId = await stage.start({
      scope: 'server',
      nodeMappings: {},
      serverMappings: { [String(server?.id)]: stage.panel.nodeId },
    })
    await reached(jobId, 'import_database', 'completed')
    await rolledBack(jobId)
    expect(await stage.servers()).toEqual([])
    expect(await schemas()).toEqual(['s1_main', 's2_main'])
    expect(await serves(1)).toBe(true)
  }, 600_000)

  it('that were copied go with a rollback, also where the server was there before', async () => {
    const { client, nodeId } = stage.panel
    const server = stage.source.world.servers[0]
    const scope = { scope: 'server', nodeMappings: {}, serverMappings: { [String(server?.id)]: nodeId } }
    const begun = async () => {
      await stage.source.setFaults({ delayMs: 100 })
      const jobId = await stage.start({ ...scope, options: copies() })
      await reached(jobId, 'copy_database', 'running')
      expect((await schemas()).length).toBe(3)
      return jobId
    }
    // Both come in one run.
    await rolledBack(await begun())
    await eventually('the copy is gone', async () => (await schemas()).length === 2, PATIENCE_MS)
    expect(await stage.servers()).toEqual([])

    // The server has come before.
    const skip = { conflicts: { database: 'skip', port: 'remap' } }
    expect(failedSteps(await moved({ ...scope, options: skip }))).toEqual([])
    const undone = await rolledBack(await begun())
    expect(undone.map(({ action, status }) => `${action} ${status}`)).toContain('rollback_database completed')
    await eventually('the copy is gone', async () => (await schemas()).length === 2, PATIENCE_MS)
    expect(await databasesOf(1)).toEqual([])
    expect(await stage.servers()).toHaveLength(1)

    // A copy that was deleted here is made again, with what it holds.
    expect(failedSteps(await moved({ ...scope, options: copies() }))).toEqual([])
    expect(await databasesOf(1)).toMatchObject([{ managed: true }])
    expect(await client.call(deleteServerDatabase, { params: await paramsOf(1) })).toEqual({ dropped: true })
    expect(failedSteps(await moved({ ...scope, options: copies() }))).toEqual([])
    const [again] = await databasesOf(1)
    expect(await mariadb.ask(`SELECT id FROM ${again?.name}.homes`)).toEqual([{ id: 1 }])
    expect(await serves(1)).toBe(true)
  }, 900_000)
})
