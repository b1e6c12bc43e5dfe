import { once } from 'node:events'
import { connect, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ShortReads } from '../../src/daemon/core/short-reads.ts'
import { ReadingPace } from '../../src/daemon/http/reading-pace.ts'
import { startPanel, type TestPanel } from '../panel.ts'

let panel: TestPanel

beforeAll(async () => {
  panel = await startPanel({ env: { PANEL_HTTP__MAX_CONNECTIONS: '2000' } })
})

afterAll(() => panel.close())

/** Far more than are worked on at once. */
const MANY = 300
const PATIENCE_MS = 20_000

const open: Socket[] = []

afterAll(() => {
  for (const socket of open) socket.destroy()
})

async function connection(): Promise<Socket> {
  const { hostname, port } = new URL(panel.url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  open.push(socket)
  return socket
}

/** Asks on this connection, which stays open, and resolves with the body of the answer. */
async function ask(socket: Socket, path = '/api/nodes'): Promise<string> {
  const answer = new Promise<string>((resolve, reject) => {
    let all = ''
    const take = (chunk: Buffer): void => {
      all += chunk.toString()
      const [head = '', body] = all.split('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1])
      if (body === undefined || body.length < length) return
      socket.off('data', take)
      socket.off('close', cut)
      if (/^HTTP\/1.1 200/.test(head)) resolve(body)
      else reject(new Error(head))
    }
    socket.on('data', take)
    const cut = (): void => reject(new Error('closed'))
    socket.once('close', cut)
  })
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${panel.adminToken}\r\n\r\n`)
  return await answer
}

test('hundreds of connections that ask all the time all get their answers, one after the other', {
  timeout: PATIENCE_MS,
}, async () => {
  const all = await Promise.all(Array.from({ length: MANY }, connection))
  const answers = await Promise.all(
    all.map(async (socket) => {
      const bodies = new Set<string>()
      for (let i = 0; i < 20; i++) bodies.add(await ask(socket))
      return [...bodies]
    }),
  )
  const [first] = answers
  expect(first).toHaveLength(1)
  expect(answers).toEqual(Array.from({ length: MANY }, () => first))
})

test('who asks nothing more holds up nobody, and is answered when it asks again', {
  timeout: PATIENCE_MS,
}, async () => {
  const [quiet, busy] = [open.slice(0, MANY / 2), open.slice(MANY / 2)]
  await Promise.all(open.map((socket) => ask(socket)))
  for (let i = 0; i < 20; i++) await Promise.all(busy.map((socket) => ask(socket)))
  await Promise.all(quiet.map((socket) => ask(socket)))
})

test('several requests that are sent at once on one connection are answered in their order, among hundreds', {
  timeout: PATIENCE_MS,
}, async () => {
  const socket = await connection()
  const heads = ['/api/nodes', '/api/settings/public', '/api/nodes'].map(
    (path, i, { length }) =>
      `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${panel.adminToken}\r\n${i === length - 1 ? 'Connection: close\r\n' : ''}\r\n`,
  )
  const busy = Promise.all(open.slice(0, MANY).map(async (each) => [await ask(each), await ask(each), await ask(each)]))
  socket.write(heads.join(''))
  const bodies = (await text(socket)).split('HTTP/1.1 200 OK').slice(1)
  await busy
  expect(bodies.map((body) => body.includes('"pagination"'))).toEqual([true, false, true])
})

test('connections that end while they wait leave room for the others', { timeout: PATIENCE_MS }, async () => {
  const [leaving, staying] = [open.slice(0, MANY / 2), open.slice(MANY / 2, MANY)]
  const gone = leaving.map((socket) => ask(socket).catch(() => 'gone'))
  const kept = staying.map((socket) => ask(socket))
  for (const socket of leaving) socket.destroy()
  await Promise.all([...gone, ...kept])
  for (let i = 0; i < 5; i++) await Promise.all(staying.map((socket) => ask(socket)))
})

test('requests that take long hold up others for a moment only', async () => {
  const reads = new ShortReads()
  const pace = new ReadingPace(reads)
  for (let i = 0; i < 100; i++) void reads.run(() => new Promise(() => undefined))
  const connections = Array.from({ length: 3 }, () => new Socket())
  for (const one of connections) pace.answered(one)
  expect(connections.map((one) => one.isPaused())).toEqual([true, true, true])
  await expect.poll(() => connections.map((one) => one.isPaused())).toEqual([false, false, false])
})
