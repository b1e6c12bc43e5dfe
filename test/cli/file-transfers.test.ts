import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { RunOptions } from '../run-panel.ts'
import { runBriefly } from './command-walk.ts'
import { serverAnswer } from './tui/server-answer.ts'

const ID = 'srv_01k000000000000000000000aa'
const CONTENT = '0123456789'

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown

let folder: string
let http: Server
let url: string
/** What is answered to one request for the file after the other; the last one again and again. */
let answers: Answer[]
let asked: string[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-cli-files-'))
  await mkdir(join(folder, 'here'))
  answers = []
  asked = []
  http = createServer((request, response) => {
    const path = (request.url ?? '').split('?')[0]
    if (path?.endsWith('/files/content') === true) {
      const { range } = request.headers
      asked.push([request.method, range, new URL(request.url ?? '', url).searchParams.get('offset')].join(' ').trim())
      const answer = answers.length > 1 ? answers.shift() : answers[0]
      return void answer?.(request, response)
    }
    const server = { ...serverAnswer('stopped'), id: ID, name: 'demo' }
    const data = path === '/api/servers' ? [server] : server
    const pagination = { page: 1, limit: 50, total: 1, totalPages: 1 }
    json(response, 200, { success: true, data, pagination })
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(http.address() as AddressInfo).port}` // it listens on TCP
})
afterEach(async () => {
  http.closeAllConnections()
  await new Promise((resolve) => http.close(resolve))
  await rm(folder, { recursive: true })
})

function run(args: readonly string[], options: RunOptions = {}) {
  const env = { HOME: folder, PANEL_URL: url, PANEL_TOKEN: 'pak_01k000000000000000000000aa_secret' }
  return runBriefly(['files', ...args], { ...options, env })
}

function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

const refuse = (status: number, code: string, meta: Record<string, unknown> = {}): Answer => {
  return (request, response) => {
    request.resume()
    json(response, status, { success: false, error: `refused: ${code}`, code, meta, requestId: 'req_1' })
  }
}

/** Bytes from an offset on, after which the connection is cut. */
const piece = (from: number, to: number, { etag = '"e1"', status = from === 0 ? 200 : 206 } = {}): Answer => {
  return (_, response) => {
    const range = from === 0 ? {} : { 'content-range': `bytes ${from}-9/10` }
    response.writeHead(status, { etag, ...range })
    response.write(CONTENT.slice(from, to), () => setImmediate(() => response.destroy()))
  }
}

describe('a download', () => {
  const target = (): string => join(folder, 'here', 'a.txt')
  const left = () => readdir(join(folder, 'here'))

  it('that is cut goes on where it was, and is whole when nothing was left to fetch', async () => {
    answers = [piece(0, 4), piece(4, 10), refuse(416, 'RANGE_NOT_SATISFIABLE', { size: 10 })]
    const ran = await run(['get', ID, 'a.txt', target()])
    expect(ran).toMatchObject({ code: 0, stderr: expect.stringContaining('connection lost; resuming at 4 B') })
    expect(asked).toEqual(['GET', 'GET bytes=4-', 'GET bytes=10-'])
    expect([await readFile(target(), 'utf8'), await left()]).toEqual([CONTENT, ['a.txt']])
  })

  it('of a file that has changed meanwhile leaves nothing', async () => {
    answers = [piece(0, 4), piece(0, 10, { etag: '"e2"' })]
    expect(await run(['get', ID, 'a.txt', target()])).toMatchObject({
      code: 11,
      stderr: expect.stringContaining('was changed while it was downloaded'),
    })
    answers = [piece(0, 4), refuse(416, 'RANGE_NOT_SATISFIABLE', { size: 2 })]
    expect((await run(['get', ID, 'a.txt', target()])).code).toBe(8)
    expect(await left()).toEqual([])
  })

  it('that is interrupted leaves nothing, and nothing has its name before', async () => {
    let named: string[] = []
    const begun = new AbortController()
    answers = [
      async (_, response) => {
        response.writeHead(200, { etag: '"e1"', 'content-length': '10' }).write('0123')
        named = (await left()).filter((name) => !name.startsWith('.'))
        begun.abort()
      },
    ]
    const { code } = await run(['get', ID, 'a.txt', target()], { interrupt: begun.signal })
    expect([code, named, await left()]).toEqual([130, [], []])
  })

  it('replaces a file only when that is asked for, and never a folder, a FIFO or a device', async () => {
    answers = [(_, response) => response.writeHead(200, { etag: '"e1"', 'content-length': '10' }).end(CONTENT)]
    await writeFile(target(), 'mine')
    execFileSync('mkfifo', [join(folder, 'here', 'fifo')])
    const get = async (...args: string[]) => (await run(['get', ID, 'a.txt', ...args])).code
    expect(await get(target())).toBe(2)
    expect(await get(join(folder, 'here'), '--force')).toBe(2)
    expect(await get(join(folder, 'here', 'fifo'), '--force')).toBe(2)
    expect(await get(join(folder, 'none', 'a.txt'))).toBe(2)
    expect((await lstat(join(folder, 'here', 'fifo'))).isFIFO()).toBe(true)
    expect(await readFile(target(), 'utf8')).toBe('mine')
    expect(await get(target(), '--force')).toBe(0)
    expect([await readFile(target(), 'utf8'), await left()]).toEqual([CONTENT, ['a.txt', 'fifo']])
  })

  it('does not take the name from a file that has appeared meanwhile', async () => {
    answers = [
      async (_, response) => {
        await writeFile(target(), 'mine')
        response.writeHead(200, { etag: '"e1"', 'content-length': '10' }).end(CONTENT)
      },
    ]
    expect((await run(['get', ID, 'a.txt', target()])).code).toBe(2)
    expect([await readFile(target(), 'utf8'), await left()]).toEqual(['mine', ['a.txt']])
  })
})

describe('an upload', () => {
  const offset = (bytes: number): Answer => {
    return (_, response) => response.writeHead(200, { 'upload-offset': String(bytes) }).end()
  }

  it('whose earlier attempt has not ended on the node yet goes on where that one was', async () => {
    const source = join(folder, 'a.txt')
    await writeFile(source, CONTENT)
    let body = ''
    const take: Answer = async (request, response) => {
      for await (const part of request) body += String(part)
      const sha256 = createHash('sha256').update(CONTENT).digest('hex')
      const data = { path: 'a.txt', size: 10, sha256, etag: 'e1', modifiedAt: '2026-01-01T00:00:00.000Z' }
      json(response, 200, { success: true, data })
    }
    answers = [offset(0), refuse(409, 'CONFLICT'), offset(3), take]
    expect(await run(['put', ID, 'a.txt', source])).toMatchObject({ code: 0 })
    expect([asked, body]).toEqual([['HEAD', 'PUT  0', 'HEAD', 'PUT  3'], '3456789'])
  })

  it('that is refused says why, which an answer to HEAD cannot', async () => {
    const source = join(folder, 'a.txt')
    await writeFile(source, CONTENT)
    answers = [refuse(426, 'AGENT_VERSION')]
    expect(await run(['put', ID, 'a.txt', source])).toMatchObject({
      code: 12,
      stderr: expect.stringContaining('refused: AGENT_VERSION'),
    })
    expect(asked).toEqual(['HEAD', 'PUT  0'])
  })

  it('of a file that changes meanwhile says so and is not tried again', async () => {
    const source = join(folder, 'a.bin')
    await writeFile(source, '')
    await truncate(source, 64 * 1024 * 1024)
    answers = [
      offset(0),
      async (request) => {
        await truncate(source, 1024)
        request.on('error', () => {}).resume() // the command cuts it
      },
    ]
    expect(await run(['put', ID, 'a.bin', source])).toMatchObject({
      code: 11,
      stderr: expect.stringContaining('was changed while it was sent'),
    })
    expect(asked).toEqual(['HEAD', 'PUT  0'])
  })
})
