import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey } from '../../../src/shared/api/api-keys.ts'
import { createBackupStore } from '../../../src/shared/api/backup-stores.ts'
import { cancelJob } from '../../../src/shared/api/jobs.ts'
import { createLocation, listLocations } from '../../../src/shared/api/locations.ts'
import * as api from '../../../src/shared/api/self-backups.ts'
import { listSystemErrors } from '../../../src/shared/api/system-errors.ts'
import { until } from '../../e2e/wait.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { runPanel } from '../../run-panel.ts'
import { type S3Service, startS3 } from '../../s3-service.ts'
import { leapingClock } from '../leaping-clock.ts'
import { refusal } from '../place-panel.ts'
import { quickClock } from '../webhooks/receiver.ts'

let panel: TestPanel
let s3: S3Service
beforeAll(async () => {
  panel = await startPanel()
  s3 = await startS3()
})
afterAll(async () => {
  await panel.close()
  await s3.close()
})

const ended = (of: TestPanel, { id }: Pick<api.SelfBackup, 'id'>): Promise<api.SelfBackup> =>
  until('the backup has ended', async () => {
    const now = await of.client.call(api.getSelfBackup, { params: { selfBackupId: id } })
    return now.status === 'pending' ? undefined : now
  })

async function addS3(name: string) {
  const { endpoint, bucket, accessKeyId, secretAccessKey } = s3
  const body = { kind: 's3' as const, name, endpoint, bucket, accessKeyId, secretAccessKey, prefix: name }
  return panel.client.call(createBackupStore, { body })
}

describe('a backup of the panel', () => {
  it('is of one moment, and holds up nobody who writes meanwhile', async () => {
    let stopped = false
    let written = 0
    const writing = (async () => {
      while (!stopped) {
        await panel.client.call(createLocation, { body: { name: `during ${written}` } })
        written += 1
      }
    })()
    const { backup } = await panel.client.call(api.createSelfBackup, { body: {} })
    const done = await ended(panel, backup)
    stopped = true
    await writing
    expect(done).toMatchObject({ status: 'completed', error: null })
    expect(written).toBeGreaterThan(0)
    const home = join(panel.home, 'moment')
    const restored = await runPanel(['self-backup', 'restore', done.address, '--data-dir', join(home, 'data')])
    expect(restored.code, restored.stderr).toBe(0)
    const copy = await startPanel({ dataDir: home })
    try {
      const names = (await copy.client.call(listLocations, { query: { limit: 100 } })).map(({ name }) => name)
      const during = names.filter((name) => name.startsWith('during ')).length
      expect(names).toEqual(
        expect.arrayContaining(Array.from({ length: Math.min(during, 50) }, (_, i) => `during ${i}`)),
      )
      // The backup itself is not in its own copy.
      expect(await copy.client.call(api.listSelfBackups, {})).toEqual([])
    } finally {
      await copy.close()
    }
  })

  it('that cannot be stored has failed with the reason, is never good, and leaves nothing', async () => {
    const store = await addS3('moody')
    s3.fault = ({ method }) =>
      method === 'PUT' ? { kind: 'answer', status: 403, body: '<Error><Code>AccessDenied</Code></Error>' } : undefined
    const { backup } = await panel.client.call(api.createSelfBackup, { body: { storeId: store.id } })
    const failed = await ended(panel, backup)
    s3.fault = () => undefined
    expect(failed).toMatchObject({ status: 'failed', bytes: null, error: expect.stringContaining('denies it') })
    const params = { selfBackupId: failed.id }
    for (const work of [
      () => panel.client.call(api.verifySelfBackup, { params }),
      () => panel.client.stream(api.downloadSelfBackup, { params }),
    ])
      expect(await refusal(work())).toMatchObject({ code: 'SELF_BACKUP_NOT_READY' })
    const objects = await panel.app.stores.find(store.id)
    expect([(await objects.list({})).objects, await objects.unfinished()]).toEqual([[], []])
    await panel.client.call(api.deleteSelfBackup, { params })
    expect(await refusal(panel.client.call(api.getSelfBackup, { params }))).toMatchObject({
      code: 'SELF_BACKUP_NOT_FOUND',
    })
  })

  it('goes through a store that cuts, is slow and answers 5xx', async () => {
    const store = await addS3('shaky')
    const faults = [
      { kind: 'answer', status: 503 },
      { kind: 'cut', when: 'before' },
      { kind: 'slow', bytes: 1000, pauseMs: 1 },
      { kind: 'cut', when: 'after' },
    ] as const
    let asked = 0
    s3.fault = () => faults[asked++ % 5]
    const { backup } = await panel.client.call(api.createSelfBackup, { body: { storeId: store.id } })
    const done = await ended(panel, backup)
    expect(done).toMatchObject({ status: 'completed' })
    const params = { selfBackupId: done.id }
    expect(await panel.client.call(api.verifySelfBackup, { params })).toEqual({ ok: true, problem: null })
    s3.fault = () => undefined
  })

  it('that is cancelled while it goes there leaves nothing', async () => {
    const store = await addS3('waiting')
    let isThere = (): void => undefined
    const there = new Promise<void>((resolve) => {
      isThere = resolve
    })
    s3.fault = ({ method }) => {
      if (method !== 'PUT') return undefined
      isThere()
      return { kind: 'answer', status: 503 }
    }
    const { backup, jobId } = await panel.client.call(api.createSelfBackup, { body: { storeId: store.id } })
    await there
    await panel.client.call(cancelJob, { params: { jobId: jobId as never } })
    s3.fault = () => undefined
    expect(await ended(panel, backup)).toMatchObject({ status: 'failed', error: 'it was cancelled' })
    const objects = await panel.app.stores.find(store.id)
    await until('nothing lies there', async () => (await objects.list({})).objects.length === 0)
  })

  it('is made, downloaded and deleted by who may do everything, and by nobody else', async () => {
    const { key } = await panel.client.call(createApiKey, {
      body: { name: 'admin', permissions: ['admin.write', 'admin.read'] },
    })
    const made = panel.as(key).call(api.createSelfBackup, { body: {} })
    expect(await refusal(made)).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await panel.as(key).call(api.listSelfBackups, {})).toEqual(expect.any(Array))
  })

  it('has no key where the panel has none', async () => {
    const keyless = await startPanel({ env: { PANEL_CREDENTIAL_KEY: undefined } })
    try {
      const body = { passphrase: 'correct horse battery' }
      expect(await refusal(keyless.client.call(api.createSelfBackup, { body }))).toMatchObject({
        code: 'CREDENTIAL_ENCRYPTION_KEY_MISSING',
      })
    } finally {
      await keyless.close()
    }
  })
})

describe('the schedule', () => {
  it('makes one at its time, makes up for a missed one at a start, keeps so many, and reports what fails', {
    tags: ['long'],
  }, async () => {
    const home = join(panel.home, 'scheduled')
    await mkdir(home)
    const clock = leapingClock()
    const open = () => startPanel({ dataDir: home, clock })
    let daily = await open()
    const backups = async () =>
      (await daily.client.call(api.listSelfBackups, { query: { limit: 100 } })).filter(
        ({ status }) => status !== 'pending',
      )
    const completed = async (count: number) =>
      until(`${count} backups`, async () => {
        const all = await backups()
        return all.filter(({ status }) => status === 'completed').length === count && all
      })
    try {
      const body = { cron: '30 3 * * *', keep: 2, passphrase: 'correct horse battery' }
      const set = await daily.client.call(api.setSelfBackupSchedule, { body })
      expect(set).toMatchObject({ includesKey: true, keep: 2 })
      for (let day = 1; day <= 2; day += 1) {
        clock.leap(24 * 3_600_000)
        expect((await completed(day))[0]).toMatchObject({ cause: 'schedule', includesKey: true })
      }
      await daily.close()
      clock.leap(3 * 24 * 3_600_000)
      const before = await names(home)
      daily = await open()
      await until('the oldest is gone', async () => !(await names(home)).includes(before[0] ?? ''))
      expect(await completed(2)).toHaveLength(2)
      const folder = join(daily.dataDir, 'backups', 'bst_local')
      await rm(folder, { recursive: true })
      await writeFile(folder, 'a file in its place')
      clock.leap(24 * 3_600_000)
      const failed = await until('one has failed', async () =>
        (await backups()).find(({ status }) => status === 'failed'),
      )
      expect(failed.error).not.toBe('')
      await until(
        'the error is written',
        async () => (await daily.client.call(listSystemErrors, { query: { component: 'self-backup' } })).length > 0,
      )
    } finally {
      await daily.close()
    }
  })

  it('goes by the clock as it is, and keeps what it makes, where a clock that was ahead has dated one', async () => {
    const home = join(panel.home, 'ahead')
    await mkdir(home)
    const clock = quickClock()
    const open = () => startPanel({ dataDir: home, clock })
    let daily = await open()
    const completed = async () =>
      (await daily.client.call(api.listSelfBackups, {})).filter(({ status }) => status === 'completed')
    try {
      await daily.client.call(api.setSelfBackupSchedule, { body: { cron: '30 3 * * *', keep: 1 } })
      const yearMs = 365 * 24 * 3_600_000
      clock.advance(yearMs)
      const ahead = await until('one of the year ahead', async () => (await completed())[0])
      await daily.close()
      clock.advance(-yearMs)
      daily = await open()
      clock.advance(24 * 3_600_000)
      const kept = await until('one by the clock as it is', async () =>
        (await completed()).every(({ id }) => id !== ahead.id) ? completed() : undefined,
      )
      expect(kept).toHaveLength(1)
    } finally {
      await daily.close()
    }
  })
})

async function names(home: string): Promise<string[]> {
  return (await readdir(join(home, 'data', 'backups', 'bst_local'))).sort()
}
