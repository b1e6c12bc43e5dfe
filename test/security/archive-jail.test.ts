import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { enterFileStage, type FileStage } from '../daemon/servers/file-stage.ts'
import { type Forged, forgeTar, forgeZip, paxRecord } from './tar-forge.ts'

let stage: FileStage
let outside: string
let source: Server
/** What the source answers, by path. */
const answers = new Map<string, { status: number; headers?: Record<string, string>; body?: string }>()
let base: string
const at = (...names: string[]): string => join(stage.folder, ...names)

beforeAll(async () => {
  stage = await enterFileStage({ diskMb: 64 })
  outside = join(stage.panel.dataDir, 'outside')
  source = createServer((request, response) => {
    const { status, headers = {}, body = '' } = answers.get(request.url ?? '') ?? { status: 404 }
    response.writeHead(status, headers).end(body)
  })
  await new Promise<void>((resolve) => source.listen(0, '127.0.0.2', resolve))
  base = `http://127.0.0.2:${(source.address() as AddressInfo).port}`
})
afterAll(async () => {
  await stage.close()
  source.closeAllConnections()
  await new Promise((resolve) => source.close(resolve))
})
beforeEach(() => {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  rmSync(outside, { recursive: true, force: true })
  mkdirSync(outside)
  writeFileSync(join(outside, 'secret'), 'precious')
  mkdirSync(at('home'))
  writeFileSync(at('home', 'file'), 'own')
  symlinkSync(outside, at('home', 'out'))
})

const isUntouched = (): void => {
  expect(readdirSync(outside)).toEqual(['secret'])
  expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('precious')
  expect(lstatSync(join(outside, 'secret')).nlink).toBe(1)
}
/** Names below the server's folder, without the archive. */
const found = (): string[] =>
  readdirSync(stage.folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => !name.startsWith('home') && name !== 'evil')
    .sort()

async function unpack(bytes: Buffer, targetPath = '/') {
  writeFileSync(at('evil'), bytes)
  return await stage.ask('POST', '/decompress', { archivePath: 'evil', targetPath })
}

const link = (name: string, target: string): Forged => ({ name, type: '2', target })
const file = (name: string, content = 'evil'): Forged => ({ name, content })

/** Each is refused as a whole, and leaves all as it was. */
const REFUSED: readonly (readonly [string, () => Buffer])[] = [
  ['a tar with ".." before a name', () => forgeTar([file('../outside/secret')])],
  ['a tar with ".." within a name', () => forgeTar([file('a/../../outside/secret')])],
  ['a tar with an absolute name', () => forgeTar([file(`/etc/evil`)])],
  [
    'a tar with ".." in a name of GNU',
    () => forgeTar([{ name: 'x', type: 'L', content: '../outside/secret\0' }, file('x')]),
  ],
  [
    'a tar with ".." in a name of pax',
    () => forgeTar([{ name: 'x', type: 'x', content: paxRecord('path', '../outside/x') }, file('x')]),
  ],
  ['a tar whose folder is ".."', () => forgeTar([{ name: '../outside/', type: '5' }])],
  ['a tar with a good file before the bad one', () => forgeTar([file('good'), file('../bad')])],
  [
    'a tar with a further name of what is outside',
    () => forgeTar([{ name: 'x', type: '1', target: '../outside/secret' }]),
  ],
  ['a tar with a record of 1 GiB', () => forgeTar([{ name: 'x', type: 'L', size: 2 ** 30 }])],
  [
    'a tar with a record that lies of its length',
    () => forgeTar([{ name: 'x', type: 'x', content: '999 path=a\n' }, file('x')]),
  ],
  [
    'a tar with a size that is none',
    () => forgeTar([{ name: 'x', type: 'x', content: paxRecord('size', '-5') }, file('x')]),
  ],
  ['a tar with a size below zero', () => forgeTar([{ name: 'x', size: Buffer.alloc(12, 0xff) }])],
  ['a tar with a size of 2^80', () => forgeTar([{ name: 'x', size: Buffer.from('80040000000000000000000', 'hex') }])],
  ['a tar with a wrong checksum', () => forgeTar([{ ...file('x'), checksum: 5 }])],
  ['a tar that ends in the middle', () => forgeTar([{ name: 'x', content: 'half', size: 4000 }], true)],
  ['a tar that says to be 8 GiB', () => forgeTar([{ name: 'x', size: 0o77777777777 }])],
  [
    'a tar with a path of 8,000 bytes',
    () => forgeTar([{ name: 'x', type: 'L', content: `${'a/'.repeat(4000)}x\0` }, file('x')]),
  ],
  [
    'a tar with 65 folders below each other',
    () => forgeTar([{ name: 'x', type: 'L', content: `${'a/'.repeat(65)}x\0` }, file('x')]),
  ],
  [
    'a tar with a name of 300 bytes',
    () => forgeTar([{ name: 'x', type: 'L', content: `${'a'.repeat(300)}\0` }, file('x')]),
  ],
  ['bytes that are no archive', () => Buffer.from('hello there')],
  ['nothing', () => Buffer.alloc(0)],
  ['a gzip that is cut', () => gzipSync(forgeTar([file('x')])).subarray(0, 40)],
  ['a bomb by ratio', () => gzipSync(forgeTar([{ name: 'x', content: Buffer.alloc(16 * 1024 * 1024) }]), { level: 9 })],
  ['a zip with ".."', () => forgeZip([{ name: '../outside/secret', content: 'evil' }])],
  ['a zip with ".." of Windows', () => forgeZip([{ name: '..\\outside\\secret', content: 'evil' }])],
  ['a zip with an absolute name', () => forgeZip([{ name: '/etc/evil', content: 'evil' }])],
  ['a zip with NUL in a name', () => forgeZip([{ name: 'a\0b', content: 'evil' }])],
  [
    'a zip whose entries lie over each other',
    () =>
      forgeZip([
        { name: 'a', content: 'x'.repeat(100) },
        { name: 'b', content: 'y', offset: 0 },
      ]),
  ],
  ['a zip whose entry is larger than it says', () => forgeZip([{ name: 'a', content: 'xxxx', uncompressedSize: 2 }])],
  ['a zip that is encrypted', () => forgeZip([{ name: 'a', content: 'x', encrypted: true }])],
  ['a zip that is cut', () => forgeZip([{ name: 'a', content: 'x' }]).subarray(0, 50)],
]

/** Each is unpacked without what means harm; `left` is what is there afterwards. */
const HARMLESS: readonly (readonly [string, () => Buffer, readonly string[]])[] = [
  [
    'a link out, then a file through it',
    () => forgeTar([link('way', '../outside'), file('way/secret')]),
    ['way', 'way/secret'],
  ],
  [
    'an absolute link, then a file through it',
    () => forgeTar([link('way', '/etc'), file('way/evil')]),
    ['way', 'way/evil'],
  ],
  ['a link that goes up and down', () => forgeTar([link('way', 'home/../../outside')]), []],
  ['a link in a folder that leaves it too far', () => forgeTar([link('a/way', '../../outside')]), ['a']],
  ['a file, then a link of its name', () => forgeTar([file('x'), link('x', '../outside/secret')]), ['x']],
  [
    'a link, then a folder of its name',
    () => forgeTar([link('x', 'home'), { name: 'x/', type: '5' }, file('x/y')]),
    ['x', 'x/y'],
  ],
  [
    'a further name of a link',
    () => forgeTar([link('l', '../outside/secret'), { name: 'x', type: '1', target: 'l' }]),
    [],
  ],
  [
    '".." in a global record',
    () => forgeTar([{ name: 'x', type: 'g', content: paxRecord('path', '../x') }, file('x')]),
    ['x'],
  ],
  ['a device', () => forgeTar([{ name: 'x', type: '3' }, file('good')]), ['good']],
  ['a FIFO', () => forgeTar([{ name: 'x', type: '6' }, file('good')]), ['good']],
  ['a sparse file of GNU', () => forgeTar([{ name: 'x', type: 'S' }, file('good')]), ['good']],
  ['a kind that nobody knows', () => forgeTar([{ name: 'x', type: 'Z' }, file('good')]), ['good']],
  ['a name of the agent’s own', () => forgeTar([file('.panel-upload-x'), file('good')]), ['good']],
  ['a file below a file', () => forgeTar([file('x'), file('x/y')]), ['x']],
  ['a file twice', () => forgeTar([file('x', 'first'), file('x', 'second')]), ['x']],
  ['a file where a link leads out', () => forgeTar([file('home/out/secret'), file('good')]), ['good']],
  [
    'a link of a zip that leads out',
    () =>
      forgeZip([
        { name: 'way', content: '../outside', mode: 0o120777 },
        { name: 'way/x', content: 'x' },
      ]),
    ['way', 'way/x'],
  ],
  [
    'a device of a zip',
    () =>
      forgeZip([
        { name: 'dev', mode: 0o020666 },
        { name: 'good', content: 'x' },
      ]),
    ['good'],
  ],
]

describe('an archive', () => {
  test.each(REFUSED)('%s is refused and leaves nothing', async (_, make) => {
    const { status, code } = await unpack(make())
    expect([400, 507]).toContain(status)
    expect(['FILE_ARCHIVE_UNSUPPORTED', 'INSUFFICIENT_SPACE']).toContain(code)
    expect(found()).toEqual([])
    isUntouched()
  })

  test.each(HARMLESS)('with %s is unpacked without it', async (_, make, left) => {
    const { status } = await unpack(make())
    expect(status).toBe(200)
    expect(found()).toEqual(left)
    for (const name of left) expect(lstatSync(at(name)).isSymbolicLink()).toBe(false)
    isUntouched()
  })

  test('is not unpacked through a link, nor read or written through one', async () => {
    const bytes = forgeTar([file('x')])
    writeFileSync(join(outside, 'a.tar'), bytes)
    expect((await unpack(bytes, '/home/out')).status).toBe(400)
    expect((await stage.ask('POST', '/decompress', { archivePath: 'home/out/a.tar' })).status).toBe(404)
    expect((await stage.ask('POST', '/compress', { paths: ['home'], archiveName: '/home/out/b.tar' })).status).toBe(404)
    expect((await stage.ask('POST', '/compress', { paths: ['home/out/secret'], archiveName: 'b.tar' })).status).toBe(
      404,
    )
    expect(readdirSync(outside).sort()).toEqual(['a.tar', 'secret'])
    expect(existsSync(at('b.tar'))).toBe(false)
  })
})

const refusedUrl = async (url: string) => await stage.ask('POST', '/pull', { url, path: '/', name: 'pulled' })

describe('a file of the internet', () => {
  test.each([
    'http://127.0.0.1/x',
    'http://localhost/x',
    'http://[::1]/x',
    'http://[::ffff:127.0.0.1]/x',
    'http://0.0.0.0/x',
    'http://10.1.2.3/x',
    'http://169.254.169.254/latest/meta-data',
    'http://[fe80::1]/x',
    'http://[fd00::1]/x',
    'http://2130706433/x',
    'http://0x7f.1/x',
  ])('is not fetched from %s', async (url) => {
    const { status, code } = await refusedUrl(url)
    expect({ status, code }).toEqual({ status: 400, code: 'FILE_PATH_INVALID' })
  })

  test.each(['http://127.0.0.1:1/x', 'http://[::1]/x', 'file:///etc/passwd', '//169.254.169.254/x'])(
    'is not fetched by a redirect to %s',
    async (location) => {
      answers.set('/redirect', { status: 302, headers: { location } })
      expect((await refusedUrl(`${base}/redirect`)).code).toBe('FILE_PATH_INVALID')
      expect(existsSync(at('pulled'))).toBe(false)
    },
  )

  // The stage allows the ports above 1023, where its sources listen.
  test.each([21, 22, 25, 79, 110, 1023])('is not fetched from port %i, nor by a redirect there', async (port) => {
    const refused = { field: 'body.url', message: expect.stringContaining('pull.allowedPorts') }
    expect((await refusedUrl(`http://127.0.0.2:${port}/x`)).details).toEqual([refused])
    answers.set('/to-port', { status: 302, headers: { location: `http://127.0.0.2:${port}/x` } })
    expect((await refusedUrl(`${base}/to-port`)).details).toEqual([refused])
  })

  test('leads through five redirects at most, and gets no name that leads elsewhere', async () => {
    answers.set('/round', { status: 302, headers: { location: '/round' } })
    expect((await refusedUrl(`${base}/round`)).status).toBeGreaterThanOrEqual(500)
    const headers = { 'content-disposition': 'attachment; filename="../../outside/secret"' }
    answers.set('/named', { status: 200, headers, body: 'evil' })
    const { data } = await stage.ask('POST', '/pull', { url: `${base}/named`, path: '/' })
    expect(data).toMatchObject({ path: '/secret', size: 4 })
    answers.set('/large', { status: 200, headers: { 'content-length': String(2 ** 40) } })
    expect((await refusedUrl(`${base}/large`)).code).toBe('INSUFFICIENT_SPACE')
    isUntouched()
  })
})
