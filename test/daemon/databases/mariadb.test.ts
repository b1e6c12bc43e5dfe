import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { createApiKey } from '../../../src/shared/api/api-keys.ts'
import { deleteDatabaseHost, pingDatabaseHost, updateDatabaseHost } from '../../../src/shared/api/database-hosts.ts'
import {
  adoptServerDatabase,
  deleteServerDatabase,
  getServerDatabase,
  rotateServerDatabase,
} from '../../../src/shared/api/databases.ts'
import { deleteServer } from '../../../src/shared/api/servers.ts'
import type { ServerId } from '../../../src/shared/kernel/ids.ts'
import { NO_MARIADB, startMariadb, type TestMariadb } from '../../mariadb.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { startSqlCable } from '../../sql-cable.ts'
import { makeCertificate } from '../mail/mail-server.ts'
import { refusal } from '../place-panel.ts'
import { addDatabase, addHost, addServer, hostNow, until } from './stage.ts'

describe.skipIf(NO_MARIADB !== undefined)(`databases on a real MariaDB${NO_MARIADB ? `: ${NO_MARIADB}` : ''}`, () => {
  let panel: TestPanel
  let mariadb: TestMariadb
  beforeAll(async () => {
    const [started, service] = await Promise.all([startPanel(), startMariadb()])
    panel = started
    mariadb = service
  }, 60_000)
  afterAll(async () => {
    await panel.close()
    await mariadb.close()
  })

  const engine = 'mysql' as const
  const STANDARD = "'information_schema', 'mysql', 'performance_schema', 'sys'"
  const names = async (sql: string): Promise<unknown[]> => (await mariadb.ask(sql)).map(({ name }) => name)
  const ours = async () => [
    ...(await names(
      `SELECT schema_name AS name FROM information_schema.schemata WHERE schema_name NOT IN (${STANDARD})`,
    )),
    ...(await names("SELECT user AS name FROM mysql.user WHERE user LIKE 'srv%'")),
  ]
  const signIn = (made: { username: string; password: string | null; name: string }, database = made.name) =>
    mariadb.connect({ user: made.username, password: made.password ?? '', database })

  it('are made with a user who may use his own alone, get new passwords, and leave nothing behind', async () => {
    const host = await addHost(panel, mariadb, { engine })
    const [one, two] = [await addServer(panel), await addServer(panel)]
    const made = await addDatabase(panel, one, { hostId: host.id, name: 'shop_1', remote: '127.0.0.1/8' })
    // To a GRANT on shop_1 whose underscore were no underscore, this one would belong as well.
    const other = await addDatabase(panel, two, { hostId: host.id, name: 'shopx1' })
    const client = await signIn(made)
    await client.query('CREATE TABLE things (a int)')
    await client.query('CREATE VIEW seen AS SELECT a FROM things')
    const [seen] = await client.query('SHOW DATABASES')
    expect(seen).toEqual([{ Database: 'information_schema' }, { Database: 'shop_1' }])
    await expect(client.query('CREATE DATABASE more')).rejects.toThrow('Access denied')
    await expect(client.query("GRANT SELECT ON shop_1.* TO 'root'@'localhost'")).rejects.toThrow('Access denied')
    await expect(signIn(made, 'shopx1')).rejects.toThrow('Access denied')
    const [account] = await mariadb.ask(`SELECT host AS host FROM mysql.user WHERE user = '${made.username}'`)
    expect(account).toMatchObject({ host: '127.0.0.0/255.0.0.0' })
    const params = { serverId: one, databaseId: made.id }
    const rotated = await panel.client.call(rotateServerDatabase, { params })
    await expect(signIn(made)).rejects.toThrow('Access denied')
    await (await signIn(rotated)).end()
    await panel.client.call(deleteServerDatabase, { params })
    await expect(client.query('SELECT 1')).rejects.toThrow()
    expect(await ours()).toEqual(['shopx1', other.username])
    await panel.client.call(deleteServer, { params: { serverId: two }, query: { force: 'true' } })
    await until('nothing of the deleted server is left', async () => (await ours()).length === 0)
    await until('nothing waits', async () => (await hostNow(panel, host.id)).leftoverCount === 0)
    await panel.client.call(deleteDatabaseHost, { params: { hostId: host.id } })
  })

  it('of a stranger are not touched, not even empty ones', async () => {
    const host = await addHost(panel, mariadb, { engine })
    const serverId = await addServer(panel)
    await mariadb.ask('CREATE DATABASE wordpress')
    expect(await refusal(addDatabase(panel, serverId, { hostId: host.id, name: 'wordpress' }))).toMatchObject({
      code: 'CONFLICT',
    })
    expect(await ours()).toEqual(['wordpress'])
    await mariadb.ask('DROP DATABASE wordpress')
    await panel.client.call(deleteDatabaseHost, { params: { hostId: host.id } })
  })

  it('that it does not manage are forgotten with their servers, and dropped or changed only where that is asked for', async () => {
    const { client } = panel
    const host = await addHost(panel, mariadb, { engine })
    const permissions = ['database.read', 'database.delete']
    const member = panel.as((await client.call(createApiKey, { body: { name: 'member', permissions } })).key)
    const recorded = async (serverId: ServerId, name: string) => {
      const made = await addDatabase(panel, serverId, { hostId: host.id, name })
      await (await signIn(made)).query('CREATE TABLE homes (id int)')
      await panel.app.core.db.write(async (tx) => {
        await tx.q.updateTable('serverDatabase').set({ managed: 0 }).where('id', '=', made.id).execute()
      })
      return { made, params: { serverId, databaseId: made.id } }
    }
    const [one, two] = [await addServer(panel), await addServer(panel)]
    const forgotten = await recorded(one, 'forgotten')
    const goes = await recorded(two, 'goes')
    const dropped = await recorded(one, 'dropped')
    const adopted = await recorded(one, 'adopted')

    expect(await client.call(getServerDatabase, { params: forgotten.params })).toMatchObject({ managed: false })
    expect(await refusal(client.call(rotateServerDatabase, { params: forgotten.params }))).toMatchObject({
      code: 'DATABASE_NOT_MANAGED',
    })
    expect(await member.call(deleteServerDatabase, { params: forgotten.params })).toEqual({ dropped: false })
    const rows = await client.call(listAuditLogs, { query: { action: 'database.delete' } })
    expect(rows[0]?.details).toMatchObject({ name: 'forgotten', dropped: false })
    await client.call(deleteServer, { params: { serverId: two }, query: { force: 'true' } })
    const removals = await client.call(listAuditLogs, { query: { action: 'server.delete' } })
    expect(removals[0]?.details).toMatchObject({ databasesLeft: ['goes'] })
    // Their users get in by the same passwords, and nothing is left to be done on the host.
    for (const { made } of [forgotten, goes])
      expect((await (await signIn(made)).query('SELECT 1 FROM homes'))[0]).toEqual([])
    expect(await hostNow(panel, host.id)).toMatchObject({ databaseCount: 2, leftoverCount: 0 })

    const drop = { params: dropped.params, query: { drop: 'true' as const } }
    expect(await refusal(member.call(deleteServerDatabase, drop))).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await client.call(deleteServerDatabase, drop)).toEqual({ dropped: true })
    const forced = await client.call(rotateServerDatabase, { params: adopted.params, body: { force: true } })
    await (await signIn(forced)).end()
    expect(await refusal(member.call(adoptServerDatabase, { params: adopted.params }))).toMatchObject({
      code: 'PERMISSION_DENIED',
    })
    expect(await client.call(adoptServerDatabase, { params: adopted.params })).toMatchObject({ managed: true })
    const never = { params: adopted.params, query: { drop: 'false' as const } }
    expect(await refusal(client.call(deleteServerDatabase, never))).toMatchObject({ fields: ['query.drop'] })
    expect(await client.call(deleteServerDatabase, { params: adopted.params })).toEqual({ dropped: true })
    expect((await ours()).sort()).toEqual([forgotten, goes].flatMap(({ made }) => [made.name, made.username]).sort())
    for (const { made } of [forgotten, goes]) {
      await mariadb.ask(`DROP DATABASE ${made.name}`)
      await mariadb.ask(`DROP USER '${made.username}'@'%'`)
    }
    await client.call(deleteDatabaseHost, { params: { hostId: host.id } })
  })

  it.each([
    ['before the database', 'CREATE DATABASE', 'before', 0],
    ['with the answer to the database', 'CREATE DATABASE', 'answered', 1],
    ['between database and user', 'CREATE USER', 'before', 1],
    ['between database and rights', 'GRANT SELECT', 'before', 2],
    ['with the answer to the rights', 'GRANT SELECT', 'answered', 2],
  ] as const)('are undone when the host is cut off %s', async (_, text, when, left) => {
    const cable = await startSqlCable(mariadb.port)
    const host = await addHost(panel, { ...mariadb, port: cable.port }, { engine })
    const serverId = await addServer(panel, 1)
    cable.cutAt(text, when)
    const failed = await refusal(addDatabase(panel, serverId, { hostId: host.id }))
    expect(failed).toMatchObject({ code: 'DATABASE_PROVISION_FAILED', meta: { reason: 'connection' } })
    expect(await hostNow(panel, host.id)).toMatchObject({ databaseCount: 0, leftoverCount: 1 })
    expect(await ours()).toHaveLength(left)
    cable.mend()
    // A change of the host has what waits for it tried at once; else it would be in a quarter of a minute.
    await panel.client.call(updateDatabaseHost, { params: { hostId: host.id }, body: { maxDatabases: 5 } })
    await until('it is undone', async () => (await hostNow(panel, host.id)).leftoverCount === 0)
    expect(await ours()).toEqual([])
    await panel.client.call(deleteDatabaseHost, { params: { hostId: host.id } })
    await cable.close()
  })

  it('survive a crash of their host in the middle of a new password and of their removal', async () => {
    const cable = await startSqlCable(mariadb.port)
    const host = await addHost(panel, { ...mariadb, port: cable.port }, { engine })
    const serverId = await addServer(panel)
    const made = await addDatabase(panel, serverId, { hostId: host.id })
    const params = { serverId, databaseId: made.id }
    const look = () => panel.client.call(getServerDatabase, { params })
    cable.cutAt('ALTER USER', 'answered')
    expect(await refusal(panel.client.call(rotateServerDatabase, { params }))).toMatchObject({
      code: 'DATABASE_PROVISION_FAILED',
    })
    expect(await look()).toMatchObject({ state: 'rotating' })
    await mariadb.crash()
    cable.mend()
    await mariadb.restart()
    await panel.client.call(updateDatabaseHost, { params: { hostId: host.id }, body: { maxDatabases: 5 } })
    await until('the new password holds', async () => (await look()).state === 'ready')
    await (await signIn(await look())).end()
    await mariadb.crash()
    const removal = () => panel.client.call(deleteServerDatabase, { params })
    expect(await refusal(removal())).toMatchObject({
      code: 'DATABASE_PROVISION_FAILED',
      meta: { reason: 'connection' },
    })
    expect(await look()).toMatchObject({ state: 'deleting' })
    await mariadb.restart()
    await removal()
    expect(await refusal(look())).toMatchObject({ code: 'DATABASE_NOT_FOUND' })
    expect(await ours()).toEqual([])
    await cable.close()
  })

  it('tell what is wrong with their host', async () => {
    await mariadb.ask("CREATE USER 'powerless'@'127.0.0.1' IDENTIFIED BY 'nothing'")
    const serverId = await addServer(panel)
    const wrong = [
      ['denied', { ...mariadb, password: 'Wrong-horse' }, {}],
      ['tls', mariadb, { tls: 'require' as const }],
      ['dns', mariadb, { host: 'nobody-has-this-name.invalid', tls: 'off' as const }],
      ['refused', { ...mariadb, port: 1 }, {}],
    ] as const
    for (const [reason, service, more] of wrong) {
      const { id: hostId } = await addHost(panel, service, { engine, ...more })
      const answer = await panel.client.call(pingDatabaseHost, { params: { hostId } })
      expect(answer).toEqual({ ok: false, success: false, latencyMs: null, reason, error: expect.any(String) })
      await panel.client.call(deleteDatabaseHost, { params: { hostId } })
    }
    const powerless = await addHost(panel, { ...mariadb, username: 'powerless', password: 'nothing' }, { engine })
    const params = { hostId: powerless.id }
    const version = expect.stringMatching(/MariaDB/)
    expect(await panel.client.call(pingDatabaseHost, { params })).toMatchObject({ ok: true, version })
    const denied = await refusal(addDatabase(panel, serverId, params))
    expect(denied).toMatchObject({ code: 'DATABASE_PROVISION_FAILED', meta: { reason: 'denied' } })
    expect(await ours()).toEqual([])
  })

  it('are spoken to by TLS, to hosts that prove who they are where that is requested', async () => {
    const certificate = await makeCertificate()
    try {
      await mariadb.takeCertificate(certificate)
      const caCertificate = certificate.cert
      const ping = async (more: { tls: 'require' | 'verify'; caCertificate?: string; host?: string }) => {
        const { id: hostId } = await addHost(panel, mariadb, { engine, host: 'localhost', ...more })
        return panel.client.call(pingDatabaseHost, { params: { hostId } })
      }
      await until('TLS is on', async () => (await ping({ tls: 'require' })).ok)
      const unknown = { ok: false, reason: 'tls', error: expect.stringContaining('nobody who is trusted') }
      expect(await ping({ tls: 'verify' })).toMatchObject(unknown)
      expect(await ping({ tls: 'verify', caCertificate })).toMatchObject({ ok: true })
      const byAddress = await refusal(ping({ tls: 'verify', caCertificate, host: '127.0.0.1' }))
      expect(byAddress).toMatchObject({ code: 'VALIDATION_ERROR', fields: ['body.tls'] })
    } finally {
      await certificate.remove()
    }
  })
})
