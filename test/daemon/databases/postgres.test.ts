import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey } from '../../../src/shared/api/api-keys.ts'
import { deleteDatabaseHost, pingDatabaseHost, updateDatabaseHost } from '../../../src/shared/api/database-hosts.ts'
import {
  createServerDatabase,
  deleteServerDatabase,
  getServerDatabase,
  listServerDatabases,
  rotateServerDatabase,
} from '../../../src/shared/api/databases.ts'
import { deleteServer } from '../../../src/shared/api/servers.ts'
import { listSystemErrors } from '../../../src/shared/api/system-errors.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { NO_POSTGRES, startPostgres, type TestPostgres } from '../../postgres.ts'
import { startSqlCable } from '../../sql-cable.ts'
import { makeCertificate } from '../mail/mail-server.ts'
import { refusal } from '../place-panel.ts'
import { addDatabase, addHost, addServer, hostNow, until } from './stage.ts'

describe.skipIf(NO_POSTGRES !== undefined)(
  `databases on a real PostgreSQL${NO_POSTGRES ? `: ${NO_POSTGRES}` : ''}`,
  () => {
    let panel: TestPanel
    let postgres: TestPostgres
    let home: string
    beforeAll(async () => {
      home = await mkdtemp(join(tmpdir(), 'panel-databases-'))
      const [started, service] = await Promise.all([startPanel({ dataDir: home }), startPostgres()])
      panel = started
      postgres = service
    }, 60_000)
    afterAll(async () => {
      await panel.close()
      await postgres.close()
      await rm(home, { recursive: true })
    })

    const engine = 'postgresql' as const
    const names = async (sql: string): Promise<unknown[]> => (await postgres.ask(sql)).map(({ name }) => name)
    const ours = async () => [
      ...(await names(
        "SELECT datname AS name FROM pg_database WHERE datname NOT LIKE 'template%' AND datname <> 'postgres'",
      )),
      ...(await names("SELECT rolname AS name FROM pg_roles WHERE rolname LIKE 'srv%'")),
    ]
    const signIn = (made: { username: string; password: string | null; name: string }, database = made.name) =>
      postgres.connect({ user: made.username, password: made.password ?? '', database })
    const state = async (serverId: string, databaseId: string) =>
      panel.client.call(getServerDatabase, { params: { serverId, databaseId } })

    it('are made with a user who may use his own alone, get new passwords, and leave nothing behind', async () => {
      const host = await addHost(panel, postgres, { engine })
      const [one, two] = [await addServer(panel), await addServer(panel)]
      const made = await addDatabase(panel, one, { hostId: host.id })
      expect(made).toMatchObject({
        name: expect.stringMatching(/^srv_[a-z2-7]{16}$/),
        port: postgres.port,
        engine,
        remote: '%',
        state: 'ready',
      })
      const other = await addDatabase(panel, two, { hostId: host.id, name: 'SHOP' })
      expect(other.name).toBe('shop')
      const client = await signIn(made)
      await client.query('CREATE TABLE things (a int)')
      await expect(client.query('CREATE DATABASE more')).rejects.toThrow('permission denied')
      await expect(signIn(made, 'shop')).rejects.toThrow('permission denied')
      expect((await hostNow(panel, host.id)).databaseCount).toBe(2)
      const params = { serverId: one, databaseId: made.id }
      const rotated = await panel.client.call(rotateServerDatabase, { params })
      expect(rotated.password).not.toBe(made.password)
      await expect(signIn(made)).rejects.toThrow('password authentication failed')
      await (await signIn(rotated)).end()
      expect(await panel.client.call(listServerDatabases, { params: { serverId: one } })).toEqual([rotated])
      const ended = new Promise((resolve) => client.once('end', resolve))
      await panel.client.call(deleteServerDatabase, { params })
      await ended
      await panel.client.call(deleteServer, { params: { serverId: two }, query: { force: 'true' } })
      await until('nothing of the deleted server is left', async () => (await ours()).length === 0)
      await until('nothing waits', async () => (await hostNow(panel, host.id)).leftoverCount === 0)
      await panel.client.call(deleteDatabaseHost, { params: { hostId: host.id } })
    })

    it('keep passwords sealed at rest, out of the logs of daemon and host, and from callers who may not read them', async () => {
      const host = await addHost(panel, postgres, { engine })
      const serverId = await addServer(panel)
      const made = await addDatabase(panel, serverId, { hostId: host.id })
      const body = { name: 'maker', permissions: ['database.create', 'database.rotate'] }
      const maker = panel.as((await panel.client.call(createApiKey, { body })).key)
      const blind = await maker.call(createServerDatabase, { params: { serverId }, body: {} })
      expect(blind).toMatchObject({ password: null })
      expect(await maker.call(rotateServerDatabase, { params: { serverId, databaseId: blind.id } })).toMatchObject({
        password: null,
      })
      const folder = join(panel.dataDir, 'db')
      const stored = await Promise.all((await readdir(folder)).map((name) => readFile(join(folder, name), 'latin1')))
      const places = [...stored, panel.log()].join('\n')
      expect(places).toContain(made.name)
      expect(places.includes(postgres.password)).toBe(false)
      expect(made.password?.length).toBe(32)
      const hostLog = await postgres.log()
      expect(hostLog).toContain(`CREATE ROLE "${made.username}"`)
      for (const text of [places, hostLog]) expect(text.includes(made.password ?? '')).toBe(false)
      for (const { id: databaseId } of [made, blind]) {
        await panel.client.call(deleteServerDatabase, { params: { serverId, databaseId } })
      }
      await panel.client.call(deleteDatabaseHost, { params: { hostId: host.id } })
    })

    it('of a stranger are not touched, and names are taken once', async () => {
      const host = await addHost(panel, postgres, { engine })
      const serverId = await addServer(panel)
      await postgres.ask('CREATE DATABASE wordpress')
      expect(await refusal(addDatabase(panel, serverId, { hostId: host.id, name: 'wordpress' }))).toMatchObject({
        code: 'CONFLICT',
      })
      expect(await ours()).toEqual(['wordpress'])
      expect(await panel.client.call(listServerDatabases, { params: { serverId } })).toEqual([])
      await postgres.ask('DROP DATABASE wordpress')
      const all = await Promise.allSettled(
        [1, 2, 3].map(() => addDatabase(panel, serverId, { hostId: host.id, name: 'twice' })),
      )
      expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
      const remote = addDatabase(panel, serverId, { hostId: host.id, remote: '10.0.0.1' })
      expect(await refusal(remote)).toMatchObject({ code: 'VALIDATION_ERROR', fields: ['body.remote'] })
      await panel.client.call(deleteServer, { params: { serverId }, query: { force: 'true' } })
      await until('all is gone', async () => (await ours()).length === 0)
    })

    it.each([
      ['before the database', 'CREATE DATABASE', 'before'],
      ['with the answer to the database', 'CREATE DATABASE', 'answered'],
      ['before the rights', 'REVOKE ALL', 'before'],
      ['with the answer to the rights', 'REVOKE ALL', 'answered'],
    ] as const)('are undone when the host is cut off %s', async (_, text, when) => {
      const cable = await startSqlCable(postgres.port)
      const host = await addHost(panel, { ...postgres, port: cable.port }, { engine })
      const serverId = await addServer(panel, 1)
      cable.cutAt(text, when)
      const failed = await refusal(addDatabase(panel, serverId, { hostId: host.id, name: 'half_made' }))
      expect(failed).toMatchObject({ code: 'DATABASE_PROVISION_FAILED', meta: { reason: 'connection' } })
      expect(await hostNow(panel, host.id)).toMatchObject({ databaseCount: 0, leftoverCount: 1 })
      expect((await ours()).length).toBeGreaterThan(0)
      const inUse = await refusal(panel.client.call(deleteDatabaseHost, { params: { hostId: host.id } }))
      expect(inUse).toMatchObject({ code: 'ADMIN_DATABASE_HOST_IN_USE', meta: { leftoverCount: 1 } })
      await until('it is told in the system errors', async () => {
        const reported = await panel.client.call(listSystemErrors, { query: { component: 'databases' } })
        return reported.some(({ metadata }) => metadata?.['hostId'] === host.id)
      })
      cable.mend()
      // A change of the host has what waits for it tried at once; else it would be in a quarter of a minute.
      await panel.client.call(updateDatabaseHost, { params: { hostId: host.id }, body: { maxDatabases: 5 } })
      await until('it is undone', async () => (await hostNow(panel, host.id)).leftoverCount === 0)
      expect(await ours()).toEqual([])
      const { id: databaseId } = await addDatabase(panel, serverId, { hostId: host.id, name: 'half_made' })
      await panel.client.call(deleteServerDatabase, { params: { serverId, databaseId } })
      await panel.client.call(deleteDatabaseHost, { params: { hostId: host.id } })
      await cable.close()
    })

    it('have one password that holds after a rotation whose answer was lost', async () => {
      const cable = await startSqlCable(postgres.port)
      const host = await addHost(panel, { ...postgres, port: cable.port }, { engine })
      const serverId = await addServer(panel)
      const made = await addDatabase(panel, serverId, { hostId: host.id })
      const params = { serverId, databaseId: made.id }
      cable.cutAt('ALTER ROLE', 'answered')
      const rotation = () => panel.client.call(rotateServerDatabase, { params })
      expect(await refusal(rotation())).toMatchObject({ code: 'DATABASE_PROVISION_FAILED' })
      expect(await state(serverId, made.id)).toMatchObject({ state: 'rotating' })
      expect(await refusal(rotation())).toMatchObject({ code: 'CONFLICT', meta: { state: 'rotating' } })
      cable.mend()
      await panel.client.call(updateDatabaseHost, { params: { hostId: host.id }, body: { maxDatabases: 5 } })
      await until('the new one holds', async () => (await state(serverId, made.id)).state === 'ready')
      const after = await state(serverId, made.id)
      expect(after.password).not.toBe(made.password)
      await (
        await postgres.connect({ user: after.username, password: after.password ?? '', database: after.name })
      ).end()
      // Without a connection nothing can have changed: the old one stays.
      cable.cutAt('', 'before')
      expect(await refusal(rotation())).toMatchObject({ code: 'DATABASE_PROVISION_FAILED' })
      expect(await state(serverId, made.id)).toEqual(after)
      cable.mend()
      await panel.client.call(deleteServerDatabase, { params })
      await cable.close()
    })

    it('of a deleted server outlive an absence of their host and of the daemon, and are removed then', async () => {
      const cable = await startSqlCable(postgres.port)
      const host = await addHost(panel, { ...postgres, port: cable.port }, { engine })
      const serverId = await addServer(panel)
      const made = await addDatabase(panel, serverId, { hostId: host.id })
      const second = await addDatabase(panel, serverId, { hostId: host.id })
      cable.cutAt('', 'before')
      const params = { serverId, databaseId: second.id }
      const removal = () => panel.client.call(deleteServerDatabase, { params })
      expect(await refusal(removal())).toMatchObject({ code: 'DATABASE_PROVISION_FAILED' })
      expect(await state(serverId, second.id)).toMatchObject({ state: 'deleting' })
      expect(await refusal(removal())).toMatchObject({ code: 'DATABASE_PROVISION_FAILED' })
      await panel.client.call(deleteServer, { params: { serverId }, query: { force: 'true' } })
      await until('both wait', async () => (await hostNow(panel, host.id)).leftoverCount === 2)
      expect(await ours()).toEqual(expect.arrayContaining([made.name, second.name]))
      await panel.close()
      cable.mend()
      panel = await startPanel({ dataDir: home })
      await until('both are removed', async () => (await ours()).length === 0)
      await until('nothing waits', async () => (await hostNow(panel, host.id)).leftoverCount === 0)
      await cable.close()
    })

    it('tell what is wrong with their host', async () => {
      await postgres.ask("CREATE ROLE powerless LOGIN PASSWORD 'nothing'")
      const powerless = { ...postgres, username: 'powerless', password: 'nothing' }
      const wrong = [
        ['denied', { ...postgres, password: 'Wrong-horse' }, {}],
        ['tls', postgres, { tls: 'require' as const }],
        ['dns', postgres, { host: 'nobody-has-this-name.invalid', tls: 'off' as const }],
        ['refused', { ...postgres, port: 1 }, {}],
      ] as const
      const serverId = await addServer(panel)
      for (const [reason, service, more] of wrong) {
        const { id: hostId } = await addHost(panel, service, { engine, ...more })
        const answer = await panel.client.call(pingDatabaseHost, { params: { hostId } })
        expect(answer).toEqual({ ok: false, success: false, latencyMs: null, reason, error: expect.any(String) })
        expect(await refusal(addDatabase(panel, serverId, { hostId }))).toMatchObject({ meta: { reason } })
        // The host has never heard of it: nothing is left to undo, and nothing keeps the host.
        await panel.client.call(deleteDatabaseHost, { params: { hostId } })
      }
      const { id: hostId } = await addHost(panel, powerless, { engine })
      expect(await panel.client.call(pingDatabaseHost, { params: { hostId } })).toMatchObject({
        ok: true,
        success: true,
        version: expect.stringMatching(/^PostgreSQL 1\d/),
        latencyMs: expect.any(Number),
      })
      expect(await refusal(addDatabase(panel, serverId, { hostId }))).toMatchObject({
        code: 'DATABASE_PROVISION_FAILED',
        meta: { reason: 'denied' },
      })
      expect(await ours()).toEqual([])
      await panel.client.call(deleteDatabaseHost, { params: { hostId } })
    })

    it('are spoken to by TLS, to hosts that prove who they are where that is requested', async () => {
      const certificate = await makeCertificate()
      try {
        await postgres.takeCertificate(certificate)
        const caCertificate = certificate.cert
        const ping = async (more: { tls: 'require' | 'verify'; caCertificate?: string; host?: string }) => {
          const { id: hostId } = await addHost(panel, postgres, { engine, host: 'localhost', ...more })
          return panel.client.call(pingDatabaseHost, { params: { hostId } })
        }
        await until('TLS is on', async () => (await ping({ tls: 'require' })).ok)
        const unknown = { ok: false, reason: 'tls', error: expect.stringContaining('nobody who is trusted') }
        expect(await ping({ tls: 'verify' })).toMatchObject(unknown)
        expect(await ping({ tls: 'verify', caCertificate })).toMatchObject({ ok: true })
        expect(await ping({ tls: 'verify', caCertificate, host: '127.0.0.1' })).toMatchObject({ ok: true })
      } finally {
        await certificate.remove()
      }
    })
  },
)
