import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { getMe } from '../../src/shared/api/auth.ts'
import { createDatabaseHost, pingDatabaseHost } from '../../src/shared/api/database-hosts.ts'
import { startPanel, type TestPanel } from '../panel.ts'

/** Speaks as much of a protocol as is needed to be listened to, and then sends without an end. Prints its port, and how much it has sent. */
const HOSTILE = `
const { createServer } = require('node:net')
const message = (type, body) => {
  const head = Buffer.alloc(5); head.write(type); head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}
const int16 = (n) => { const b = Buffer.alloc(2); b.writeInt16BE(n); return b }
const int32 = (n) => { const b = Buffer.alloc(4); b.writeInt32BE(n); return b }
const flood = (socket, piece) => {
  const more = () => { while (!socket.destroyed && socket.write(piece)); }
  socket.on('drain', more); more()
}
const many = (one) => Buffer.concat(Array(Math.ceil(65536 / one.length)).fill(one))
const row = message('D', Buffer.concat([int16(1), int32(4), Buffer.from('16.2')]))
const column = Buffer.concat([Buffer.from('server_version\\0'), int32(0), int16(0), int32(25), int16(-1), int32(-1), int16(0)])
const greeted = Buffer.concat([message('R', int32(0)), message('Z', Buffer.from('I'))])
const packet = (body, n = 0) => Buffer.concat([Buffer.from([body.length & 255, body.length >> 8, 0, n]), body])
const hello = packet(Buffer.concat([Buffer.from([10]), Buffer.from('8.0.0\\0'), int32(1), Buffer.alloc(8, 97), Buffer.from([0]),
  Buffer.from([0xff, 0xf7, 33, 2, 0, 0xff, 0x81, 21]), Buffer.alloc(10), Buffer.alloc(12, 98), Buffer.from('\\0mysql_native_password\\0')]))
const text = Buffer.concat([Buffer.from('\\x03def\\0\\0\\0\\x07version\\0\\x0c'), Buffer.from([33, 0, 80, 0, 0, 0, 253, 0, 0, 0, 0, 0])])
const ways = {
  rows: (socket) => {
    let begun = false
    socket.on('data', (data) => {
      if (!begun) { begun = true; return socket.write(greeted) }
      socket.write(message('T', Buffer.concat([int16(1), column]))); flood(socket, many(row))
    })
  },
  notices: (socket) => socket.once('data', () => flood(socket, many(message('S', Buffer.from('a\\0b\\0'))))),
  giant: (socket) => socket.once('data', () => {
    const head = Buffer.alloc(5); head.write('D'); head.writeInt32BE(2 ** 30, 1)
    socket.write(greeted); socket.write(head); flood(socket, Buffer.alloc(65536, 120))
  }),
  mysql: (socket) => { socket.write(hello); socket.once('data', () => { socket.write(packet(Buffer.from([0, 0, 0, 2, 0, 0, 0]), 2)); socket.once('data', () => {
    socket.write(packet(Buffer.from([1]), 1)); socket.write(packet(text, 2)); socket.write(packet(Buffer.from([254, 0, 0, 2, 0]), 3))
    flood(socket, Buffer.concat(Array.from({ length: 8192 }, (_, i) => packet(Buffer.from('\\x048.00'), (i + 4) % 256)))) }) }) },
}
const server = createServer((socket) => {
  socket.on('error', () => undefined).on('close', () => console.log(socket.bytesWritten))
  ways[process.argv[1]](socket)
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
`

/** What the panel reads, and what the buffers of both ends of a connection hold. */
const MOST_SENT = 16 * 1024 * 1024
/** A busy machine answers late; a panel that takes in what comes answers not before it gives up, after 12 s. */
const MOST_HELD_UP_MS = 5000

let panel: TestPanel
const hosts: ChildProcess[] = []
beforeAll(async () => {
  panel = await startPanel()
})
afterAll(async () => {
  for (const host of hosts) host.kill('SIGKILL')
  await panel.close()
})

describe('a database host that sends without an end', () => {
  it.each(['rows', 'notices', 'giant', 'mysql'])('(%s) is given up at once and holds up nobody', async (way) => {
    const child = spawn(process.execPath, ['-e', HOSTILE, way], { stdio: ['ignore', 'pipe', 'inherit'] })
    hosts.push(child)
    const lines = createInterface({ input: child.stdout })
    const [line] = await once(lines, 'line')
    const sent = once(lines, 'line')
    const host = { engine: way === 'mysql' ? 'mysql' : 'postgresql', host: '127.0.0.1', port: Number(line) } as const
    const body = { name: `host-${way}`, ...host, username: 'panel', password: 'x' }
    const { id } = await panel.client.call(createDatabaseHost, { body })
    await panel.client.call(getMe)
    let over = false
    const pinged = panel.client.call(pingDatabaseHost, { params: { hostId: id } }).finally(() => {
      over = true
    })
    let longest = 0
    while (!over) {
      const before = performance.now()
      await panel.client.call(getMe)
      longest = Math.max(longest, performance.now() - before)
    }
    expect(await pinged).toMatchObject({ ok: false, reason: 'connection' })
    expect(Number((await sent)[0])).toBeLessThan(MOST_SENT)
    expect(longest).toBeLessThan(MOST_HELD_UP_MS)
  })
})
