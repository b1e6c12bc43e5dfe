import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { setServerAccess } from '../../../src/shared/api/access.ts'
import { login } from '../../../src/shared/api/auth.ts'
import { createBackupStore } from '../../../src/shared/api/backup-stores.ts'
import { powerServer } from '../../../src/shared/api/power.ts'
import { deleteServer, getServer } from '../../../src/shared/api/servers.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import { startS3 } from '../../s3-service.ts'
import { eventually } from '../gateway-stage.ts'
import { type BackupStage, enterBackupStage } from './backup-stage.ts'

/** Writes down what it is asked, so that a backup shows what came before it. */
const GAME =
  'echo ready; while read -r line; do echo "$line" >> asked; echo "did $line"; [ "$line" = stop ] && exit 0; done'

let stage: BackupStage
const at = (...names: string[]): string => join(stage.folder, ...names)

beforeAll(async () => {
  stage = await enterBackupStage(GAME)
})
afterAll(() => stage.close())
beforeEach(() => {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  mkdirSync(at('world', 'region'), { recursive: true })
  writeFileSync(at('server.properties'), 'motd=hello\n')
  writeFileSync(at('world', 'level.dat'), Buffer.alloc(300_000, 'level'))
  writeFileSync(at('world', 'region', 'r.mca'), 'region')
})

const tree = (): string[] =>
  readdirSync(stage.folder, { recursive: true, encoding: 'utf8', withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      return `${path.slice(stage.folder.length + 1)} ${createHash('sha256').update(readFileSync(path)).digest('hex')}`
    })
    .sort()

describe('a backup', () => {
  test('is made, listed newest first, downloaded and restored', async () => {
    const before = tree()
    const made = await stage.make({ name: 'first one', ignored: ['*.log'] })
    expect(made).toMatchObject({ name: 'first_one', status: 'completed', problemCount: 0, orphaned: false })
    expect(made.storedBytes).toBeGreaterThan(0)
    const newer = await stage.make({ kind: 'archive', compression: 'none', label: 'nightly' })
    const list = await stage.ask('GET', '?limit=1')
    expect(list.data.map(({ id }: { id: string }) => id)).toEqual([newer.id])
    expect(list.pagination).toMatchObject({ limit: 1, total: 2 })
    rmSync(at('world'), { recursive: true })
    writeFileSync(at('server.properties'), 'motd=other\n')
    writeFileSync(at('new.txt'), 'new')
    expect(await stage.done('POST', `/${made.id}/restore`, {})).toMatchObject({ status: 'succeeded' })
    expect(tree()).toEqual(before)
    expect((await stage.get(made.id)).restoredAt).not.toBeNull()
  })

  test('is listed, read and restored by single paths, and has ranges', async () => {
    const { id, storedBytes, checksum } = await stage.make({ name: 'paths' })
    const { data } = await stage.ask('GET', `/${id}/entries?path=/world`)
    expect(data.entries.map(({ path, kind }: { path: string; kind: string }) => [path, kind])).toEqual([
      ['/world/level.dat', 'file'],
      ['/world/region', 'folder'],
    ])
    const fetched = async (path: string, headers = {}): Promise<Response> => {
      const authorization = `Bearer ${stage.panel.adminToken}`
      const url = `${stage.panel.url}/api/servers/${stage.serverId}/backups/${id}${path}`
      return await fetch(url, { headers: { authorization, ...headers } })
    }
    expect(await (await fetched('/file?path=world/region/r.mca')).text()).toBe('region')
    const whole = Buffer.from(await (await fetched('/download')).arrayBuffer())
    expect([whole.length, createHash('sha256').update(whole).digest('hex')]).toEqual([storedBytes, checksum])
    const part = await fetched('/download', { range: 'bytes=10-19', 'if-range': `"${checksum}"` })
    expect(part.status).toBe(206)
    expect(Buffer.from(await part.arrayBuffer())).toEqual(whole.subarray(10, 20))
    const names = execFileSync('tar', ['-tz'], { input: whole, encoding: 'utf8' }).split('\n')
    expect(names).toContain('world/region/r.mca')
    rmSync(at('world', 'region', 'r.mca'))
    writeFileSync(at('server.properties'), 'motd=other\n')
    await stage.done('POST', `/${id}/restore`, { paths: ['world/region'] })
    expect(readFileSync(at('world', 'region', 'r.mca'), 'utf8')).toBe('region')
    expect(readFileSync(at('server.properties'), 'utf8')).toBe('motd=other\n')
  })

  test('that fails is never listed as good, cannot be restored and leaves nothing behind', async () => {
    const server = await stage.another('small')
    const of = `/servers/${server.serverId}`
    await stage.api('PATCH', `${of}/backup-settings`, { backupAllocationMb: 1 })
    writeFileSync(join(server.folder, 'large'), randomBytes(3_000_000))
    const failed = await stage.make({}, server.serverId)
    expect(failed).toMatchObject({ status: 'failed', storedBytes: null, checksum: null })
    expect(failed.error).not.toBeNull()
    expect((await stage.api('GET', `${of}/backups?status=completed`)).data).toEqual([])
    for (const [method, path] of [
      ['POST', '/restore'],
      ['POST', '/verify'],
      ['GET', '/download'],
      ['GET', '/entries'],
    ] as const) {
      const answer = await stage.api(method, `${of}/backups/${failed.id}${path}`, method === 'POST' ? {} : undefined)
      expect([path, answer.status, answer.code]).toEqual([path, 409, 'BACKUP_NOT_READY'])
    }
    const kept = join(stage.panel.dataDir, 'agent', 'backups', 'bst_local', server.serverId)
    await eventually(
      async () => (existsSync(kept) ? readdirSync(kept, { recursive: true, withFileTypes: true }) : []),
      (left) => left.filter((entry) => entry.isFile() && !entry.name.endsWith('.lock')).length === 0,
    )
    // Tried again it is no other one, and its job does not look done.
    const retried = async (jobId: string) => {
      const step = (await stage.job(jobId)).stepList.find(({ status }) => status === 'failed')
      expect((await stage.api('POST', `/jobs/${jobId}/steps/${step?.id}/retry`)).status).toBe(200)
      return await stage.job(jobId)
    }
    expect(await retried(failed.jobId ?? '')).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('new one'),
    })
    writeFileSync(join(server.folder, 'large'), randomBytes(900_000))
    expect(await stage.make({ compression: 'none' }, server.serverId)).toMatchObject({ status: 'completed' })
    const [whole] = (await stage.api('GET', `${of}/backups?status=completed`)).data
    const absent = await stage.api('POST', `${of}/backups/${whole.id}/restore`, { paths: ['nope'] })
    expect((await stage.job(absent.data.jobId)).status).toBe('failed')
    expect(await retried(absent.data.jobId)).toMatchObject({ status: 'failed', error: expect.stringContaining('nope') })
    expect(await stage.get(whole.id)).toMatchObject({
      status: 'completed',
      error: expect.stringContaining('not restored'),
    })
    const last = await stage.make({ compression: 'none' }, server.serverId)
    expect(last).toMatchObject({ status: 'failed' })
    await stage.api('PATCH', `${of}/backup-settings`, { backupAllocationMb: null })
    expect(await stage.make({ compression: 'none' }, server.serverId)).toMatchObject({ status: 'completed' })
    await stage.api('PATCH', `${of}/backup-settings`, { backupAllocationMb: 1 })
    expect(await stage.api('POST', `${of}/backups`, {})).toMatchObject({ status: 409, code: 'BACKUP_QUOTA_EXCEEDED' })
    await stage.api('PATCH', `${of}/backup-settings`, { backupAllocationMb: 0 })
    expect(await stage.api('POST', `${of}/backups`, {})).toMatchObject({ status: 403, code: 'BACKUP_DISABLED' })
  })

  test('is kept by the rules of its server and its label, and by a lock', async () => {
    const { serverId } = await stage.another('kept')
    const of = `/servers/${serverId}`
    const locked = await stage.make({ name: 'locked', locked: true }, serverId)
    expect(await stage.api('DELETE', `${of}/backups/${locked.id}`)).toMatchObject({
      status: 409,
      code: 'BACKUP_LOCKED',
    })
    await stage.make({ name: 'plain-1' }, serverId)
    await stage.make({ name: 'weekly-1', label: 'weekly' }, serverId)
    await stage.api('PATCH', `${of}/backup-settings`, {
      retentionCount: 1,
      labels: [{ label: 'weekly', retentionCount: 2 }],
    })
    await stage.make({ name: 'weekly-2', label: 'weekly' }, serverId)
    await stage.make({ name: 'plain-2' }, serverId)
    const names = async (): Promise<string[]> =>
      (await stage.api('GET', `${of}/backups`)).data.map(({ name }: { name: string }) => name)
    await eventually(names, (now) => !now.includes('plain-1'))
    expect(await names()).toEqual(['plain-2', 'weekly-2', 'weekly-1', 'locked'])
    const dry = await stage.api('POST', `${of}/backups/prune`, { dryRun: true, retentionCount: 1, retentionDays: 0 })
    expect(dry.data).toEqual({ backups: [], jobIds: [] })
  })

  test('of a game that runs asks it to hold still before and to go on after', async () => {
    const { client } = stage.panel
    const params = { serverId: stage.serverId }
    await client.call(powerServer, { params, body: { action: 'start' } })
    await eventually(
      () => client.call(getServer, { params }),
      ({ status }) => status === 'running',
    )
    const quiesceCommands = [{ command: 'save-off', waitFor: 'did save-.f', waitSeconds: 10 }]
    await stage.api('PATCH', `/servers/${stage.serverId}/backup-settings`, {
      quiesceCommands,
      resumeCommands: [{ command: 'save-on' }],
    })
    const made = await stage.make({ name: 'quiet' })
    expect(made).toMatchObject({ status: 'completed' })
    expect((await stage.ask('POST', `/${made.id}/restore`, {})).code).toBe('SERVER_MUST_BE_STOPPED')
    const url = `${stage.panel.url}/api/servers/${stage.serverId}/backups/${made.id}/file?path=asked`
    const asked = await fetch(url, { headers: { authorization: `Bearer ${stage.panel.adminToken}` } })
    expect(await asked.text()).toBe('save-off\n')
    await eventually(
      async () => readFileSync(at('asked'), 'utf8'),
      (text) => text === 'save-off\nsave-on\n',
    )
    await client.call(powerServer, { params, body: { action: 'kill' } })
    await eventually(
      () => client.call(getServer, { params }),
      ({ status }) => status !== 'running',
    )
    await stage.api('PATCH', `/servers/${stage.serverId}/backup-settings`, { quiesceCommands: [], resumeCommands: [] })
  })

  test('whose server is gone is listed, reattached to another one and restored there', async () => {
    const [gone, heir] = [await stage.another('gone'), await stage.another('heir')]
    writeFileSync(join(gone.folder, 'heirloom'), 'gold')
    const { id } = await stage.make({ kind: 'incremental' }, gone.serverId)
    await stage.panel.client.call(deleteServer, { params: { serverId: gone.serverId } })
    await eventually(
      () => stage.get(id),
      ({ orphaned }) => orphaned,
    )
    const { data } = await stage.api('GET', '/backups?orphaned=true')
    expect(data).toMatchObject([{ id, serverId: null, ownerId: gone.serverId, serverName: 'gone' }])
    // Also when the panel has forgotten it: the store says what it is.
    expect(await stage.api('DELETE', `/backups/${id}?force=true`)).toMatchObject({ status: 202 })
    expect((await stage.api('GET', `/backups/${id}`)).code).toBe('BACKUP_NOT_FOUND')
    const scan = await stage.api('POST', '/backups/scan', { storeId: 'bst_local' })
    expect(scan.data.added).toMatchObject([{ backupId: id, serverName: 'gone', orphaned: true }])
    expect(await stage.api('POST', `/backups/${id}/reattach`, { serverId: heir.serverId })).toMatchObject({
      status: 200,
    })
    const { data: own } = await stage.api('GET', `/servers/${heir.serverId}/backups`)
    expect(own).toMatchObject([{ id, orphaned: false }])
    const { data: started } = await stage.api('POST', `/servers/${heir.serverId}/backups/${id}/restore`, {})
    expect(await stage.job(started.jobId)).toMatchObject({ status: 'succeeded' })
    expect(readFileSync(join(heir.folder, 'heirloom'), 'utf8')).toBe('gold')
    expect(await stage.api('POST', `/backups/${id}/reattach`, { serverId: stage.serverId })).toMatchObject({
      code: 'CONFLICT',
    })
  })

  test('is restored to another server, of which a backup is made before', async () => {
    const other = await stage.another('other')
    writeFileSync(join(other.folder, 'own'), 'old')
    // Left out of other backups, and gone with the folder all the same.
    writeFileSync(join(other.folder, '.panelignore'), '*.cache\n')
    writeFileSync(join(other.folder, 'map.cache'), 'much work')
    const { id } = await stage.make({ name: 'moved' })
    const asked = { toServerId: other.serverId, preBackup: true }
    expect(await stage.done('POST', `/${id}/restore`, asked)).toMatchObject({ status: 'succeeded' })
    expect(readFileSync(join(other.folder, 'world', 'region', 'r.mca'), 'utf8')).toBe('region')
    expect(existsSync(join(other.folder, 'own'))).toBe(false)
    const { data } = await stage.api('GET', `/servers/${other.serverId}/backups`)
    expect(data).toMatchObject([{ name: 'before-moved', status: 'completed' }])
    const back = `/servers/${other.serverId}/backups/${data[0].id}/restore`
    const { data: started } = await stage.api('POST', back, {})
    expect(await stage.job(started.jobId)).toMatchObject({ status: 'succeeded' })
    expect(readFileSync(join(other.folder, 'map.cache'), 'utf8')).toBe('much work')
  })

  test('of a deep tree leaves what lies deeper where it was', async () => {
    const other = await stage.another('deep')
    const levels = (count: number): string => Array.from({ length: count }, (_, i) => `d${i}`).join('/')
    for (const depth of [60, 64, 70, 300]) {
      mkdirSync(join(other.folder, levels(depth)), { recursive: true })
      writeFileSync(join(other.folder, levels(depth), 'own'), String(depth))
    }
    const made = await stage.make({ name: 'deep' }, other.serverId)
    expect(made.problemCount).toBeGreaterThan(0)
    writeFileSync(join(other.folder, levels(60), 'own'), 'changed')
    const back = `/servers/${other.serverId}/backups/${made.id}/restore`
    const { data: started } = await stage.api('POST', back, { keepOthers: true })
    expect(await stage.job(started.jobId)).toMatchObject({ status: 'succeeded' })
    const read = (depth: number): string => readFileSync(join(other.folder, levels(depth), 'own'), 'utf8')
    expect([60, 64, 70, 300].map(read)).toEqual(['60', '64', '70', '300'])
  })

  test('is neither locked nor deleted by members when the host made it, and its databases take the right to them', async () => {
    const { client } = stage.panel
    const [email, password] = ['member@example.org', 'A long pass word 1']
    const { id } = await client.call(createUser, { body: { email, username: 'member', password, roleIds: [] } })
    const { token } = await stage.panel.as(undefined).call(login, { body: { email, password } })
    const grant = (permissions: string[]) =>
      client.call(setServerAccess, {
        params: { serverId: stage.serverId },
        body: { targetUserId: id, permissions: permissions as never, filePaths: null },
      })
    const asMember = async (method: string, path: string, body?: unknown) => {
      const { status, code } = await stage.ask(method, path, body, { authorization: `Bearer ${token}` })
      return code ?? status
    }
    await grant(['server.read', 'backup.read', 'backup.create', 'backup.delete', 'backup.restore'])
    const made = await stage.make({ name: 'of-the-host' })
    const { db } = stage.panel.app.core
    const own = (counts: 0 | 1) =>
      db.write((tx) => tx.q.updateTable('backup').set({ counts }).where('id', '=', made.id).execute())
    const databases = JSON.stringify([{ name: 'kept_db', engine: 'mysql', tables: 1, rows: 1, left: ['view v'] }])
    const problems = JSON.stringify([{ path: '', reason: 'not in the dump of kept_db: view v' }])
    const noted = { databases, problems, problemCount: 1, error: 'The database kept_db on h1: it is away' }
    await db.write((tx) => tx.q.updateTable('backup').set(noted).where('id', '=', made.id).execute())
    const seenBy = async (path: string): Promise<[boolean, unknown]> => {
      const { data } = await stage.ask('GET', path, undefined, { authorization: `Bearer ${token}` })
      const [one] = [data].flat()
      return [JSON.stringify(data).includes('kept_db'), one.problemCount]
    }
    expect([await seenBy(''), await seenBy(`/${made.id}`)]).toEqual([
      [false, 0],
      [false, 0],
    ])
    expect(await stage.get(made.id)).toMatchObject({ databases: [{ name: 'kept_db' }], problemCount: 1 })
    await own(0)
    expect(await asMember('PATCH', `/${made.id}`, { locked: true })).toBe('PERMISSION_DENIED')
    expect(await asMember('PATCH', `/${made.id}`, { name: 'renamed' })).toBe(200)
    expect(await asMember('DELETE', `/${made.id}`)).toBe('PERMISSION_DENIED')
    expect(await stage.get(made.id)).toMatchObject({ locked: false, status: 'completed' })
    expect(await asMember('POST', `/${made.id}/restore`, { databases: true })).toBe('PERMISSION_DENIED')
    await grant(['server.read', 'backup.read', 'backup.create', 'backup.delete', 'backup.restore', 'database.read'])
    expect(await seenBy(`/${made.id}`)).toEqual([true, 1])
    await db.write((tx) => tx.q.updateTable('backup').set({ databases: '[]' }).where('id', '=', made.id).execute())
    expect(await asMember('POST', `/${made.id}/restore`, { files: false, databases: true })).toBe('CONFLICT')
    await own(1)
    expect(await asMember('PATCH', `/${made.id}`, { locked: true })).toBe(200)
    expect(await asMember('PATCH', `/${made.id}`, { locked: false })).toBe(200)
    expect(await asMember('DELETE', `/${made.id}`)).toBe(202)
  })

  test('goes to a bucket, and comes back from there', { tags: ['long'] }, async () => {
    const s3 = await startS3()
    try {
      const { endpoint, bucket, accessKeyId, secretAccessKey } = s3
      const at3 = { kind: 's3' as const, name: 'bucket', endpoint, bucket, accessKeyId, secretAccessKey, prefix: 'p' }
      const { id: storeId } = await stage.panel.client.call(createBackupStore, { body: at3 })
      writeFileSync(at('large'), randomBytes(12_000_000))
      const before = tree()
      for (const kind of ['archive', 'incremental'] as const) {
        const made = await stage.make({ kind, storeId, compression: 'none' })
        expect(made).toMatchObject({ status: 'completed', storageMode: 's3', error: null })
        expect(await stage.done('POST', `/${made.id}/verify`, {})).toMatchObject({ status: 'succeeded' })
        execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
        expect(await stage.done('POST', `/${made.id}/restore`, {})).toMatchObject({ status: 'succeeded' })
        expect(tree()).toEqual(before)
        expect(await stage.done('DELETE', `/${made.id}`)).toMatchObject({ status: 'succeeded' })
      }
      expect(s3.unfinished.size).toBe(0)
      const scan = await stage.api('POST', '/backups/scan', { storeId })
      expect(scan.data).toMatchObject({ found: 0, missing: [] })
    } finally {
      await s3.close()
    }
  })
})
