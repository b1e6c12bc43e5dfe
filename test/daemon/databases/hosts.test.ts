import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import {
  createDatabaseHost,
  deleteDatabaseHost,
  getDatabaseHost,
  listDatabaseHosts,
  pingDatabaseHost,
  updateDatabaseHost,
} from '../../../src/shared/api/database-hosts.ts'
import { deleteServerDatabase, listServerDatabases } from '../../../src/shared/api/databases.ts'
import { createServer, getServer, updateServer } from '../../../src/shared/api/servers.ts'
import { createTemplate } from '../../../src/shared/api/templates.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { type PostgresPeer, startPostgresPeer } from '../../postgres-peer.ts'
import { refusal } from '../place-panel.ts'
import { addDatabase, addHost, addServer, hostNow } from './stage.ts'

let panel: TestPanel
let peer: PostgresPeer
beforeAll(async () => {
  panel = await startPanel()
  peer = await startPostgresPeer()
})
afterAll(() => panel.close())

const engine = 'postgresql' as const
const BODY = { host: 'db.example.org', username: 'panel', password: 'The-password-of-the-host' }
const service = () => ({ port: peer.port, username: 'panel', password: 'any' })

describe('a database host', () => {
  it('is added with the port of its engine, shown without its password, edited, and removed', async () => {
    const mysql = await panel.client.call(createDatabaseHost, { body: { ...BODY, name: 'maria' } })
    expect(mysql).toMatchObject({ engine: 'mysql', port: 3306, tls: 'auto', hasPassword: true, databaseCount: 0 })
    const pg = await panel.client.call(createDatabaseHost, { body: { ...BODY, name: 'elephant', engine } })
    expect(pg).toMatchObject({ engine, port: 5432, maxDatabases: null, leftoverCount: 0 })
    const params = { hostId: pg.id }
    const hosts = await panel.client.call(listDatabaseHosts, { query: { search: 'eleph' } })
    expect(hosts).toEqual([pg])
    expect(JSON.stringify(hosts)).not.toContain(BODY.password)
    const taken = panel.client.call(updateDatabaseHost, { params, body: { name: 'maria' } })
    expect(await refusal(taken)).toMatchObject({ code: 'ADMIN_DATABASE_HOST_NAME_TAKEN' })
    // Nobody tells two names apart that differ in case alone; its own name a host may write otherwise.
    const alike = panel.client.call(createDatabaseHost, { body: { ...BODY, name: 'MARIA' } })
    expect(await refusal(alike)).toMatchObject({ code: 'ADMIN_DATABASE_HOST_NAME_TAKEN' })
    const renamed = panel.client.call(updateDatabaseHost, { params, body: { name: 'Maria' } })
    expect(await refusal(renamed)).toMatchObject({ code: 'ADMIN_DATABASE_HOST_NAME_TAKEN' })
    const own = await panel.client.call(updateDatabaseHost, { params: { hostId: mysql.id }, body: { name: 'Maria' } })
    expect(own.name).toBe('Maria')
    const same = { name: 'elephant', password: '********', port: 5432 }
    expect(await panel.client.call(updateDatabaseHost, { params, body: same })).toEqual(pg)
    expect(await panel.client.call(updateDatabaseHost, { params, body: { password: BODY.password } })).toEqual(pg)
    const edited = await panel.client.call(updateDatabaseHost, {
      params,
      body: { host: '2001:db8::1', password: 'new one' },
    })
    expect(edited).toMatchObject({ host: '2001:db8::1', username: 'panel' })
    const query = { action: 'database_host.update', resourceId: pg.id }
    const [row, ...more] = await panel.client.call(listAuditLogs, { query })
    expect(more).toEqual([])
    const [host, password] = [
      { before: 'db.example.org', after: '2001:db8::1' },
      { before: '********', after: '********' },
    ]
    expect(row?.details).toEqual({ host, password })
    for (const { id: hostId } of [mysql, pg]) await panel.client.call(deleteDatabaseHost, { params: { hostId } })
    expect(await refusal(panel.client.call(getDatabaseHost, { params }))).toMatchObject({
      code: 'ADMIN_DATABASE_HOST_NOT_FOUND',
    })
  })

  it('takes certificates only', async () => {
    const caCertificate = '-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n'
    const made = panel.client.call(createDatabaseHost, { body: { ...BODY, name: 'maria', caCertificate } })
    expect(await refusal(made)).toMatchObject({ code: 'VALIDATION_ERROR', fields: ['body.caCertificate'] })
  })

  it('needs a key for its password', async () => {
    const keyless = await startPanel({ env: { PANEL_CREDENTIAL_KEY: undefined } })
    try {
      const made = keyless.client.call(createDatabaseHost, { body: { ...BODY, name: 'maria' } })
      expect(await refusal(made)).toMatchObject({ code: 'CREDENTIAL_ENCRYPTION_KEY_MISSING' })
      expect(await keyless.client.call(listDatabaseHosts, {})).toEqual([])
    } finally {
      await keyless.close()
    }
  })

  it('is refused while it is too old', async () => {
    const old = await startPostgresPeer({ version: '9.6.24' })
    const { id: hostId } = await addHost(panel, { ...service(), port: old.port }, { engine })
    const answer = await panel.client.call(pingDatabaseHost, { params: { hostId } })
    expect(answer).toMatchObject({ ok: false, reason: 'version', error: expect.stringContaining('13 is needed') })
    await panel.client.call(deleteDatabaseHost, { params: { hostId } })
  })

  it('stays while it has databases', async () => {
    const host = await addHost(panel, service(), { engine })
    const serverId = await addServer(panel)
    const { id: databaseId } = await addDatabase(panel, serverId, { hostId: host.id })
    const removal = (query: { force?: 'true' }) =>
      panel.client.call(deleteDatabaseHost, { params: { hostId: host.id }, query })
    for (const query of [{}, { force: 'true' as const }]) {
      expect(await refusal(removal(query))).toMatchObject({
        code: 'ADMIN_DATABASE_HOST_IN_USE',
        meta: { databaseCount: 1 },
      })
    }
    // It moves to where nobody is: what is still to be removed there keeps the host, unless it is left behind.
    await panel.client.call(updateDatabaseHost, { params: { hostId: host.id }, body: { port: 1 } })
    const deletion = panel.client.call(deleteServerDatabase, { params: { serverId, databaseId } })
    expect(await refusal(deletion)).toMatchObject({ code: 'DATABASE_PROVISION_FAILED', meta: { reason: 'refused' } })
    expect(await hostNow(panel, host.id)).toMatchObject({ databaseCount: 0, leftoverCount: 1 })
    expect(await refusal(removal({}))).toMatchObject({ code: 'ADMIN_DATABASE_HOST_IN_USE', meta: { leftoverCount: 1 } })
    await removal({ force: 'true' })
    expect(await panel.client.call(listServerDatabases, { params: { serverId } })).toEqual([])
  })
})

describe('the number of databases', () => {
  it('of a server is kept to by many at a time', async () => {
    const host = await addHost(panel, service(), { engine })
    const serverId = await addServer(panel, 3)
    const made = await Promise.allSettled(
      Array.from({ length: 12 }, () => addDatabase(panel, serverId, { hostId: host.id })),
    )
    expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
    const reasons = made.flatMap((one) => (one.status === 'rejected' ? [Reflect.get(Object(one.reason), 'code')] : []))
    expect(reasons).toEqual(Array(9).fill('DATABASE_LIMIT_REACHED'))
    expect(peer.asked.filter((sql) => sql.startsWith('CREATE DATABASE')).length).toBeGreaterThanOrEqual(3)
    const databases = await panel.client.call(listServerDatabases, { params: { serverId } })
    expect(databases).toHaveLength(3)
    expect(new Set(databases.map(({ name }) => name)).size).toBe(3)
    const [first] = databases
    await panel.client.call(deleteServerDatabase, { params: { serverId, databaseId: first?.id ?? '' } })
    await addDatabase(panel, serverId, { hostId: host.id })
  })

  it('of a host is kept to, and the emptiest is chosen where none is named', async () => {
    const [full, free] = [
      await addHost(panel, service(), { engine, maxDatabases: 1 }),
      await addHost(panel, service(), { engine }),
    ]
    const serverId = await addServer(panel)
    await addDatabase(panel, serverId, { hostId: full.id })
    const second = await refusal(addDatabase(panel, serverId, { hostId: full.id }))
    expect(second).toMatchObject({ code: 'DATABASE_LIMIT_REACHED', meta: { scope: 'host', limit: 1 } })
    expect((await addDatabase(panel, serverId, {})).hostId).toBe(free.id)
  })

  it('is none by default, or what the template says, and an operator’s to raise', async () => {
    const { nodeId, locationId, client } = panel
    const features = { databaseAllocation: 2 }
    const template = await client.call(createTemplate, {
      body: { name: 'With databases', startup: 'sleep 1', features },
    })
    const size = { allocatedMemoryMb: 16, allocatedCpuCores: 0.1, allocatedDiskMb: 16 }
    const request = { name: 'two', templateId: template.id, nodeId, locationId, primaryPort: 20_999, ...size }
    expect(await client.call(createServer, { body: request })).toMatchObject({ databaseAllocation: 2 })
    const serverId = await addServer(panel, 0)
    expect(await refusal(addDatabase(panel, serverId, {}))).toMatchObject({ code: 'DATABASE_DISABLED' })
    await panel.client.call(updateServer, { params: { serverId }, body: { databaseAllocation: 1 } })
    expect(await panel.client.call(getServer, { params: { serverId } })).toMatchObject({ databaseAllocation: 1 })
    await addDatabase(panel, serverId, {})
  })
})
