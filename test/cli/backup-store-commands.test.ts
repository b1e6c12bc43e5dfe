import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { createDatabaseHost, listDatabaseHosts } from '../../src/shared/api/database-hosts.ts'
import { listJobs } from '../../src/shared/api/jobs.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { type S3Service, startS3 } from '../s3-service.ts'
import { BACKUP_STORES } from './backup-store-paths.ts'
import { walkPanel } from './command-walk.ts'

const PASSPHRASE = 'correct horse battery staple'
const KEY = 'ab'.repeat(32)

let panel: TestPanel
let s3: S3Service
let bucket: readonly string[]
beforeAll(async () => {
  panel = await startPanel({ env: { PANEL_CREDENTIAL_KEY: KEY } })
  s3 = await startS3()
  bucket = ['--endpoint', s3.endpoint, '--bucket', s3.bucket, '--access-key', s3.accessKeyId]
})
afterAll(async () => {
  await panel.close()
  await s3.close()
})

const walk = walkPanel(BACKUP_STORES, () => panel)
const { run, ok, json, refused } = walk
const secret = { env: { PANEL_STORE_SECRET: 'S3RVER' } }
const empty = (name: string): string => join(panel.home, name)

describe('the commands of stores and of backups of the panel', { timeout: 60_000 }, () => {
  it('stores: create, list, view, edit, test, set-default, delete', async () => {
    await refused(2, ['backup-stores', 'create', '--kind', 's3', '--name', 'offsite', ...bucket])
    const create = ['backup-stores', 'create', '--kind', 's3', '--name', 'offsite', '--prefix', 'panel', ...bucket]
    const made = await json(create, secret)
    expect(made).toMatchObject({ name: 'offsite', kind: 's3', hasSecret: true })
    expect(await ok(['backup-stores', 'list'])).toContain(`${s3.endpoint}/backups/panel`)
    await refused(2, ['backup-stores', 'edit', 'offsite'])
    const wrong = await run(['backup-stores', 'edit', 'offsite', '--secret-stdin'], { input: 'wrong\n' })
    expect(wrong.code, wrong.stderr).toBe(0)
    expect((await refused(11, ['backup-stores', 'test', 'offsite'])).stdout).toContain('check the secret')
    await ok(['backup-stores', 'edit', 'offsite'], secret)
    expect(await json(['backup-stores', 'test', 'offsite'])).toContainEqual(
      expect.objectContaining({ name: 'multipart', ok: true }),
    )
    await ok(['backup-stores', 'set-default', 'offsite', '--node', panel.nodeId])
    expect(await json(['backup-stores', 'defaults'])).toMatchObject([{ scope: 'node', store: { name: 'offsite' } }])
    await refused(7, ['backup-stores', 'delete', 'offsite', '--yes'])
    await ok(['backup-stores', 'set-default', '--unset', '--node', panel.nodeId])
    await ok(['backup-stores', 'create', '--kind', 'local', '--name', 'nas', '--folder', 'nas'])
    await ok(['backup-stores', 'delete', 'nas', '--yes'])
    expect(await json(['backup-stores', 'view', 'offsite'])).toMatchObject({ id: made.id, defaultOf: { nodes: 0 } })
  })

  it('a backup in a folder is made while the panel goes on, is found without it, and holds the key sealed', async () => {
    const host = {
      name: 'elephant',
      engine: 'postgresql',
      host: 'db.example.org',
      username: 'panel',
      password: 'Elephant-55',
    }
    await panel.client.call(createDatabaseHost, { body: host as never })
    await refused(8, ['self-backup', 'create', '--with-key', '--passphrase-stdin'], { input: 'short\n' })
    const create = ['self-backup', 'create', '--with-key', '--passphrase-stdin', '--wait']
    const made = await json(create, { input: `${PASSPHRASE}\n` })
    expect(made).toMatchObject({ status: 'completed', cause: 'manual', includesKey: true, store: { name: 'local' } })
    const bytes = await readFile(made.address)
    expect((await stat(made.address)).mode & 0o777).toBe(0o600)
    expect(bytes.length).toBe(made.bytes)
    for (const text of [KEY, PASSPHRASE]) expect(panel.log() + bytes.toString('latin1')).not.toContain(text)
    expect(await json(['self-backup', 'verify', made.id])).toEqual({ ok: true, problem: null })
    expect(await json(['self-backup', 'verify', made.address])).toMatchObject({ id: made.id, includesKey: true })
    expect(await json(['self-backup', 'view', made.id])).toEqual(made)
    expect(await json(['self-backup', 'list'])).toEqual([made])
    const copy = empty('copy.tar.gz')
    await ok(['self-backup', 'download', made.id, '--out', copy])
    expect(await readFile(copy)).toEqual(bytes)
    expect(await readdir(join(panel.dataDir, 'self-backup'))).toEqual([])
    const [job] = await panel.client.call(listJobs, { query: { kind: 'self_backups.create' } })
    expect(JSON.stringify(job)).not.toContain(PASSPHRASE)
  })

  it('a panel is made of it on an empty machine, where its key opens its secrets', async () => {
    const [{ address }] = await json(['self-backup', 'list'])
    const home = empty('machine')
    const restore = ['self-backup', 'restore', address, '--data-dir', join(home, 'data')]
    const file = empty('passphrase')
    await writeFile(file, 'another passphrase\n')
    expect((await refused(8, restore)).stderr).toContain('--without-key')
    expect((await refused(8, [...restore, '--passphrase-file', file])).stderr).toContain('does not open')
    await writeFile(file, `${PASSPHRASE}\n`)
    const restored = await json([...restore, '--passphrase-file', file])
    expect(restored).toMatchObject({ dataDir: join(home, 'data'), keyFile: join(home, 'data', 'credential.key') })
    expect((await readFile(restored.keyFile, 'utf8')).trim()).toBe(KEY)
    expect((await refused(7, [...restore, '--passphrase-file', file])).stderr).toContain('There is a panel')
    expect(await readdir(join(home, 'data'))).not.toContain('restoring')
    const again = await startPanel({ dataDir: home, env: { PANEL_CREDENTIAL_KEY: KEY } })
    try {
      const [host] = await again.client.call(listDatabaseHosts, {})
      expect(host).toMatchObject({ name: 'elephant', hasPassword: true })
      expect(await epochOf(again.dataDir)).not.toBe(await epochOf(panel.dataDir))
    } finally {
      await again.close()
    }
  })

  it('a backup goes to a bucket by a schedule, is restored from there, and damage to one is found', async () => {
    expect(await json(['self-backup', 'view-schedule'])).toMatchObject({ cron: null, keep: 14, nextAt: null })
    await refused(2, ['self-backup', 'schedule'])
    await refused(8, ['self-backup', 'schedule', '--cron', 'every night'])
    await refused(8, ['self-backup', 'schedule', '--cron', '0 0 31 2 *'])
    const set = ['self-backup', 'schedule', '--cron', '30 3 * * *', '--store', 'offsite', '--keep', '2']
    expect(await json(set)).toMatchObject({ cron: '30 3 * * *', keep: 2, nextAt: expect.stringContaining(':30:00') })
    const made = await json(['self-backup', 'create', '--wait'])
    expect(made).toMatchObject({ status: 'completed', includesKey: false, store: { name: 'offsite' } })
    expect(await json(['self-backup', 'verify', 'latest', '--prefix', 'panel', ...bucket], secret)).toMatchObject({
      id: made.id,
    })
    const restore = (name: string, folder: string) => [
      ...['self-backup', 'restore', name, '--prefix', 'panel', ...bucket, '--data-dir', empty(folder)],
    ]
    for (const prefix of ['/panel', 'panel/', 'a\nb']) {
      const { code, stderr } = await run(['self-backup', 'verify', 'latest', '--prefix', prefix, ...bucket], secret)
      expect([code, stderr]).toEqual([2, expect.stringContaining('--prefix must be names parted by /')])
    }
    const missing = await run(restore('panel-20200101T000000Z-00000000.tar.gz', 'nothing'), secret)
    expect([missing.code, missing.stderr]).toEqual([6, expect.stringContaining(made.name)])
    expect(await json(restore('latest', 'from-bucket'), secret)).toMatchObject({ id: made.id, keyFile: null })
    const store = await panel.app.stores.find(made.store.id)
    const key = `self/${made.name}`
    const pieces: Uint8Array[] = []
    for await (const piece of (await store.get(key)).content) pieces.push(piece)
    const whole = Buffer.concat(pieces)
    // As if it was made while the clock was ahead, and by one that still is.
    const ahead = `panel-${new Date().getUTCFullYear() + 2}0101T000000Z-00000000.tar.gz`
    await store.put(`self/${ahead}`, Buffer.from('of another time'))
    const past = await run(restore('latest', 'past-ahead'), secret)
    expect(past.code, past.stderr).toBe(0)
    expect(past.stderr).toContain(`${ahead} is dated ahead of this machine's clock, so latest is ${made.name}`)
    expect((await refused(8, restore(ahead, 'ahead'), secret)).stderr).not.toContain('so latest is')
    await store.delete([key])
    await refused(8, restore('latest', 'ahead'), secret) // there is no other one
    await store.delete([`self/${ahead}`])
    for (const damage of [whole.subarray(0, whole.length - 1000), flipped(whole), Buffer.from('no archive at all')]) {
      await store.put(key, damage)
      const found = await refused(11, ['self-backup', 'verify', made.id, '-o', 'json'])
      expect(JSON.parse(found.stdout)).toMatchObject({ ok: false, problem: expect.any(String) })
      await refused(8, restore('latest', 'of-damage'), secret)
    }
    expect(await readdir(empty('of-damage'))).not.toContain('db')
    await ok(['self-backup', 'delete', made.id, '--yes'])
    expect((await store.list({})).objects).toEqual([])
    await ok(['self-backup', 'schedule', '--off', '--default-store'])
  })

  it('every command was run', () => expect(walk.left()).toEqual([]))
})

/** One bit of the middle is another. */
function flipped(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes)
  copy[copy.length >> 1] = (copy[copy.length >> 1] ?? 0) ^ 1
  return copy
}

/** The name of an installation in its event ids. */
async function epochOf(dataDir: string): Promise<unknown> {
  const connection = await Connection.open(join(dataDir, 'db', 'panel.db'), 'read')
  try {
    return (await connection.all("SELECT value FROM setting WHERE key = 'install.epoch'"))[0]?.['value']
  } finally {
    await connection.close()
  }
}
