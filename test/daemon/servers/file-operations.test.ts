import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { enterFileStage, type FileStage } from './file-stage.ts'

let stage: FileStage
let ask: FileStage['ask']
const at = (...names: string[]): string => join(stage.folder, ...names)
const put = (name: string, content = name): void => writeFileSync(at(name), content)

beforeAll(async () => {
  stage = await enterFileStage()
  ask = stage.ask
})
afterAll(() => stage.close())
beforeEach(() => {
  for (const name of readdirSync(stage.folder, { encoding: 'buffer' })) {
    rmSync(Buffer.concat([Buffer.from(`${stage.folder}/`), name]), { recursive: true })
  }
})

describe('a folder', () => {
  test('is listed in the order of bytes with the facts of each entry', async () => {
    put('b.txt', 'hello')
    mkdirSync(at('a'))
    symlinkSync('b.txt', at('link'))
    execFileSync('mkfifo', [at('fifo')])
    chmodSync(at('b.txt'), 0o640)
    const { status, data } = await ask('GET', '?path=/')
    expect(status).toBe(200)
    expect(data).toMatchObject({ path: '/', total: 4, next: null })
    expect(data.files.map(({ name }: { name: string }) => name)).toEqual(['a', 'b.txt', 'fifo', 'link'])
    const { uid, gid } = statSync(at('b.txt'))
    expect(data.files[1]).toMatchObject({
      path: '/b.txt',
      kind: 'file',
      isDirectory: false,
      size: 5,
      mode: 0o640,
      uid,
      gid,
      target: null,
      modified: new Date(Math.trunc(statSync(at('b.txt')).mtimeMs)).toISOString(),
    })
    expect(data.files[0]).toMatchObject({ kind: 'folder', isDirectory: true })
    expect(data.files[2]).toMatchObject({ kind: 'other' })
    expect(data.files[3]).toMatchObject({ kind: 'link', target: 'b.txt' })
    expect((await ask('GET', '')).data.total).toBe(4)
  })

  test('is listed page by page, each name once, also beyond what a frame of the node holds', async () => {
    mkdirSync(at('many'))
    const names = Array.from({ length: 2500 }, (_, i) => `${String(i).padStart(4, '0')}-${'\u00ff'.repeat(100)}`)
    for (const name of names) put(join('many', name), '')
    put('.panel-upload-x')
    const seen: string[] = []
    let after = ''
    for (;;) {
      const { data } = await ask('GET', `?path=many&limit=1000${after}`)
      expect(data.total).toBe(2500)
      for (const { name } of data.files) seen.push(name)
      if (data.next === null) break
      after = `&after=${encodeURIComponent(data.next)}`
    }
    expect(seen).toEqual(names)
    const whole = (await ask('GET', '?path=many&limit=10000')).data
    expect([whole.files.length, whole.next]).toEqual([2500, null])
    expect((await ask('GET', '?path=/')).data.files).toHaveLength(1) // nothing of an upload
  })

  test('is made with those above it, and only where nothing is', async () => {
    expect(await ask('POST', '/create', { path: 'x/y/z', isDirectory: true })).toMatchObject({ status: 404 })
    const deep = { path: 'x/y/z', isDirectory: true, parents: true }
    expect((await ask('POST', '/create', deep)).data).toEqual({ path: 'x/y/z', created: true })
    expect((await ask('POST', '/create', deep)).data.created).toBe(false)
    expect(await ask('POST', '/create', { path: 'x', isDirectory: true })).toMatchObject({
      status: 409,
      code: 'CONFLICT',
    })
    put('file')
    expect(await ask('POST', '/create', { ...deep, path: 'file/in' })).toMatchObject({ code: 'FILE_PATH_INVALID' })
    expect(await ask('GET', '?path=file')).toMatchObject({
      code: 'FILE_PATH_INVALID',
      details: [{ field: 'query.path', message: expect.stringContaining('not a folder') }],
    })
    const { uid } = statSync(stage.folder)
    expect(statSync(at('x', 'y', 'z')).uid).toBe(uid)
    const file = { path: 'new/a.txt', isDirectory: false, content: 'hi', parents: true }
    expect((await ask('POST', '/create', file)).status).toBe(200)
    expect(readFileSync(at('new', 'a.txt'), 'utf8')).toBe('hi')
    expect(await ask('POST', '/create', file)).toMatchObject({ status: 409, details: [{ field: 'body.path' }] })
  })
})

test('a text is written by JSON, and a form uploads a file into a folder', async () => {
  expect((await ask('POST', '/write', { path: 'a.txt', content: 'grüße' })).data).toMatchObject({ size: 7 })
  const { data } = await ask('POST', '/write', { path: 'a.txt', content: 'x' })
  const stale = await ask('POST', '/write', { path: 'a.txt', content: 'y' }, { 'if-match': '"other"' })
  expect(stale.code).toBe('ETAG_MISMATCH')
  expect((await ask('POST', '/write', { path: 'a.txt', content: '' }, { 'if-match': `"${data.etag}"` })).status).toBe(
    200,
  )
  expect(await ask('POST', '/write', { path: 'big', content: 'x'.repeat(10 * 1024 * 1024 + 1) })).toMatchObject({
    code: 'PAYLOAD_TOO_LARGE',
  })
  mkdirSync(at('up'))
  const form = new FormData()
  form.set('path', '/up')
  form.set('file', new Blob(['content']), '../../evil.txt')
  const { panel, serverId } = stage
  const response = await fetch(`${panel.url}/api/servers/${serverId}/files/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${panel.adminToken}` },
    body: form,
  })
  expect(await response.json()).toMatchObject({ data: { path: '/up/evil.txt', size: 7 } })
  expect(readFileSync(at('up', 'evil.txt'), 'utf8')).toBe('content')
})

test('a search refuses what it does not know, or what does not go with the rest', async () => {
  for (const [query, field] of [
    ['content=x', 'query.content'],
    ['regex=true&name=*', 'query.regex'],
    ['ignoreCase=true', 'query.ignoreCase'],
    ['text=x&kind=folder', 'query.kind'],
  ]) {
    expect(await ask('GET', `/search?${query}`), query).toMatchObject({ status: 400, details: [{ field }] })
  }
})

describe('an entry', () => {
  test('is renamed and moved, and replaces only what may be replaced', async () => {
    put('a', 'one')
    put('b', 'two')
    mkdirSync(at('folder'))
    mkdirSync(at('full'))
    put('full/x')
    const rename = (from: string, to: string, replace = false) => ask('POST', '/rename', { from, to, replace })
    expect(await rename('a', 'b')).toMatchObject({ status: 409, details: [{ field: 'body.to' }] })
    expect(readFileSync(at('b'), 'utf8')).toBe('two')
    expect((await rename('a', 'b', true)).status).toBe(200)
    expect([readFileSync(at('b'), 'utf8'), existsSync(at('a'))]).toEqual(['one', false])
    linkSync(at('b'), at('same'))
    expect((await rename('same', 'b', true)).status).toBe(200)
    expect((await rename('b', 'b', true)).status).toBe(200)
    expect([readFileSync(at('b'), 'utf8'), existsSync(at('same'))]).toEqual(['one', false])
    expect((await rename('b', 'folder/c')).status).toBe(200)
    expect(await rename('folder/c', 'full', true)).toMatchObject({ status: 409 })
    expect(await rename('folder', 'full', true)).toMatchObject({ status: 409 })
    expect(await rename('folder', 'folder/in/it')).toMatchObject({ status: 404, details: [{ field: 'body.to' }] })
    expect(await rename('folder', 'folder/in')).toMatchObject({ status: 400, details: [{ field: 'body.to' }] })
    expect(await rename('none', 'x')).toMatchObject({ status: 404, details: [{ field: 'body.from' }] })
    expect((await rename('folder', 'other')).status).toBe(200)
    expect(readdirSync(at('other'))).toEqual(['c'])
    symlinkSync('/etc/passwd', at('link'))
    expect((await rename('link', 'moved')).status).toBe(200)
    expect(readlinkSync(at('moved'))).toBe('/etc/passwd')
    expect((await ask('GET', '/stat?path=moved')).data).toMatchObject({
      kind: 'link',
      target: '/etc/passwd',
      path: '/moved',
    })
  })

  test('is copied with its mode and time, trees whole, and nothing special among them', async () => {
    mkdirSync(at('world/region'), { recursive: true })
    put('world/level.dat', 'level')
    chmodSync(at('world/level.dat'), 0o4750)
    put('world/region/r.0', Buffer.alloc(700_000, 7).toString('latin1'))
    symlinkSync('level.dat', at('world/link'))
    execFileSync('mkfifo', [at('world/pipe')])
    writeFileSync(at('world/hole'), '')
    truncateSync(at('world/hole'), 64 * 1024 * 1024)
    execFileSync('touch', ['-d', '2020-01-02', at('world/level.dat'), at('world')])
    const { status, data } = await ask('POST', '/copy', { from: 'world', to: 'backup' })
    expect(status).toBe(200)
    expect(data).toMatchObject({ entries: 6, problemCount: 1 })
    expect(data.problems).toEqual([{ path: 'pipe', reason: 'is a FIFO, a socket or a device' }])
    expect(execFileSync('diff', ['-r', '--no-dereference', '-x', 'pipe', at('world'), at('backup')]).toString()).toBe(
      '',
    )
    const { mode, mtime, uid } = statSync(at('backup/level.dat'))
    expect([mode & 0o7777, mtime.getFullYear(), uid]).toEqual([0o750, 2020, statSync(stage.folder).uid])
    expect(statSync(at('backup')).mtime.getFullYear()).toBe(2020)
    expect(statSync(at('backup/hole'))).toMatchObject({ size: 64 * 1024 * 1024, blocks: 0 })
    expect(await ask('POST', '/copy', { from: 'world', to: 'backup', replace: true })).toMatchObject({ status: 409 })
    expect(await ask('POST', '/copy', { from: 'world', to: 'world/region/x' })).toMatchObject({
      status: 400,
      details: [{ field: 'body.to' }],
    })
    expect(await ask('POST', '/copy', { from: 'world/pipe', to: 'pipe' })).toMatchObject({ status: 400 })
    expect((await ask('POST', '/copy', { from: 'world/level.dat', to: 'backup/link', replace: true })).status).toBe(200)
    expect(lstatSync(at('backup/link')).isFile()).toBe(true)
    expect(readdirSync(stage.folder).sort()).toEqual(['backup', 'world'])
  })

  test('whose copy does not fit, or is cancelled, leaves nothing', async () => {
    mkdirSync(at('big'))
    for (let i = 0; i < 3; i++) writeFileSync(at('big', `f${i}`), Buffer.alloc(100 * 1024 * 1024, 1))
    expect(await ask('POST', '/copy', { from: 'big', to: 'again' })).toMatchObject({ status: 507 })
    expect(readdirSync(stage.folder)).toEqual(['big'])
    const leaving = new AbortController()
    const { panel, serverId } = stage
    const gone = fetch(`${panel.url}/api/servers/${serverId}/files/copy`, {
      method: 'POST',
      headers: { authorization: `Bearer ${panel.adminToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ from: 'big/f0', to: 'again' }),
      signal: leaving.signal,
    }).catch(() => 'gone')
    while (readdirSync(stage.folder).length < 2) await new Promise((resolve) => setTimeout(resolve, 1))
    leaving.abort()
    expect(await gone).toBe('gone')
    while (readdirSync(stage.folder).length > 1) await new Promise((resolve) => setTimeout(resolve, 5))
  })

  test('is deleted with all below it, one or many', async () => {
    mkdirSync(at('tree/a/b'), { recursive: true })
    put('tree/a/b/c')
    symlinkSync('/etc', at('tree/etc'))
    expect((await ask('DELETE', '/delete?path=tree')).data).toEqual({ entries: 5 })
    expect(existsSync('/etc/passwd')).toBe(true)
    expect(await ask('DELETE', '/delete?path=tree')).toMatchObject({
      status: 404,
      details: [{ field: 'query.path' }],
    })
    for (const path of ['/', '.', '//', '..']) {
      expect(await ask('DELETE', `/delete?path=${path}`)).toMatchObject({ code: 'FILE_PATH_INVALID' })
    }
    put('one')
    put('two')
    const { data } = await ask('POST', '/delete', { paths: ['one', 'none', '../x', 'two'] })
    expect(data).toMatchObject({ entries: 2, problemCount: 2 })
    expect(data.problems.map(({ path }: { path: string }) => path)).toEqual(['none', '../x'])
    expect(readdirSync(stage.folder)).toEqual([])
  })

  test('gets the mode that is asked for, without the bits that change the user', async () => {
    mkdirSync(at('bin/sub'), { recursive: true })
    put('bin/run')
    put('bin/sub/x')
    chmodSync(at('bin/run'), 0o6755)
    symlinkSync('/etc/passwd', at('bin/link'))
    const before = statSync('/etc/passwd').mode
    const set = (body: object) => ask('POST', '/permissions', body)
    const mode = (name: string): string => (statSync(at(name)).mode & 0o7777).toString(8)
    expect((await set({ path: 'bin/run', mode: '750' })).data.entries).toBe(1)
    expect(mode('bin/run')).toBe('750')
    expect((await set({ path: 'bin/run', mode: 0o700 })).status).toBe(200)
    for (const wrong of ['4755', '999', 0o1000, -1, 'rwx']) {
      expect(await set({ path: 'bin/run', mode: wrong })).toMatchObject({ code: 'VALIDATION_ERROR' })
    }
    expect((await set({ path: 'bin', mode: '640', recursive: true })).data).toMatchObject({
      entries: 4,
      problemCount: 0,
    })
    expect([mode('bin'), mode('bin/sub'), mode('bin/run'), mode('bin/sub/x')]).toEqual(['750', '750', '640', '640'])
    await set({ path: 'bin', mode: '600', folderMode: '711', recursive: true })
    expect([mode('bin/sub'), mode('bin/sub/x')]).toEqual(['711', '600'])
    expect(await set({ path: 'bin/link', mode: '777' })).toMatchObject({ code: 'FILE_PATH_INVALID' })
    expect(statSync('/etc/passwd').mode).toBe(before)
    linkSync(at('bin/run'), at('second'))
    expect(await set({ path: 'second', mode: '777' })).toMatchObject({ code: 'FILE_PATH_INVALID' })
  })

  test('is linked to by a text that leads to a place of the server', async () => {
    mkdirSync(at('a/b'), { recursive: true })
    const link = (path: string, target: string) => ask('POST', '/link', { path, target })
    expect((await link('a/b/up', '../../x/y')).status).toBe(200)
    expect(readlinkSync(at('a/b/up'))).toBe('../../x/y')
    for (const target of ['/etc', '../../../x', 'a/../../../..', 'x/../..', '..\0', '../..//../x']) {
      expect([target, await link('a/b/out', target)]).toMatchObject([target, { details: [{ field: 'body.target' }] }])
    }
    expect(await link('a/b/up', 'x')).toMatchObject({ status: 409 })
    expect(readdirSync(at('a/b'))).toEqual(['up'])
  })
})

test('checksums, the largest folders and a search look at all that is below', async () => {
  mkdirSync(at('logs/old'), { recursive: true })
  put('logs/a.log', 'first\nsecond ERROR here\n')
  put('logs/old/b.log', 'x'.repeat(50_000))
  put('logs/old/c.bin', 'ERROR\0')
  symlinkSync('/etc/passwd', at('logs/passwd'))
  const sum = (text: string): string => createHash('sha256').update(text).digest('hex')
  const sums = (await ask('POST', '/checksums', { paths: ['logs'] })).data
  expect(sums.files).toHaveLength(3)
  expect(sums.files).toContainEqual({ path: '/logs/old/b.log', size: 50_000, sha256: sum('x'.repeat(50_000)) })
  expect(await ask('POST', '/checksums', { paths: ['logs/passwd'] })).toMatchObject({
    code: 'FILE_PATH_INVALID',
    details: [{ field: 'body.paths.0' }],
  })
  expect((await ask('POST', '/checksums', { paths: ['logs/a.log', 'none', '/'] })).data).toMatchObject({
    problemCount: 1,
  })

  const usage = (await ask('GET', '/usage?path=/&depth=2')).data
  expect(usage.folders.map(({ path }: { path: string }) => path)).toEqual(['/logs', '/logs/old'])
  expect(usage).toMatchObject({ path: '/', entries: 6, bytes: 50_000 + 24 + 6 })
  expect(usage.folders[1]).toMatchObject({ bytes: 50_006, entries: 2 })
  const du = execFileSync('du', ['-s', '--block-size=1', at('logs')])
  expect(usage.folders[0].allocated).toBe(Number(du.toString().split('\t')[0]))

  const find = async (query: string) => (await ask('GET', `/search?${query}`)).data
  expect((await find('name=*.log')).hits.map(({ path }: { path: string }) => path).sort()).toEqual([
    '/logs/a.log',
    '/logs/old/b.log',
  ])
  expect(await find('text=error&ignoreCase=true')).toMatchObject({
    hits: [{ path: '/logs/a.log', line: 2, text: 'second ERROR here' }],
    unread: 1,
    cut: null,
  })
  expect((await find('text=^sec.*E%2BR&regex=true')).hits).toHaveLength(1)
  expect((await find('kind=folder')).hits).toHaveLength(2)
  expect(await find('limit=1')).toMatchObject({ cut: 'hits', hits: [{}] })
  expect(await ask('GET', '/search?text=(&regex=true')).toMatchObject({
    code: 'FILE_PATH_INVALID',
    details: [{ field: 'query.text' }],
  })
})

test('a change leaves an audit row and one event with the folders that show it', async () => {
  mkdirSync(at('a'))
  const asked = stage.panel.client
  const { data } = await asked.page(listAuditLogs, { query: { limit: 1 } })
  const newest = data[0]?.id
  put('x')
  await ask('POST', '/rename', { from: 'x', to: 'a/y' })
  await ask('POST', '/delete', { paths: ['a/y', 'a'] })
  const rows = (await asked.page(listAuditLogs, { query: { limit: 10 } })).data
  const fresh = rows.slice(
    0,
    rows.findIndex(({ id }) => id === newest),
  )
  expect(fresh.map(({ action, resourceId, details }) => ({ action, resourceId, details }))).toEqual([
    {
      action: 'server.file_delete',
      resourceId: stage.serverId,
      details: expect.objectContaining({ paths: ['a/y', 'a'], pathCount: 2, entries: 2 }),
    },
    {
      action: 'server.file_rename',
      resourceId: stage.serverId,
      details: expect.objectContaining({ from: 'x', to: 'a/y' }),
    },
  ])
})
