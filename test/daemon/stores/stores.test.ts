import { randomBytes } from 'node:crypto'
import { request } from 'undici'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createStoreRequests } from '../../../src/agent/link/store-requests.ts'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import * as api from '../../../src/shared/api/backup-stores.ts'
import type { BackupStoreId } from '../../../src/shared/kernel/ids.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { type S3Service, startS3 } from '../../s3-service.ts'
import { GatewayStage } from '../gateway-stage.ts'
import { refusal } from '../place-panel.ts'

let panel: TestPanel
let s3: S3Service
let stage: GatewayStage
beforeAll(async () => {
  panel = await startPanel()
  s3 = await startS3()
  stage = new GatewayStage(panel)
})
afterAll(async () => {
  await stage.clear()
  await panel.close()
  await s3.close()
})

const LOCAL = 'bst_local' as BackupStoreId
const SECRET = 'The-secret-of-the-bucket'

let count = 0
function addS3(more: Record<string, unknown> = {}): Promise<api.BackupStore> {
  const { endpoint, bucket, accessKeyId, secretAccessKey } = s3
  const body = {
    kind: 's3' as const,
    name: `bucket ${++count}`,
    endpoint,
    bucket,
    accessKeyId,
    secretAccessKey,
    prefix: 'p',
  }
  return panel.client.call(api.createBackupStore, { body: { ...body, ...more } })
}

const storeId = (store: api.BackupStore) => ({ params: { storeId: store.id } })

describe('a backup store', () => {
  it('of each node is there from the beginning, and stays', async () => {
    const stores = await panel.client.call(api.listBackupStores, {})
    expect(stores.find(({ id }) => id === LOCAL)).toMatchObject({
      ...{
        name: 'local',
        kind: 'local',
        folder: null,
        isBuiltIn: true,
        isDefault: true,
        hasSecret: false,
        endpoint: null,
      },
    })
    const params = { storeId: LOCAL }
    for (const work of [
      () => panel.client.call(api.deleteBackupStore, { params }),
      () => panel.client.call(api.updateBackupStore, { params, body: { name: 'mine' } }),
      () => panel.client.call(api.updateBackupStore, { params, body: { folder: 'other' } }),
    ])
      expect(await refusal(work())).toMatchObject({ code: 'BACKUP_STORE_IN_USE' })
  })

  it('is added, shown without its secret, edited and removed, and its secret is written down nowhere', async () => {
    const store = await addS3({ name: 'offsite', secretAccessKey: SECRET })
    expect(store).toMatchObject({
      ...{
        kind: 's3',
        region: 'us-east-1',
        prefix: 'p',
        pathStyle: true,
        hasSecret: true,
        isDefault: false,
        backupCount: 0,
      },
    })
    expect(await panel.client.call(api.getBackupStore, storeId(store))).toEqual(store)
    const amazon = await addS3({ endpoint: 'https://s3.eu-central-1.amazonaws.com' })
    expect(amazon.pathStyle).toBe(false)
    expect(await refusal(addS3({ name: 'OFFSITE' }))).toMatchObject({ code: 'BACKUP_STORE_NAME_TAKEN' })
    const same = { ...storeId(store), body: { secretAccessKey: '********', region: 'us-east-1' } }
    expect(await panel.client.call(api.updateBackupStore, same)).toEqual(store)
    const other = { ...storeId(store), body: { secretAccessKey: `${SECRET}-2`, prefix: 'q/r' } }
    expect(await panel.client.call(api.updateBackupStore, other)).toMatchObject({
      prefix: 'q/r',
      accessKeyId: 'S3RVER',
    })
    const rows = await panel.client.call(listAuditLogs, { query: { resourceId: store.id } })
    expect(rows.map(({ action }) => action)).toEqual(['backup_store.update', 'backup_store.create'])
    await panel.client.call(api.deleteBackupStore, storeId(store))
    expect(await refusal(panel.client.call(api.getBackupStore, storeId(store)))).toMatchObject({
      code: 'BACKUP_STORE_NOT_FOUND',
    })
    const stored = await panel.app.core.db.read.selectFrom('backupStore').selectAll().execute()
    for (const text of [panel.log(), JSON.stringify(rows), JSON.stringify(stored)]) expect(text).not.toContain(SECRET)
  })

  it.each([
    ['kind', { kind: 'sftp' }],
    ['endpoint', { endpoint: undefined }],
    ['endpoint', { endpoint: 'https://s3.example.org/path' }],
    ['endpoint', { endpoint: 'https://user:pw@s3.example.org' }],
    ['endpoint', { endpoint: 'file:///etc' }],
    ['bucket', { bucket: '../other' }],
    ['prefix', { prefix: 'a/../b' }],
    ['prefix', { prefix: '/a' }],
    ['secretAccessKey', { secretAccessKey: undefined }],
    ['accessKeyId', { accessKeyId: 'a\nb' }],
    ['folder', { folder: 'nas' }],
  ])('with a wrong %s is refused: %o', async (field, body) => {
    expect(await refusal(addS3(body))).toMatchObject({
      code: 'VALIDATION_ERROR',
      fields: [`body.${field}`],
    })
  })

  it('of a folder takes a name, never a path', async () => {
    const add = (folder: string) =>
      panel.client.call(api.createBackupStore, { body: { kind: 'local', name: `folder ${folder}`, folder } })
    expect(await add('nas')).toMatchObject({ kind: 'local', folder: 'nas', isBuiltIn: false })
    for (const path of ['/etc', '..', 'a/b'])
      expect(await refusal(add(path))).toMatchObject({ code: 'VALIDATION_ERROR' })
  })

  it('cannot be added without a credential key', async () => {
    const keyless = await startPanel({ env: { PANEL_CREDENTIAL_KEY: undefined } })
    try {
      const { endpoint, bucket, accessKeyId, secretAccessKey } = s3
      const body = { kind: 's3' as const, name: 'bucket', endpoint, bucket, accessKeyId, secretAccessKey }
      const adding = keyless.client.call(api.createBackupStore, { body })
      expect(await refusal(adding)).toMatchObject({ code: 'CREDENTIAL_ENCRYPTION_KEY_MISSING' })
      const folder = { kind: 'local' as const, name: 'nas', folder: 'nas' }
      expect(await keyless.client.call(api.createBackupStore, { body: folder })).toMatchObject({ name: 'nas' })
    } finally {
      await keyless.close()
    }
  })
})

describe('where backups go', () => {
  it('is said by the panel, a location, a node or a server, and what is said holds its store', async () => {
    const { nodeId, locationId } = await stage.node()
    const node = { nodeId, locationId, key: '' }
    const server = await stage.server(node)
    const stores = await Promise.all([addS3(), addS3(), addS3(), addS3()])
    const [ofPanel, ofLocation, ofNode, ofServer] = stores as [
      api.BackupStore,
      api.BackupStore,
      api.BackupStore,
      api.BackupStore,
    ]
    const set = (scope: api.BackupStoreScope, store: api.BackupStore | null, id?: string) =>
      panel.client.call(api.setBackupStoreDefault, {
        body: { scope, storeId: store?.id ?? null, ...(id === undefined ? {} : { id }) },
      })
    await set('panel', ofPanel)
    await set('location', ofLocation, locationId)
    await set('node', ofNode, nodeId)
    await set('server', ofServer, server.id)
    const own = await panel.client.call(api.listBackupStoreDefaults, {})
    expect(own.map(({ scope, id, store }) => [scope, id, store.id])).toEqual([
      ['location', locationId, ofLocation.id],
      ['node', nodeId, ofNode.id],
      ['server', server.id, ofServer.id],
    ])
    for (const store of stores) {
      const gone = panel.client.call(api.deleteBackupStore, storeId(store))
      expect(await refusal(gone)).toMatchObject({ code: 'BACKUP_STORE_IN_USE' })
    }
    expect(await panel.client.call(api.getBackupStore, storeId(ofNode))).toMatchObject({
      defaultOf: { locations: 0, nodes: 1, servers: 0 },
    })
    expect(await panel.client.call(api.getBackupStore, storeId(ofPanel))).toMatchObject({ isDefault: true })
    await set('server', null, server.id)
    await set('node', null, nodeId)
    await set('location', null, locationId)
    await set('panel', null)
    for (const store of stores) await panel.client.call(api.deleteBackupStore, storeId(store))
    expect(await refusal(set('node', null, 'node_nowhere'))).toMatchObject({ code: 'NODE_NOT_FOUND' })
    expect(await refusal(set('node', null))).toMatchObject({ code: 'VALIDATION_ERROR' })
  })
})

describe('a store is tried', () => {
  it('by everything that backups do, and nothing is left there', async () => {
    const store = await addS3()
    const tried = await panel.client.call(api.testBackupStore, { ...storeId(store), body: {} })
    expect(tried).toMatchObject({ ok: true, freeBytes: null })
    expect(tried.checks.map(({ name, ok }) => [name, ok])).toEqual(
      ['put', 'get', 'range', 'list', 'multipart', 'delete'].map((name) => [name, true]),
    )
    const objects = await panel.app.stores.find(store.id)
    expect((await objects.list({})).objects).toEqual([])
  })

  it('and what is wrong is said', async () => {
    const wrong = await addS3({ secretAccessKey: SECRET })
    const tried = await panel.client.call(api.testBackupStore, { ...storeId(wrong), body: {} })
    expect(tried.ok).toBe(false)
    expect(tried.checks).toEqual([
      { from: 'panel', name: 'put', ok: false, latencyMs: null, error: expect.stringContaining('check the secret') },
    ])
    expect(JSON.stringify(tried) + panel.log()).not.toContain(SECRET)
    const local = await panel.client.call(api.testBackupStore, { params: { storeId: LOCAL }, body: {} })
    expect(local).toMatchObject({ ok: false, checks: [{ error: expect.stringContaining('name the node') }] })
  })

  it('from a node, which may be away or too old', async () => {
    const store = await addS3()
    const node = await stage.node()
    const test = () => panel.client.call(api.testBackupStore, { ...storeId(store), body: { nodeId: node.nodeId } })
    expect((await test()).checks.at(-1)).toMatchObject({
      from: 'node',
      ok: false,
      error: expect.stringMatching(/not connected|offline|away/i),
    })
    const old = await stage.connect(node)
    await old.enter()
    await stage.online(node.nodeId, true)
    expect((await test()).checks.at(-1)).toMatchObject({ from: 'node', ok: false })
  })
})

describe('an agent at its ticket', () => {
  const ownerId = 'srv_owner'
  const signal = new AbortController().signal
  /** Of the tickets, as whoever opens one ends it. */
  const closes: (() => void)[] = []
  afterEach(() => {
    for (const close of closes.splice(0)) close()
  })

  async function opened(mode: 'read' | 'write', work = signal) {
    const store = await addS3()
    const { nodeId, key } = await stage.node()
    const { ticket, close } = panel.app.storeTickets.open({ nodeId, storeId: store.id, ownerId, mode, signal: work })
    closes.push(close)
    const target = { url: panel.url, nodeId, nodeKey: key }
    const requests = createStoreRequests(target as never) // the rest is for other ways to be connected
    return { store, ticket, nodeId, key, ask: (operations: never) => requests.ask(ticket, operations, signal) }
  }

  it('writes in parts, lists, reads a range and removes, and never sees a credential', async () => {
    const { store, ask } = await opened('write')
    const body = randomBytes(3000)
    const [put, begun] = await ask([
      { op: 'put', key: 'b/one', bytes: body.length },
      { op: 'begin', key: 'b/two' },
    ] as never)
    const { url, headers } = put?.request ?? { url: '', headers: {} }
    expect((await request(url, { method: 'PUT', headers, body })).statusCode).toBe(200)
    const uploadId = begun?.uploadId
    const [part] = await ask([{ op: 'part', key: 'b/two', uploadId, number: 1, bytes: body.length }] as never)
    const sent = await request(part?.request?.url ?? '', { method: 'PUT', headers: part?.request?.headers ?? {}, body })
    const parts = [{ number: 1, etag: sent.headers['etag'] }]
    const answers = await ask([
      { op: 'complete', key: 'b/two', uploadId, parts },
      { op: 'head', key: 'b/nothing' },
      { op: 'get', key: 'b/one' },
    ] as never)
    expect(answers[1]).toEqual({ bytes: null })
    const [listed] = await ask([{ op: 'list', prefix: 'b/', after: null }] as never)
    expect(listed).toEqual({
      objects: [
        { key: 'b/one', bytes: 3000 },
        { key: 'b/two', bytes: 3000 },
      ],
      next: null,
    })
    const ranged = await request(answers[2]?.request?.url ?? '', { headers: { range: 'bytes=10-19' } })
    expect(Buffer.from(await ranged.body.arrayBuffer())).toEqual(body.subarray(10, 20))
    const objects = await panel.app.stores.find(store.id)
    expect((await objects.list({})).objects.map(({ key }) => key)).toEqual([
      `servers/${ownerId}/b/one`,
      `servers/${ownerId}/b/two`,
    ])
    await ask([
      { op: 'delete', key: 'b/one' },
      { op: 'delete', key: 'b/two' },
    ] as never)
    expect((await objects.list({})).objects).toEqual([])
    expect(JSON.stringify([put, begun, part, answers])).not.toContain(`"${s3.secretAccessKey}"`)
  })

  it('of another node, one whose work has ended, and none at all are not there', async () => {
    const ending = new AbortController()
    const { ticket, nodeId, key } = await opened('write', ending.signal)
    const other = await stage.node()
    const ask = (of: { nodeId: string; key: string }, at: string) =>
      createStoreRequests({ url: panel.url, nodeId: of.nodeId, nodeKey: of.key } as never).ask(
        at,
        [{ op: 'head', key: 'a' }],
        signal,
      )
    const gone = { code: 'STORE_FAILED', message: expect.stringContaining('no such ticket') }
    await expect(ask(other, ticket)).rejects.toMatchObject(gone)
    await expect(ask({ nodeId, key }, 'x'.repeat(43))).rejects.toMatchObject(gone)
    expect(await ask({ nodeId, key }, ticket)).toEqual([{ bytes: null }])
    ending.abort()
    await expect(ask({ nodeId, key }, ticket)).rejects.toMatchObject(gone)
  })

  it('for reading can change nothing', async () => {
    const { ask } = await opened('read')
    expect(await ask([{ op: 'head', key: 'a' }] as never)).toEqual([{ bytes: null }])
    const writes = [
      { op: 'put', key: 'a', bytes: 1 },
      { op: 'delete', key: 'a' },
      { op: 'begin', key: 'a' },
      { op: 'part', key: 'a', uploadId: 'u', number: 1, bytes: 1 },
      { op: 'complete', key: 'a', uploadId: 'u', parts: [{ number: 1, etag: 'e' }] },
      { op: 'abort', key: 'a', uploadId: 'u' },
    ]
    for (const write of writes) {
      await expect(ask([{ op: 'head', key: 'a' }, write] as never)).rejects.toThrow('for reading')
    }
  })

  it.each(['../other', 'a/../../x', '/etc', 'a//b', '.hidden', 'a\\b', 'a b', '%2e%2e/x', 'x'.repeat(2000)])(
    'asks for nothing outside of its prefix: %s',
    async (path) => {
      const { ask } = await opened('write')
      await expect(ask([{ op: 'put', key: path, bytes: 1 }] as never)).rejects.toMatchObject({ code: 'STORE_FAILED' })
    },
  )

  it('hears what is wrong with the store', async () => {
    const { ask } = await opened('write')
    s3.fault = () => ({ kind: 'answer', status: 403, body: '<Error><Code>AccessDenied</Code></Error>' })
    await expect(ask([{ op: 'head', key: 'a' }] as never)).rejects.toMatchObject({
      code: 'STORE_FAILED',
      message: expect.stringContaining('denies it'),
    })
    s3.fault = () => undefined
  })
})
