import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { StoreTickets } from '../../../src/daemon/gateway/store-tickets.ts'
import { createS3Store } from '../../../src/daemon/object-store/s3-store.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import * as backups from '../../../src/shared/protocol/backups.ts'
import { type S3Service, startS3 } from '../../s3-service.ts'
import { BackupStage, creation, freshTicket, restoring } from './backup-stage.ts'

const NODE = 'nod_one'
/** More than one part of an upload. */
const LARGE = randomBytes(9 * 1024 * 1024)
const SLOW_DOWN = '<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>'

let stage: BackupStage
let s3: S3Service
let tickets: StoreTickets
let numbers = 0

beforeAll(async () => {
  s3 = await startS3()
  const { endpoint, bucket, accessKeyId, secretAccessKey } = s3
  const place = {
    endpoint,
    bucket,
    accessKeyId,
    secretAccessKey,
    region: 'us-east-1',
    prefix: 'panel',
    pathStyle: true,
  }
  const store = createS3Store(place, systemClock)
  tickets = new StoreTickets({ objects: async () => store })
  stage = await BackupStage.enter()
  stage.stage.peer.stores = (ticket, body) => tickets.ask(NODE, ticket, backups.StoreRequest.parse(body))
  writeFileSync(join(stage.folder, 'large'), LARGE)
  writeFileSync(join(stage.folder, 'small'), 'small')
})
afterAll(async () => {
  await stage.leave()
  await s3.close()
})
afterEach(() => {
  s3.fault = () => undefined
})

function name(kind: backups.BackupKind, mode: 'read' | 'write' = 'write') {
  const grant = { nodeId: NODE, storeId: 'bst_s3', ownerId: stage.serverId, mode, signal: new AbortController().signal }
  const store = { kind: 's3', storeId: 'bst_s3', ticket: tickets.open(grant).ticket } as const
  return { store, ownerId: stage.serverId, backupId: `bak_${++numbers}`, kind }
}

async function left(): Promise<string[]> {
  const { store, ownerId } = name('archive')
  const { backups: stored } = await stage.ask(backups.listStored, { store, ownerId, after: null, limit: 100 })
  return stored.map(({ backupId }) => backupId)
}

describe.each(['archive', 'incremental'] as const)('a backup of kind %s in an object store', (kind) => {
  test('is made, listed, checked, read in part, restored and deleted', async () => {
    const backup = name(kind)
    const made = await stage.ask(backups.createBackup, { serverId: stage.serverId, ...backup, ...creation() })
    expect(made).toMatchObject({ entries: 2, bytes: LARGE.length + 5 })
    // Buckets with object lock insist on it.
    const puts = s3.seen.filter(({ method }) => method === 'PUT')
    expect(puts.filter(({ headers }) => headers['content-md5'] === undefined)).toEqual([])
    expect(await left()).toEqual([backup.backupId])
    const reading = { ...backup, store: name(kind, 'read').store }
    const verify = { store: reading.store, ownerId: stage.serverId, backups: [{ backupId: backup.backupId, kind }] }
    expect(await stage.ask(backups.verifyBackups, { ...verify, deep: true })).toMatchObject({ damaged: [] })
    const ticket = freshTicket()
    const what = { content: 'file', path: '/large', compression: 'none', offset: 5_000_000, length: 1000, ticket }
    await stage.ask(backups.deliverBackup, { ...reading, ...what })
    expect(stage.stage.peer.delivered.get(ticket)).toEqual(LARGE.subarray(5_000_000, 5_001_000))
    rmSync(join(stage.folder, 'large'))
    await stage.ask(backups.restoreBackup, { serverId: stage.serverId, ...reading, ...restoring() })
    expect(readFileSync(join(stage.folder, 'large')).equals(LARGE)).toBe(true)
    expect((await stage.ask(backups.deleteBackup, backup)).freedBytes).toBeGreaterThan(LARGE.length)
    expect(await left()).toEqual([])
  })

  test('is not asked for again before the time that the store says', async () => {
    const triedMs: number[] = []
    s3.fault = ({ method }) => {
      if (method !== 'PUT') return undefined
      triedMs.push(performance.now())
      return triedMs.length === 1 ? { kind: 'answer', status: 503, headers: { 'retry-after': '1' } } : undefined
    }
    const backup = name(kind)
    await stage.ask(backups.createBackup, { serverId: stage.serverId, ...backup, ...creation() })
    await stage.ask(backups.deleteBackup, backup)
    const [first = 0, second = 0] = triedMs
    expect(second - first).toBeGreaterThan(950)
  })

  // Waits between attempts take their time.
  const tags = kind === 'incremental' ? ['long'] : []
  test('is made and restored while the store cuts, is slow and has no time', { tags }, async () => {
    const faults = [
      { kind: 'cut', when: 'before' },
      { kind: 'answer', status: 503, body: SLOW_DOWN },
      { kind: 'cut', when: 'after' },
      { kind: 'answer', status: 500 },
      { kind: 'cut body', after: 100_000 },
      { kind: 'slow', bytes: 1_000_000, pauseMs: 1 },
    ] as const
    let asked = 0
    s3.fault = () => (asked++ % 2 === 0 ? faults[(asked >> 1) % faults.length] : undefined)
    const backup = name(kind)
    await stage.ask(backups.createBackup, { serverId: stage.serverId, ...backup, ...creation() })
    rmSync(join(stage.folder, 'large'))
    await stage.ask(backups.restoreBackup, { serverId: stage.serverId, ...backup, ...restoring() })
    const found = createHash('sha256')
      .update(readFileSync(join(stage.folder, 'large')))
      .digest('hex')
    expect(found).toBe(createHash('sha256').update(LARGE).digest('hex'))
    expect(asked).toBeGreaterThan(10)
    await stage.ask(backups.deleteBackup, backup)
  })

  test('that the store denies says which right is missing, whatever has become of the upload since', async () => {
    const answered = async (fault: S3Service['fault']) => {
      s3.fault = fault
      const asked = { op: 'backups.create', serverId: stage.serverId, ...name(kind), ...creation() }
      const { error } = await stage.stage.peer.request(asked as never) // as a daemon sends it
      s3.fault = () => undefined
      return error?.message
    }
    const denied = { kind: 'answer', status: 403, body: '<Error><Code>AccessDenied</Code></Error>' } as const
    const gone = { kind: 'answer', status: 404, body: '<Error><Code>NoSuchUpload</Code></Error>' } as const
    let parts = 0
    const part = await answered(({ url }) => (!url.includes('partNumber=') ? undefined : parts++ === 0 ? denied : gone))
    expect(part).toMatch(/403 AccessDenied.*s3:PutObject/)
    const completed = await answered(({ method, url }) =>
      method === 'HEAD' || (method === 'POST' && url.includes('uploadId=')) ? denied : undefined,
    )
    expect(completed).toMatch(/denies it for the bucket backups in us-east-1; give the access key s3:PutObject/)
    expect(await left()).toEqual([])
  })

  test('that cannot be stored says why, and leaves nothing behind', async () => {
    const backup = name(kind)
    // The store takes all but the last part of the content.
    s3.fault = ({ url }) =>
      url.includes('partNumber=2')
        ? { kind: 'answer', status: 400, body: '<Error><Code>EntityTooLarge</Code></Error>' }
        : undefined
    const reply = await stage.stage.peer.request({
      op: 'backups.create',
      serverId: stage.serverId,
      ...backup,
      ...creation(),
    } as never) // as a daemon sends it
    expect(reply.error).toMatchObject({
      code: 'STORE_FAILED',
      message: 'The store has refused it (400 EntityTooLarge)',
    })
    s3.fault = () => undefined
    expect(await left()).toEqual([])
    expect([...s3.unfinished]).toEqual([])
    const { freedBytes, storedBytes } = await stage.ask(backups.pruneBackups, {
      store: backup.store,
      ownerId: stage.serverId,
      keep: [],
      dryRun: true,
    })
    expect({ freedBytes, storedBytes }).toEqual({ freedBytes: 0, storedBytes: 0 })
  })
})

test('what an agent that was ended has begun is taken away by the next backup', async () => {
  const grant = { nodeId: NODE, storeId: 'bst_s3', ownerId: stage.serverId, mode: 'write' as const }
  const { ticket } = tickets.open({ ...grant, signal: new AbortController().signal })
  await tickets.ask(NODE, ticket, { operations: [{ op: 'begin', key: 'backups/bak_lost/files.tar.gz' }] })
  expect(s3.unfinished.size).toBe(1)
  const backup = name('archive')
  await stage.ask(backups.createBackup, { serverId: stage.serverId, ...backup, ...creation() })
  expect(s3.unfinished.size).toBe(0)
  await stage.ask(backups.deleteBackup, backup)
})
