import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Bus, createBus } from '../../../src/daemon/core/bus.ts'
import { createLog } from '../../../src/daemon/core/log.ts'
import { createVault } from '../../../src/daemon/core/secrets.ts'
import { type Db, openDb } from '../../../src/daemon/db/db.ts'
import { parseJson } from '../../../src/daemon/db/json.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { watchEvents } from '../../../src/daemon/features/signals/alerts/event-watch.ts'
import { noticeOf } from '../../../src/daemon/features/signals/webhooks/notice.ts'
import { createOutbox } from '../../../src/daemon/features/signals/webhooks/outbox.ts'
import { Payload } from '../../../src/daemon/features/signals/webhooks/payload.ts'
import { notifyWebhooks } from '../../../src/daemon/features/signals/webhooks/subscriptions.ts'
import { createJobs } from '../../../src/daemon/jobs/jobs.ts'
import { createAlertRule } from '../../../src/shared/api/alert-rules.ts'
import { createWebhook } from '../../../src/shared/api/webhooks.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'

import { Stage } from '../servers/stage.ts'

let stage: Stage
let db: Db
let bus: Bus
let serverId: string
let nodeId: string
let folder: string
beforeAll(async () => {
  stage = await Stage.open()
  const server = await stage.create(await stage.template(), await stage.node())
  serverId = server.id
  nodeId = server.nodeId
  await stage.admin.call(createAlertRule, { body: { name: 'b', type: 'backup_failed', target: 'global' } })
  const hook = { name: 'h', url: 'http://127.0.0.1:9/x', events: ['backup.*', 'alert.*', 'node.offline'] }
  await stage.admin.call(createWebhook, { body: hook })
  // The parts that write, over the same database, where no job takes away what they have written.
  folder = await mkdtemp(join(tmpdir(), 'panel-commit-'))
  const file = join(folder, 'panel.db')
  const reader = await Connection.open(stage.db.file, 'read')
  await reader.run('VACUUM INTO ?', [file])
  await reader.close()
  db = await openDb(file, systemClock)
  bus = createBus(db)
  const vault = createVault('ab'.repeat(32))
  const log = createLog({ level: 'error' })
  const systemErrors = { capture: () => undefined }
  const registry = new Registry()
  const jobs = createJobs({ db, bus, clock: systemClock, log, systemErrors, registry, holderOf: async () => undefined })
  const outbox = createOutbox({ clock: systemClock, vault, jobs })
  notifyWebhooks(bus, outbox)
  watchEvents(bus, { bus, clock: systemClock, vault, outbox, log })
})
afterAll(async () => {
  await db.close()
  await stage.close()
  await rm(folder, { recursive: true })
})
beforeEach(() => db.write(async (tx) => void (await tx.q.deleteFrom('delivery').execute())))

const backup = { backupId: 'bak_1', backupName: 'nightly', sizeMb: null, checksum: null }

const waiting = async () =>
  (await db.read.selectFrom('delivery').select('event').orderBy('id').execute()).map(({ event }) => event).sort()

describe('what is told', () => {
  it('of a failed backup is an alert and messages of one commit, and the next good backup resolves it', async () => {
    const failed = { ...backup, status: 'failed' as const, error: 'the disk is full' }
    await db.write((tx) => bus.append(tx, { type: 'backup_complete', serverId, data: failed }))
    const open = () => db.read.selectFrom('alert').selectAll().where('resolvedAt', 'is', null).execute()
    expect(await open()).toMatchObject([
      { type: 'backup_failed', severity: 'warning', serverId, message: expect.stringContaining('the disk is full') },
    ])
    expect(await waiting()).toEqual(['alert.created', 'backup.failed'])
    // A second failure is the same open alert.
    await db.write((tx) => bus.append(tx, { type: 'backup_complete', serverId, data: failed }))
    expect(await open()).toHaveLength(1)
    const good = { ...backup, status: 'completed' as const }
    await db.write((tx) => bus.append(tx, { type: 'backup_complete', serverId, data: good }))
    expect(await open()).toEqual([])
    expect(await waiting()).toEqual([
      'alert.created',
      'alert.resolved',
      'backup.completed',
      'backup.failed',
      'backup.failed',
    ])
  })

  it('of a node and of a locked account says which', async () => {
    await db.write((tx) => bus.append(tx, { type: 'node_updated', data: { nodeId, isOnline: false } }))
    const row = await db.read.selectFrom('delivery').select('payload').executeTakeFirstOrThrow()
    const { name } = await db.read.selectFrom('node').select('name').where('id', '=', nodeId).executeTakeFirstOrThrow()
    const payload = parseJson(Payload, row.payload)
    expect(noticeOf(payload).title).toBe(`The node ${name} has lost its connection`)
    const data = { email: 'a@example.org', ipAddress: '192.0.2.7', lockedUntil: '2026-01-01T00:00:00.000Z' }
    const { text } = noticeOf({ ...payload, event: 'auth.locked_out', data })
    expect(text).toBe('a@example.org from 192.0.2.7, until 2026-01-01T00:00:00.000Z')
  })

  it('goes with the change when that is undone', async () => {
    const data = { ...backup, status: 'failed' as const }
    const undone = db.write(async (tx) => {
      await bus.append(tx, { type: 'backup_complete', serverId, data })
      throw new Error('it did not happen')
    })
    await expect(undone).rejects.toThrow('it did not happen')
    expect(await waiting()).toEqual([])
  })
})
