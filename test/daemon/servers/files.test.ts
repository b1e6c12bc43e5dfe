import { execFileSync, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  chown,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { setServerAccess, transferOwnership } from '../../../src/shared/api/access.ts'
import { login } from '../../../src/shared/api/auth.ts'
import { downloadLogs, readFile as readContent, writeFile as writeContent } from '../../../src/shared/api/files.ts'
import { createServer, getServer } from '../../../src/shared/api/servers.ts'
import { suspendServer } from '../../../src/shared/api/suspension.ts'
import { createTemplate, updateTemplate } from '../../../src/shared/api/templates.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import type { ServerId, UserId } from '../../../src/shared/kernel/ids.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { quietPort } from '../../ports.ts'
import { eventually } from '../gateway-stage.ts'

const MIB = 1024 * 1024

let panel: TestPanel
let serverId: ServerId
let folder: string

beforeAll(async () => {
  panel = await startPanel({ agent: true })
  serverId = await install('files', 256)
  folder = filesOf(serverId)
})
afterAll(() => panel.close())

/** An installed server, whose folder is its user's. */
async function install(name: string, allocatedDiskMb: number): Promise<ServerId> {
  const { client, nodeId, locationId } = panel
  const body = { name: `T ${name}`, startup: 'sleep 1000', installScript: 'echo installed', installEntrypoint: 'sh' }
  const template = await client.call(createTemplate, { body })
  const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.5, allocatedDiskMb }
  const place = { nodeId, locationId, templateId: template.id, primaryPort: await quietPort() }
  const made = await client.call(createServer, { body: { name, ...sizes, ...place } as never })
  await eventually(
    () => client.call(getServer, { params: { serverId: made.id } }),
    ({ installed, status }) => installed && status === 'stopped',
  )
  return made.id
}

function filesOf(id: string): string {
  return join(panel.dataDir, 'agent', 'servers', id)
}

const urlOf = (path: string, more = ''): string =>
  `${panel.url}/api/servers/${serverId}/files/content?path=${encodeURIComponent(path)}${more}`

async function send(
  method: string,
  path: string,
  init: { headers?: Record<string, string>; body?: Uint8Array<ArrayBuffer>; more?: string } = {},
) {
  const headers = { authorization: `Bearer ${panel.adminToken}`, ...init.headers }
  const body = init.body === undefined ? {} : { body: init.body }
  const response = await fetch(urlOf(path, init.more), { method, headers, ...body })
  const bytes = Buffer.from(await response.arrayBuffer())
  const code =
    response.status < 400 || bytes.length === 0 ? undefined : (JSON.parse(bytes.toString()) as { code: string }).code
  return { status: response.status, headers: response.headers, bytes, code }
}

/** An upload whose second half is sent when it is told to. */
function sendSlowly(path: string): { end(): Promise<{ status: number | undefined; code: string; error: string }> } {
  const headers = { authorization: `Bearer ${panel.adminToken}`, 'content-length': 2 * MIB }
  const upload = request(urlOf(path), { method: 'PUT', headers })
  upload.write(Buffer.alloc(MIB))
  return {
    end: () =>
      new Promise((resolve, reject) => {
        upload.on('error', reject).on('response', async (answer) => {
          let text = ''
          for await (const piece of answer) text += String(piece)
          resolve({ status: answer.statusCode, ...JSON.parse(text) })
        })
        upload.end(Buffer.alloc(MIB))
      }),
  }
}

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text))
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

describe('a file of a server', () => {
  test('goes in and out whole, in ranges and by its conditions', async () => {
    const put = await send('PUT', 'a.txt', { body: bytesOf('hello world') })
    expect(put.status).toBe(200)
    const { data } = JSON.parse(put.bytes.toString())
    expect(data).toMatchObject({ path: 'a.txt', size: 11, sha256: sha256(bytesOf('hello world')) })
    const etag = `"${data.etag}"`
    const whole = await send('GET', 'a.txt')
    expect([whole.status, whole.bytes.toString(), whole.headers.get('etag')]).toEqual([200, 'hello world', etag])
    const head = await send('HEAD', '/./a.txt')
    expect([head.status, head.bytes.length, head.headers.get('content-length')]).toEqual([200, 0, '11'])
    const range = (value: string, more = {}) => send('GET', 'a.txt', { headers: { range: value, ...more } })
    const part = await range('bytes=6-8')
    expect([part.status, part.bytes.toString(), part.headers.get('content-range')]).toEqual([
      206,
      'wor',
      'bytes 6-8/11',
    ])
    expect((await range('bytes=-5')).bytes.toString()).toBe('world')
    expect((await range('bytes=6-')).bytes.toString()).toBe('world')
    expect((await range('bytes=0-999')).bytes.toString()).toBe('hello world')
    expect(await range('bytes=11-')).toMatchObject({ status: 416, code: 'RANGE_NOT_SATISFIABLE' })
    // What is no single range is answered whole.
    for (const odd of ['bytes=0-1,3-4', 'bytes=5-2', 'lines=1-2', 'bytes=-', 'bytes=99999999999999999999-']) {
      expect([odd, (await range(odd)).status]).toEqual([odd, 200])
    }
    expect((await range('bytes=0-1', { 'if-range': etag })).status).toBe(206)
    expect((await range('bytes=0-1', { 'if-range': '"other"' })).status).toBe(200)
    expect((await send('GET', 'a.txt', { headers: { 'if-none-match': etag } })).status).toBe(304)
    expect((await send('GET', 'a.txt', { headers: { 'if-match': '"other"' } })).code).toBe('ETAG_MISMATCH')
    // As proxies and clients other than ours write them.
    expect((await send('GET', 'a.txt', { headers: { 'if-none-match': `"x", W/${etag}` } })).status).toBe(304)
    expect((await send('GET', 'a.txt', { headers: { 'if-match': `W/${etag}` } })).status).toBe(412)
    expect((await range('Bytes=0-1')).status).toBe(206)
    expect((await range('bytes=11-')).headers.get('content-range')).toBe('bytes */11')
    const whole11 = await send('HEAD', 'a.txt', { headers: { range: 'bytes=0-1' } })
    expect([whole11.status, whole11.headers.get('content-length')]).toEqual([200, '11'])
  })

  test('is not replaced by a part of what is meant, nor by an encoding of it', async () => {
    await send('PUT', 'part.txt', { body: bytesOf('whole') })
    const other = [
      { 'content-range': 'bytes 3-4/5' },
      { 'content-encoding': 'gzip' },
      { 'transfer-encoding': 'gzip, chunked' },
    ]
    for (const headers of other) {
      const { status, text } = await upload('part.txt', { headers, pieces: 1, piece: 3 })
      expect([status, text]).toEqual([400, expect.stringContaining(`headers.${Object.keys(headers)[0]}`)])
    }
    expect(await readFile(join(folder, 'part.txt'), 'utf8')).toBe('whole')
  })

  test('has another etag after each writing, also when its size and time are put back', async () => {
    await writeFile(join(folder, 'same'), 'one')
    execFileSync('cp', ['-p', join(folder, 'same'), join(panel.dataDir, 'before')])
    const etag = (await send('HEAD', 'same')).headers.get('etag') ?? ''
    await writeFile(join(folder, 'same'), 'two')
    execFileSync('touch', ['-r', join(panel.dataDir, 'before'), join(folder, 'same')])
    const { headers } = await send('HEAD', 'same', { headers: { 'if-none-match': etag } })
    expect(headers.get('etag')).not.toBe(etag)
  })

  test('of several writers who have read the same one is replaced by the first alone', async () => {
    for (let round = 0; round < 3; round++) {
      await writeFile(join(folder, 'race'), 'before')
      const etag = (await send('HEAD', 'race')).headers.get('etag') ?? ''
      const together = async (path: string, headers: Record<string, string>) => {
        const writers = Array.from({ length: 8 }, (_, at) =>
          send('PUT', path, { body: bytesOf(`writer ${at}`), headers: { 'content-type': 'text/plain', ...headers } }),
        )
        return (await Promise.all(writers)).map(({ status }) => status).sort()
      }
      const one = [200, ...Array.from({ length: 7 }, () => 412)]
      expect(await together('race', { 'if-match': etag })).toEqual(one)
      expect(await together(`new-${round}`, { 'if-none-match': '*' })).toEqual(one)
    }
  })

  test('is looked for at a FIFO without releasing the game that waits at its other end', async () => {
    execFileSync('mkfifo', [join(folder, 'pipe')])
    const game = spawn('sh', ['-c', 'echo precious > pipe'], { cwd: folder, stdio: 'ignore' })
    try {
      for (let i = 0; i < 5; i++) expect((await send('GET', 'pipe')).code).toBe('FILE_PATH_INVALID')
      expect(await readFile(join(folder, 'pipe'), 'utf8')).toBe('precious\n')
    } finally {
      game.kill('SIGKILL')
    }
  })

  test('is replaced only when it is the one that is meant', async () => {
    const write = (headers: Record<string, string>) => send('PUT', 'b.txt', { headers, body: bytesOf('two') })
    expect(await write({ 'if-match': '*' })).toMatchObject({ status: 412, code: 'ETAG_MISMATCH' })
    expect((await write({ 'if-none-match': '*' })).status).toBe(200)
    expect((await write({ 'if-none-match': '*' })).status).toBe(412)
    expect((await write({ 'if-match': '"other"' })).status).toBe(412)
    const etag = (await send('HEAD', 'b.txt')).headers.get('etag') ?? ''
    expect((await write({ 'if-match': etag })).status).toBe(200)
    expect((await write({ 'if-match': etag })).status).toBe(412)
    expect((await write({ 'if-match': 'W/"a", "b"' })).code).toBe('VALIDATION_ERROR')
    expect((await write({ 'if-none-match': '"a"' })).code).toBe('VALIDATION_ERROR')
  })

  test("belongs to the server's user, keeps its mode, and nothing else is left in the folder", async () => {
    await send('PUT', 'mode.sh', { body: bytesOf('#!/bin/sh') })
    const { uid, gid } = await stat(folder)
    expect(await stat(join(folder, 'mode.sh'))).toMatchObject({ uid, gid, mode: 0o100644 })
    execFileSync('chmod', ['755', join(folder, 'mode.sh')])
    await send('PUT', 'mode.sh', { body: bytesOf('#!/bin/bash') })
    expect(await stat(join(folder, 'mode.sh'))).toMatchObject({ uid, gid, mode: 0o100755 })
    expect((await readdir(folder)).filter((name) => name.startsWith('.panel-upload-'))).toEqual([])
  })

  test('is not reached by paths that lead out, and neither are links, folders, FIFOs and devices', async () => {
    await mkdir(join(folder, 'sub'))
    await symlink('/etc', join(folder, 'etc'))
    await symlink('/etc/passwd', join(folder, 'passwd'))
    execFileSync('mkfifo', [join(folder, 'fifo')])
    execFileSync('mknod', [join(folder, 'zero'), 'c', '1', '5'])
    const wrong = [
      '../a.txt',
      'sub/../../a.txt',
      '/',
      '.',
      'a\0b',
      'x'.repeat(256),
      '.panel-upload-x',
      'passwd',
      'sub',
      'fifo',
      'zero',
    ]
    for (const path of wrong) {
      expect([path, (await send('GET', path)).code]).toEqual([path, 'FILE_PATH_INVALID'])
      expect([path, (await send('PUT', path, { body: bytesOf('x') })).code]).toEqual([path, 'FILE_PATH_INVALID'])
    }
    for (const path of ['etc/passwd', 'passwd/x', 'a.txt/x', 'none/x', 'none', `${'d/'.repeat(1500)}x`]) {
      expect([path, (await send('GET', path)).code]).toEqual([path, 'FILE_NOT_FOUND'])
    }
    for (const path of ['etc/new', 'none/x']) {
      expect([path, (await send('PUT', path, { body: bytesOf('x') })).code]).toEqual([path, 'FILE_NOT_FOUND'])
    }
    const { bytes } = await send('PUT', 'none/x', { body: bytesOf('x') })
    expect(JSON.parse(bytes.toString())).toMatchObject({ error: 'There is no folder /none' })
    expect((await send('GET', 'y'.repeat(5000))).code).toBe('VALIDATION_ERROR')
    expect((await lstat(join(folder, 'passwd'))).isSymbolicLink()).toBe(true)
  })

  test('of which an upload is cut off stays as it was, and the upload goes on where it was', async () => {
    await send('PUT', 'big.bin', { body: bytesOf('old') })
    const content = new Uint8Array(randomBytes(24 * MIB))
    const hash = sha256(content)
    await cutUpload('big.bin', { hash, content, after: 9 * MIB })
    expect(await readFile(join(folder, 'big.bin'), 'utf8')).toBe('old')
    const offsetNow = async () =>
      Number((await send('HEAD', 'big.bin', { more: `&upload=${hash}` })).headers.get('upload-offset'))
    const offset = await eventually(offsetNow, (now) => now > 0)
    expect(offset).toBeLessThanOrEqual(9 * MIB)
    // Elsewhere than at its end it does not go on, and what has another hash is not put in the place.
    expect(
      (await send('PUT', 'big.bin', { more: `&sha256=${hash}&offset=${20 * MIB}`, body: bytesOf('x') })).code,
    ).toBe('CONFLICT')
    const rest = content.subarray(offset)
    const done = await eventually(
      () => send('PUT', 'big.bin', { more: `&sha256=${hash}&offset=${offset}`, body: rest }),
      ({ status }) => status === 200,
    )
    expect(JSON.parse(done.bytes.toString()).data).toMatchObject({ size: content.length, sha256: hash })
    expect(sha256(await readFile(join(folder, 'big.bin')))).toBe(hash)
    expect(sha256((await send('GET', 'big.bin')).bytes)).toBe(hash)
    expect((await send('PUT', 'big.bin', { more: `&sha256=${'0'.repeat(64)}`, body: bytesOf('other') })).code).toBe(
      'VALIDATION_ERROR',
    )
    expect((await stat(join(folder, 'big.bin'))).size).toBe(content.length)
    expect((await readdir(folder)).filter((name) => name.startsWith('.panel-upload-'))).toEqual([])
  })

  test('whose folder, or whose beginning, is taken away while it is sent is refused as a conflict that says so', async () => {
    const partOf = async (): Promise<string | undefined> =>
      (await readdir(join(folder, 'gone')).catch(() => [])).find((name) => name.startsWith('.panel-upload-'))
    for (const [taken, message] of [
      ['the folder', 'The folder of the file was deleted meanwhile'],
      ['the part', 'What was written was taken away meanwhile'],
    ]) {
      await mkdir(join(folder, 'gone'))
      const begun = sendSlowly('gone/a.bin')
      const part = await eventually(partOf, (name) => name !== undefined)
      await rm(join(folder, 'gone', taken === 'the part' ? String(part) : ''), { recursive: true })
      expect(await begun.end()).toMatchObject({
        status: 409,
        code: 'CONFLICT',
        error: expect.stringContaining(message ?? ''),
      })
      await rm(join(folder, 'gone'), { recursive: true, force: true })
    }
  })

  test('that changes while it is read ends in the middle, and never as if it were whole', async () => {
    const log = join(folder, 'log')
    const changes = [
      () => truncate(log, 1 * MIB),
      async () => {
        const file = await open(log, 'r+')
        await file.write('x', 1 * MIB)
        await file.close()
      },
    ]
    for (const change of changes) {
      await writeFile(log, Buffer.alloc(64 * MIB))
      const response = await fetch(urlOf('log'), { headers: { authorization: `Bearer ${panel.adminToken}` } })
      const reader = response.body?.getReader()
      await reader?.read()
      await change()
      const drain = async (): Promise<void> => {
        while ((await reader?.read())?.done === false);
      }
      await expect(drain()).rejects.toThrow()
    }
    await truncate(log, 0) // the server's disk has a limit
  })

  test('does not pass the disk limit of its server, nor the limit of files', async () => {
    await writeFile(join(folder, 'full'), Buffer.alloc(200 * MIB, 1))
    const small = serverId
    serverId = await install('small', 16)
    try {
      const large = new Uint8Array(20 * MIB)
      expect(await send('PUT', 'x', { body: large })).toMatchObject({ status: 507, code: 'INSUFFICIENT_SPACE' })
      expect(await readdir(filesOf(serverId))).toEqual([])
      // Who does not say how much there will be, and reads no answer before all is sent.
      const unknown = { headers: { 'transfer-encoding': 'chunked' }, pieces: 40, piece: MIB / 2 }
      const full = await upload('x', { ...unknown, more: `&sha256=${'0'.repeat(64)}` })
      expect([full.status, full.text]).toEqual([507, expect.stringContaining('INSUFFICIENT_SPACE')])
      expect(await readdir(filesOf(serverId))).toEqual([])
      await panel.configure('files.maxFileMb', 1)
      expect(await send('PUT', 'x', { body: large })).toMatchObject({ status: 413, code: 'PAYLOAD_TOO_LARGE' })
      const over = await upload('x', unknown)
      expect([over.status, over.text]).toEqual([413, expect.stringContaining('PAYLOAD_TOO_LARGE')])
    } finally {
      await panel.configure('files.maxFileMb', 10_240)
      serverId = small
    }
  })

  test('with another name elsewhere is replaced, and the other name keeps what it had', async () => {
    const outside = join(panel.dataDir, 'outside')
    await writeFile(outside, 'precious')
    await link(outside, join(folder, 'alias'))
    const { uid } = await stat(folder)
    await chown(outside, uid, uid)
    expect((await send('PUT', 'alias', { body: bytesOf('new') })).status).toBe(200)
    expect(await readFile(outside, 'utf8')).toBe('precious')
  })
})

describe('the console log of a server', () => {
  test('is downloaded whole, as text', async () => {
    const { content, headers } = await panel.client.stream(downloadLogs, { params: { serverId } })
    let text = ''
    for await (const piece of content) text += Buffer.from(piece).toString()
    expect(headers.get('content-type')).toBe('text/plain; charset=utf-8')
    const lines = text.trimEnd().split('\n')
    expect(lines.length).toBeGreaterThan(2)
    for (const line of lines) expect(line).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z (system|stdout|stderr|stdin {0,2}) /)
    expect(text).toContain(' installed\n')
  })
})

/** Somebody without any role, signed in. */
async function person(name: string): Promise<{ id: UserId; token: string }> {
  const [email, password] = [`${name}@example.org`, 'Correct-horse-1']
  const { id } = await panel.client.call(createUser, { body: { email, username: name, password, roleIds: [] } })
  return { id, token: (await panel.as(undefined).call(login, { body: { email, password } })).token }
}

test('files that the template denies are refused to owner and sub-user, however they are spelt, and not to an operator', async () => {
  const { templateId } = await panel.client.call(getServer, { params: { serverId } })
  const deny = (fileDenylist: string[]) =>
    panel.client.call(updateTemplate, { params: { templateId }, body: { fileDenylist } })
  const [owner, member] = [await person('owner'), await person('member')]
  const params = { serverId }
  await panel.client.call(transferOwnership, { params, body: { newOwnerId: owner.id } })
  const permissions = ['server.read', 'file.read', 'file.write'] as const
  await panel.client.call(setServerAccess, { params, body: { targetUserId: member.id, permissions: [...permissions] } })
  await mkdir(join(folder, 'admin'), { recursive: true })
  for (const path of ['key.secret', 'admin/list.json', 'open.txt', 'keep.secret'])
    await writeFile(join(folder, path), 'one')
  await symlink('key.secret', join(folder, 'link.txt'))
  await deny(['*.secret', '!keep.secret', '/admin/'])
  const as = (token: string) => ({ authorization: `Bearer ${token}` })
  const denied = ['key.secret', 'KEY.Secret', './/key.secret', 'deep/new.secret', 'admin/list.json', 'Admin/new.json']
  for (const { token } of [owner, member]) {
    for (const path of denied) {
      for (const method of ['GET', 'HEAD']) {
        const read = await send(method, path, { headers: as(token) })
        expect([method, path, read.status, read.bytes.length > 0 ? read.code : 'PERMISSION_DENIED']).toEqual([
          method,
          path,
          403,
          'PERMISSION_DENIED',
        ])
      }
      const write = await send('PUT', path, { headers: as(token), body: bytesOf('mine') })
      expect(write, path).toMatchObject({ status: 403, code: 'PERMISSION_DENIED' })
      expect(write.bytes.toString()).toContain('keeps')
      const hash = sha256(bytesOf('mine'))
      expect((await send('HEAD', path, { headers: as(token), more: `&upload=${hash}` })).status).toBe(403)
    }
    // A link that the game has made is no way in.
    expect((await send('GET', 'link.txt', { headers: as(token) })).status).toBe(400)
    for (const path of ['open.txt', 'keep.secret']) {
      expect((await send('GET', path, { headers: as(token) })).bytes.toString()).toBe('one')
      expect((await send('PUT', path, { headers: as(token), body: bytesOf('one') })).status).toBe(200)
    }
  }
  expect((await readdir(folder)).sort()).not.toContain('deep')
  expect(await readFile(join(folder, 'key.secret'), 'utf8')).toBe('one')
  expect((await send('GET', 'key.secret')).bytes.toString()).toBe('one')
  expect((await send('PUT', 'admin/list.json', { body: bytesOf('two') })).status).toBe(200)
  await deny([])
  expect((await send('GET', 'key.secret', { headers: as(member.token) })).status).toBe(200)
})

test('suspended servers give and take no files', async () => {
  await panel.client.call(suspendServer, { params: { serverId }, body: { reason: 'test' } as never })
  const params = { serverId }
  await expect(panel.client.stream(readContent, { params, query: { path: 'a.txt' } })).rejects.toMatchObject({
    code: 'SERVER_SUSPENDED',
  })
  async function* one(): AsyncGenerator<Uint8Array> {
    yield bytesOf('x')
  }
  const body = { contentType: 'text/plain', length: 1, content: one(), cancel: () => {} }
  await expect(panel.client.call(writeContent, { params, query: { path: 'a.txt' }, body })).rejects.toMatchObject({
    code: 'SERVER_SUSPENDED',
  })
})

/** An upload as a simple client sends it: all of it in chunks, and only then it reads. */
async function upload(
  path: string,
  {
    headers,
    pieces,
    piece,
    more = '',
  }: { headers: Record<string, string>; pieces: number; piece: number; more?: string },
): Promise<{ status: number; text: string }> {
  const { hostname, port } = new URL(panel.url)
  const socket = connect(Number(port), hostname)
  const all = {
    host: `${hostname}:${port}`,
    authorization: `Bearer ${panel.adminToken}`,
    'transfer-encoding': 'chunked',
    ...headers,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`)
  socket.write(`PUT ${urlOf(path, more).slice(panel.url.length)} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
  const chunk = Buffer.concat([Buffer.from(`${piece.toString(16)}\r\n`), Buffer.alloc(piece), Buffer.from('\r\n')])
  for (let i = 0; i < pieces; i++) await new Promise((resolve) => socket.write(chunk, resolve))
  socket.write('0\r\n\r\n')
  let text = ''
  for await (const part of socket) {
    text += String(part)
    if (text.endsWith('}')) break
  }
  return { status: Number(text.slice(9, 12)), text }
}

/** Sends a part of an upload over a socket of its own, and cuts it. */
async function cutUpload(
  path: string,
  { hash, content, after }: { hash: string; content: Uint8Array; after: number },
): Promise<void> {
  const { hostname, port } = new URL(panel.url)
  const socket = connect(Number(port), hostname)
  const head = [
    `PUT ${urlOf(path, `&sha256=${hash}`).slice(panel.url.length)} HTTP/1.1`,
    `Host: ${hostname}:${port}`,
    `Authorization: Bearer ${panel.adminToken}`,
    'Content-Type: application/octet-stream',
    `Content-Length: ${content.length}`,
  ]
  socket.on('error', () => {}) // it is cut here
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  await new Promise((resolve) => socket.write(content.subarray(0, after), resolve))
  const parts = async (): Promise<number> => {
    const names = (await readdir(folder)).filter((name) => name.startsWith('.panel-upload-'))
    return names[0] === undefined ? 0 : (await stat(join(folder, names[0]))).size
  }
  await eventually(parts, (size) => size >= MIB)
  socket.destroy()
}
