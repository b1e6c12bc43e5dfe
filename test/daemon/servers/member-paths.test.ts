import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  acceptServerInvite,
  createServerInvite,
  listServerAccess,
  removeServerAccess,
  setServerAccess,
} from '../../../src/shared/api/access.ts'
import { login } from '../../../src/shared/api/auth.ts'
import { createBackup, getBackup, listBackups, updateBackupSettings } from '../../../src/shared/api/backups.ts'
import { getJob, listJobs } from '../../../src/shared/api/jobs.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import type { JobId, UserId } from '../../../src/shared/kernel/ids.ts'
import { eventually } from '../gateway-stage.ts'
import { enterFileStage, type FileStage } from './file-stage.ts'

const RIGHTS = ['server.read', 'server.users', 'file.read', 'file.write'] as never
const PATHS = { allow: ['/plugins/', '/logs/*.log', '*.yml'], deny: ['*.key', '/plugins/private/'] }

let stage: FileStage
let eve: { readonly id: UserId; readonly token: string; readonly email: string }
const at = (...names: string[]): string => join(stage.folder, ...names)
const asEve = (method: string, path: string, body?: unknown) =>
  stage.ask(method, path, body, { authorization: `Bearer ${eve.token}` })
const grant = (filePaths: typeof PATHS | null, permissions = RIGHTS) =>
  stage.panel.client.call(setServerAccess, {
    params: { serverId: stage.serverId },
    body: { targetUserId: eve.id, permissions, filePaths },
  })

async function account(name: string) {
  const [email, password] = [`${name}@example.org`, 'A long pass word 1']
  const { id } = await stage.panel.client.call(createUser, { body: { email, username: name, password, roleIds: [] } })
  return { id, email, token: (await stage.panel.as(undefined).call(login, { body: { email, password } })).token }
}

beforeAll(async () => {
  stage = await enterFileStage()
  eve = await account('eve')
  await grant(PATHS)
})
afterAll(() => stage.close())
beforeEach(() => {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  for (const folder of ['plugins/essentials', 'plugins/private', 'logs/old', 'world/region'])
    mkdirSync(at(folder), { recursive: true })
  for (const [path, text] of [
    ['plugins/a.jar', 'a jar'],
    ['plugins/a.KEY', 'secret'],
    ['plugins/essentials/config.yml', 'mine'],
    ['plugins/private/config.yml', 'secret'],
    ['logs/latest.log', 'a log'],
    ['logs/old/one.log', 'secret'],
    ['world/level.dat', 'secret'],
    ['world/region/r.yml', 'a region'],
    ['server.properties', 'secret'],
  ] as const)
    writeFileSync(at(path), text)
  execFileSync('tar', [
    '-cf',
    join(stage.folder, '..', 'all.tar'),
    '-C',
    stage.folder,
    'plugins',
    'logs',
    'world',
    'server.properties',
  ])
  renameSync(join(stage.folder, '..', 'all.tar'), at('plugins', 'all.tar'))
})

const endings: [what: string, change: () => Promise<unknown>][] = [
  [
    'loses the right',
    () => stage.panel.client.call(removeServerAccess, { params: { serverId: stage.serverId, targetUserId: eve.id } }),
  ],
  ['is held to other files', () => grant({ allow: [], deny: ['*.bin', '*.jar'] })],
]

test.each(endings)('who %s sends and takes no more bytes of what is under way', async (_, change) => {
  const authorization = `Bearer ${eve.token}`
  const url = (path: string): string =>
    `${stage.panel.url}/api/servers/${stage.serverId}/files/content?path=${encodeURIComponent(path)}`
  await grant(null)
  const large = at('plugins', 'large.bin')
  writeFileSync(large, '')
  truncateSync(large, 256 * 1024 * 1024)
  const download = await fetch(url('/plugins/large.bin'), { headers: { authorization } })
  let end = (): void => {}
  const body = new ReadableStream({
    start: (controller) => {
      controller.enqueue(new Uint8Array(1000))
      end = () => controller.close()
    },
  })
  const sent = fetch(url('/plugins/new.jar'), {
    method: 'PUT',
    headers: { authorization },
    body,
    duplex: 'half',
  } as never)
  const ended = expect(sent).rejects.toThrow()
  await eventually(
    async () => readdirSync(at('plugins')),
    (names) => names.some((name) => name.startsWith('.panel-upload-')),
  )
  await change()
  await ended
  end()
  await expect(download.arrayBuffer()).rejects.toThrow()
  expect(existsSync(at('plugins', 'new.jar'))).toBe(false)
  expect((await asEve('GET', '/stat?path=/plugins/a.jar')).code).toBe('PERMISSION_DENIED')
  await grant(PATHS)
})

describe('a job', () => {
  test('looks again at what its account may do when it runs, also on the other server, and shows what it has left out', async () => {
    const other = await stage.another('other')
    const { client } = stage.panel
    const params = { serverId: other.serverId }
    const body = { targetUserId: eve.id, permissions: RIGHTS }
    await client.call(setServerAccess, { params, body: { ...body, filePaths: { allow: ['/in/'], deny: [] } } })
    const copy = { kind: 'copy_to_server', from: 'world', toServerId: other.serverId, to: '/in' }
    const outcome = async (jobId: JobId) =>
      await eventually(
        () => client.call(getJob, { params: { jobId } }),
        ({ endedAt }) => endedAt !== null,
      )
    expect((await asEve('POST', '/jobs', { work: { ...copy, to: '/elsewhere' } })).status).toBe(403)
    const done = await outcome((await asEve('POST', '/jobs', { work: copy })).data.jobId)
    expect(done).toMatchObject({ status: 'succeeded', notes: [expect.stringContaining('left out: ')] })
    expect(execFileSync('find', [other.folder, '-type', 'f'], { encoding: 'utf8' })).toBe(
      `${join(other.folder, 'in', 'world', 'region', 'r.yml')}\n`,
    )
    // The one before it in the lane of the server goes on until the rights are gone.
    const source = createServer((_, answer) => void answer.write('x')).listen(0, '127.0.0.2')
    await once(source, 'listening')
    const { port } = source.address() as AddressInfo
    const pull = { kind: 'pull', url: `http://127.0.0.2:${port}/slow.bin`, path: '/' }
    const slow = (await stage.ask('POST', '/jobs', { work: pull })).data.jobId
    await once(source, 'request')
    const late = (await asEve('POST', '/jobs', { work: { ...copy, from: 'logs' } })).data.jobId
    const own = (await asEve('POST', '/jobs', { work: { kind: 'delete', paths: ['plugins/essentials'] } })).data.jobId
    await client.call(removeServerAccess, { params: { ...params, targetUserId: eve.id } })
    await grant({ allow: ['/logs/'], deny: [] })
    source.closeAllConnections()
    source.close()
    expect((await outcome(slow)).status).toBe('failed')
    expect(await outcome(late)).toMatchObject({ status: 'failed', errorCode: 'SERVER_NOT_FOUND' })
    expect(await outcome(own)).toMatchObject({ status: 'failed', errorCode: 'PERMISSION_DENIED' })
    expect(existsSync(at('plugins', 'essentials'))).toBe(true)
    expect(readdirSync(join(other.folder, 'in'))).toEqual(['world'])
    await grant(PATHS)
  })
})

describe('a member who is held to paths', () => {
  test.each([
    ['listing', 'GET', '?path=plugins/private', undefined],
    ['facts', 'GET', '/stat?path=world/level.dat', undefined],
    ['facts of a file in the place of a folder', 'GET', '/stat?path=server.properties', undefined],
    ['reading', 'GET', '/content?path=server.properties', undefined],
    ['reading what is denied in what is allowed', 'GET', '/content?path=plugins/a.KEY', undefined],
    ['reading by another spelling', 'GET', '/content?path=.//server.properties', undefined],
    ['reading in another case', 'GET', '/content?path=PLUGINS/a.jar', undefined],
    ['downloading', 'GET', '/download?path=logs/old/one.log', undefined],
    ['writing', 'POST', '/write', { path: 'world/level.dat', content: 'x' }],
    ['creating', 'POST', '/create', { path: 'world/new', isDirectory: true, parents: true }],
    ['creating what is denied', 'POST', '/create', { path: 'plugins/new.key', isDirectory: false }],
    ['renaming from', 'POST', '/rename', { from: 'server.properties', to: 'plugins/x' }],
    ['renaming to', 'POST', '/rename', { from: 'plugins/a.jar', to: 'a.jar' }],
    ['moving a folder on the way', 'POST', '/rename', { from: 'world', to: 'plugins/world' }],
    ['moving what holds what is denied', 'POST', '/rename', { from: 'plugins', to: 'plugins/x' }],
    ['linking', 'POST', '/link', { path: 'link', target: 'plugins' }],
    ['linking to', 'POST', '/link', { path: 'plugins/essentials/link', target: '../../world/level.dat' }],
    ['copying from', 'POST', '/copy', { from: 'server.properties', to: 'plugins/x' }],
    ['copying to', 'POST', '/copy', { from: 'plugins/a.jar', to: 'world/a.jar' }],
    ['deleting', 'DELETE', '/delete?path=world', undefined],
    ['deleting what holds what is denied', 'DELETE', '/delete?path=plugins', undefined],
    ['deleting several', 'POST', '/delete', { paths: ['plugins/a.jar', 'world/level.dat'] }],
    ['modes', 'POST', '/permissions', { path: 'world', mode: '777' }],
    ['modes of what holds what is denied', 'POST', '/permissions', { path: 'plugins', mode: '777', recursive: true }],
    ['packing', 'POST', '/compress', { paths: ['server.properties'], archiveName: 'plugins/a.tar' }],
    ['packing into', 'POST', '/compress', { paths: ['plugins/a.jar'], archiveName: '/a.tar' }],
    ['looking into archives', 'POST', '/archive-contents', { archivePath: 'world/a.tar' }],
    ['unpacking from', 'POST', '/decompress', { archivePath: 'world/a.tar', targetPath: 'plugins' }],
    ['unpacking into', 'POST', '/decompress', { archivePath: 'plugins/all.tar', targetPath: 'plugins/private' }],
    ['checksums', 'POST', '/checksums', { paths: ['server.properties'] }],
    ['searching', 'GET', '/search?path=plugins/private&text=secret', undefined],
    ['usage', 'GET', '/usage?path=plugins/private', undefined],
    ['a job', 'POST', '/jobs', { work: { kind: 'delete', paths: ['world/level.dat'] } }],
  ])('is kept from what is not theirs: %s', async (_, method, path, body) => {
    const before = tree()
    expect(await asEve(method, path, body)).toMatchObject({ status: 403, code: 'PERMISSION_DENIED' })
    expect(tree()).toBe(before)
  })

  test('sees what is allowed and the folders on the way, and nothing else of trees', async () => {
    const names = async (path: string) => {
      const { files, total } = (await asEve('GET', `?path=${path}`)).data
      expect(total).toBe(files.length)
      return files.map(({ name }: { name: string }) => name)
    }
    expect(await names('/')).toEqual(['logs', 'plugins', 'world'])
    expect(await names('world')).toEqual(['region'])
    expect(await names('plugins')).toEqual(['a.jar', 'all.tar', 'essentials'])
    expect(await names('logs')).toEqual(['latest.log', 'old'])
    const found = (await asEve('GET', '/search?text=secret')).data
    expect(found).toMatchObject({ hits: [], unread: 1 }) // the archive is no text
    const every = (await asEve('GET', '/search?name=*')).data.hits.map(({ path }: { path: string }) => path)
    expect(every.filter((path: string) => /level|properties|private|KEY|one\.log/.test(path))).toEqual([])
    expect(every).toContain('/world/region/r.yml')
    const usage = (await asEve('GET', '/usage?depth=5')).data
    expect(usage.folders.map(({ path }: { path: string }) => path)).not.toContain('/plugins/private')
    expect(usage.bytes).toBe(
      'a jar'.length + 'mine'.length + 'a log'.length + 'a region'.length + sizeOf('plugins/all.tar'),
    )
    const sums = (await asEve('POST', '/checksums', { paths: ['/'] })).data
    expect(sums.files.map(({ path }: { path: string }) => path).sort()).toEqual([
      '/logs/latest.log',
      '/plugins/a.jar',
      '/plugins/all.tar',
      '/plugins/essentials/config.yml',
      '/world/region/r.yml',
    ])
    expect(JSON.stringify(sums)).not.toMatch(/private|KEY|level/)
  })

  test('works with all that is theirs, and copies and archives leave the rest out without naming it', async () => {
    expect((await asEve('POST', '/write', { path: 'plugins/new/b.txt', content: 'x' })).status).toBe(404)
    expect((await asEve('POST', '/create', { path: 'plugins/new', isDirectory: true })).status).toBe(200)
    expect((await asEve('POST', '/write', { path: 'plugins/new/b.txt', content: 'x' })).status).toBe(200)
    const copied = await asEve('POST', '/copy', { from: 'world', to: 'plugins/world' })
    expect(copied).toMatchObject({ status: 200, data: { problemCount: 1 } })
    expect(JSON.stringify(copied.data)).not.toContain('level')
    expect(execFileSync('find', [at('plugins', 'world'), '-type', 'f'], { encoding: 'utf8' })).toBe(
      `${at('plugins', 'world', 'region', 'r.yml')}\n`,
    )
    const packed = await asEve('POST', '/compress', { paths: ['/'], archiveName: 'plugins/mine.tar' })
    expect(packed.data.problemCount).toBe(1)
    const listed = execFileSync('tar', ['-tf', at('plugins', 'mine.tar')], { encoding: 'utf8' })
    expect(listed).not.toMatch(/private|KEY|level|properties|one\.log/)
    expect(listed).toContain('plugins/essentials/config.yml')
    const unpacked = await asEve('POST', '/decompress', {
      archivePath: 'plugins/all.tar',
      targetPath: '/',
      replace: true,
    })
    expect(unpacked.data.problems.map(({ path }: { path: string }) => path).sort()).toEqual([
      '/logs/old/one.log',
      '/plugins/a.KEY',
      '/plugins/private',
      '/plugins/private/config.yml',
      '/server.properties',
      '/world/level.dat',
    ])
    expect((await asEve('DELETE', '/delete?path=plugins/essentials')).status).toBe(200)
    const { jobId } = (await asEve('POST', '/jobs', { work: { kind: 'copy', from: 'logs', to: 'plugins/logs' } })).data
    await eventually(
      () => stage.panel.client.call(getJob, { params: { jobId } }),
      ({ endedAt }) => endedAt !== null,
    )
    expect(readdirSync(at('plugins', 'logs'))).toEqual(['latest.log', 'old'])
  })

  test('is kept from files that have the name of a folder which is theirs', async () => {
    await grant({ allow: ['plugins/'], deny: [] })
    try {
      mkdirSync(at('conf'))
      writeFileSync(at('conf', 'plugins'), 'secret')
      const before = tree()
      for (const [method, path, body] of [
        ['GET', '/content?path=conf/plugins'],
        ['GET', '/stat?path=conf/plugins'],
        ['POST', '/write', { path: 'world/plugins', content: 'x' }],
        ['POST', '/create', { path: 'world/plugins', isDirectory: false }],
        ['POST', '/copy', { from: 'plugins/a.jar', to: 'world/plugins' }],
        ['POST', '/rename', { from: 'plugins/a.jar', to: 'world/plugins' }],
        ['POST', '/rename', { from: 'conf/plugins', to: 'plugins/x' }],
        ['POST', '/link', { path: 'world/plugins', target: '../plugins' }],
        ['DELETE', '/delete?path=conf/plugins'],
        ['POST', '/permissions', { path: 'conf/plugins', mode: '777' }],
      ] as const) {
        expect([path, (await asEve(method, path, body)).status]).toEqual([path, 403])
      }
      expect(tree()).toBe(before)
      expect((await asEve('POST', '/create', { path: 'world/plugins', isDirectory: true })).status).toBe(200)
    } finally {
      await grant(PATHS)
    }
  })

  test('hears of no other files: not in events, nor by jobs of others, nor by notes of backups', async () => {
    const { client, url } = stage.panel
    const params = { serverId: stage.serverId }
    await grant(PATHS, [...RIGHTS, 'backup.read'] as never)
    const headers = { authorization: `Bearer ${eve.token}` }
    const ended = new AbortController()
    const stream = await fetch(`${url}/api/servers/${stage.serverId}/events`, { headers, signal: ended.signal })
    let heard = ''
    const listening = (async () => {
      for await (const piece of stream.body ?? []) heard += Buffer.from(piece).toString()
    })().catch(() => undefined)
    await stage.ask('POST', '/write', { path: 'world/hidden.dat', content: 'x' })
    const work = { kind: 'copy', from: 'world/hidden.dat', to: 'world/hidden.too' }
    const { jobId } = (await stage.ask('POST', '/jobs', { work })).data
    await eventually(
      () => client.call(getJob, { params: { jobId } }),
      (job) => job.endedAt !== null,
    )
    await stage.ask('POST', '/rename', { from: 'world/hidden.dat', to: 'plugins/shown.dat' })
    await eventually(
      async () => heard,
      (text) => text.includes('"to":"plugins/shown.dat"'),
    )
    ended.abort()
    await listening
    expect(heard).not.toContain('hidden')
    expect(heard).toContain('"folders":["/world","/plugins"]') // on the way to what is theirs
    expect((await client.call(getJob, { params: { jobId } })).title).toContain('hidden')
    const own = stage.panel.as(eve.token)
    expect(JSON.stringify(await own.call(getJob, { params: { jobId } }))).not.toContain('hidden')
    expect(JSON.stringify(await own.call(listJobs, { query: { kind: 'files.work' } }))).not.toContain('hidden')
    const { backupId } = await client.call(createBackup, { params, body: { ignored: ['world/hidden.too'] } })
    expect((await client.call(getBackup, { params: { ...params, backupId } })).ignored).toEqual(['world/hidden.too'])
    expect((await own.call(getBackup, { params: { ...params, backupId } })).ignored).toEqual([])
    expect(JSON.stringify(await own.call(listBackups, { params, query: {} }))).not.toContain('hidden')
    await grant(PATHS)
  })

  test('types nothing into the console by the commands around backups without the right to it', async () => {
    const own = stage.panel.as(eve.token)
    const params = { serverId: stage.serverId }
    const change = (body: object) => own.call(updateBackupSettings, { params, body })
    const quiesceCommands = [{ command: 'op eve', waitFor: null, waitSeconds: 0 }]
    await grant(PATHS, [...RIGHTS, 'server.update', 'backup.create'] as never)
    for (const body of [{ quiesceCommands }, { resumeCommands: quiesceCommands }])
      await expect(change(body)).rejects.toMatchObject({
        code: 'PERMISSION_DENIED',
        meta: { missing: ['console.write'] },
      })
    await expect(change({ retentionCount: 3, quiesceCommands: [] })).resolves.toMatchObject({ retentionCount: 3 })
    await grant(PATHS, [...RIGHTS, 'server.update', 'console.write'] as never)
    await expect(change({ quiesceCommands })).resolves.toMatchObject({ quiesceCommands })
    await grant(PATHS, [...RIGHTS, 'server.update'] as never)
    await expect(change({ quiesceCommands, retentionCount: 4 })).resolves.toMatchObject({ retentionCount: 4 })
    await expect(change({ quiesceCommands: [], retentionCount: 0 })).resolves.toMatchObject({ quiesceCommands: [] })
    await grant(PATHS)
  })

  test('takes nothing to another server that they may not read on this one', async () => {
    const { client, url } = stage.panel
    const other = await stage.another('theirs')
    const params = { serverId: stage.serverId }
    const all = [...RIGHTS, 'backup.read', 'backup.restore'] as never
    const theirs = { targetUserId: eve.id, permissions: all, filePaths: null }
    await client.call(setServerAccess, { params: { serverId: other.serverId }, body: theirs })
    const { backupId } = await client.call(createBackup, { params, body: {} })
    await eventually(
      () => client.call(getBackup, { params: { ...params, backupId } }),
      ({ status }) => status === 'completed',
    )
    const restore = async (body: object) => {
      const headers = { authorization: `Bearer ${eve.token}`, 'content-type': 'application/json' }
      const path = `${url}/api/servers/${stage.serverId}/backups/${backupId}/restore`
      const answer = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
      const { code, meta } = (await answer.json()) as { code?: string; meta?: { missing?: string[] } }
      return [answer.status, code, meta?.missing]
    }
    try {
      await grant(null, ['server.read', 'file.write', 'backup.restore'] as never)
      const work = { kind: 'copy_to_server', from: 'world', toServerId: other.serverId, to: '/' }
      expect(await asEve('POST', '/jobs', { work })).toMatchObject({ status: 403, code: 'PERMISSION_DENIED' })
      const toServerId = other.serverId
      const denied = (...missing: string[]) => [403, 'PERMISSION_DENIED', missing]
      expect(await restore({ toServerId })).toEqual(denied('backup.read'))
      await grant(null, ['server.read', 'backup.read', 'backup.restore'] as never)
      expect(await restore({ toServerId, databases: true })).toEqual([
        403,
        'PERMISSION_DENIED',
        expect.arrayContaining(['database.read']),
      ])
      expect(await restore({ toServerId })).toEqual([202, undefined, undefined])
    } finally {
      await grant(PATHS)
    }
  })

  test('does not give others more than they reach', async () => {
    const own = stage.panel.as(eve.token)
    const params = { serverId: stage.serverId }
    const other = await account('mallory')
    const give = (filePaths: typeof PATHS | null | undefined, permissions = RIGHTS) =>
      own.call(setServerAccess, { params, body: { targetUserId: other.id, permissions, filePaths } })
    for (const paths of [
      null,
      undefined,
      { allow: [], deny: PATHS.deny },
      { ...PATHS, deny: ['*.key'] },
      { ...PATHS, allow: ['/' + 'world/'] },
    ])
      await expect(give(paths)).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    await expect(
      own.call(createServerInvite, { params, body: { email: 'm@example.org', permissions: ['file.read'] as never } }),
    ).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    await expect(give(null, ['server.read'] as never)).resolves.toMatchObject({ filePaths: null })
    await expect(give({ allow: ['/plugins/'], deny: [...PATHS.deny, 'x'] })).resolves.toBeDefined()
    // Nor themselves; and who reaches more is above them.
    await expect(
      own.call(setServerAccess, { params, body: { targetUserId: eve.id, permissions: RIGHTS, filePaths: null } }),
    ).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    await stage.panel.client.call(setServerAccess, {
      params,
      body: { targetUserId: other.id, permissions: RIGHTS, filePaths: null },
    })
    await expect(own.call(removeServerAccess, { params: { ...params, targetUserId: other.id } })).rejects.toMatchObject(
      { code: 'PERMISSION_DENIED' },
    )
  })

  test('is shown with their patterns, keeps them when only permissions change, and is asked for what is no pattern', async () => {
    const params = { serverId: stage.serverId }
    const { client } = stage.panel
    const body = { targetUserId: eve.id, permissions: RIGHTS }
    expect((await client.call(setServerAccess, { params, body })).filePaths).toEqual(PATHS)
    const listed = await client.call(listServerAccess, { params, query: {} })
    expect(listed.find(({ userId }) => userId === eve.id)?.filePaths).toEqual(PATHS)
    for (const [allow, field] of [
      [['!x'], 'body.filePaths.allow.0'],
      [['a', '../b'], 'body.filePaths.allow.1'],
      [['/'], 'body.filePaths.allow.0'],
      [['x\ny'], 'body.filePaths.allow.0'],
      [['x'.repeat(201)], 'body.filePaths.allow.0'],
      [Array.from({ length: 51 }, (_, number) => `x${number}`), 'body.filePaths.allow'],
    ] as const)
      await expect(
        client.call(setServerAccess, { params, body: { ...body, filePaths: { allow: [...allow], deny: [] } } }),
      ).rejects.toMatchObject({ code: 'VALIDATION_ERROR', details: [{ field }] })
    const mallory = await account('invited')
    const invited = await client.call(createServerInvite, {
      params,
      body: { email: mallory.email, permissions: RIGHTS, filePaths: PATHS },
    })
    await stage.panel.as(mallory.token).call(acceptServerInvite, { body: { token: invited.token ?? '' } })
    const headers = { authorization: `Bearer ${mallory.token}` }
    expect((await stage.ask('GET', '/content?path=server.properties', undefined, headers)).status).toBe(403)
    expect(existsSync(at('server.properties'))).toBe(true)
  })

  test('shows nothing of a backup, and restores none', async () => {
    const { client, url } = stage.panel
    const params = { serverId: stage.serverId }
    const { backupId } = await client.call(createBackup, { params, body: {} })
    await eventually(
      () => client.call(getBackup, { params: { ...params, backupId } }),
      ({ status }) => status === 'completed',
    )
    const rights = [...RIGHTS, 'backup.read', 'backup.restore'] as never
    const base = `${url}/api/servers/${stage.serverId}/backups/${backupId}`
    const headers = { authorization: `Bearer ${eve.token}`, 'content-type': 'application/json' }
    const statuses = async () => {
      const found: number[] = []
      for (const path of ['/entries', '/entries?path=plugins', '/download', '/file?path=plugins/a.jar']) {
        const answer = await fetch(`${base}${path}`, { headers })
        await answer.arrayBuffer()
        found.push(answer.status)
      }
      const paths = { method: 'POST', headers, body: JSON.stringify({ paths: ['plugins/a.jar'], replace: true }) }
      return [...found, (await fetch(`${base}/restore`, paths)).status]
    }
    try {
      await grant(PATHS, rights)
      expect(await statuses()).toEqual([403, 403, 403, 403, 403])
      await grant(null, rights)
      expect(await statuses()).toEqual([200, 200, 200, 200, 202])
    } finally {
      await grant(PATHS)
    }
  })
})

function tree(): string {
  return execFileSync('find', [stage.folder, '-printf', '%P %y %m %i %l\n'], { encoding: 'utf8' })
}

function sizeOf(path: string): number {
  return readFileSync(at(path)).length
}
