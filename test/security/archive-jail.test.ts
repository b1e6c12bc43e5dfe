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
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { enterFileStage, type FileStage } from '../daemon/servers/file-stage.ts'
import { HARMLESS, REFUSED } from './hostile-archives.ts'
import { forgeTar } from './tar-forge.ts'

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
    const bytes = forgeTar([{ name: 'x', content: 'evil' }])
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
