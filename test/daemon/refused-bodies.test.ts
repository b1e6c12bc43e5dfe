import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startPanel, type TestPanel } from '../panel.ts'
import { type LeapingClock, leapingClock } from './leaping-clock.ts'

let panel: TestPanel
let clock: LeapingClock
beforeAll(async () => {
  clock = leapingClock()
  panel = await startPanel({ clock })
})
afterAll(() => panel.close())

const MIB = 1024 * 1024
const BODY_MIB = 64

/** Sends all of a request before it reads a byte, as many clients do; fails as the connection does. */
async function sendAll(head: readonly string[], { chunked = false } = {}): Promise<string> {
  const { hostname, port } = new URL(panel.url)
  const socket = connect({ host: hostname, port: Number(port) })
  await once(socket, 'connect')
  const failed = once(socket, 'close').then(() => {
    throw new Error('the connection was closed before all of the body was sent')
  })
  failed.catch(() => undefined)
  const length = chunked ? 'transfer-encoding: chunked' : `content-length: ${BODY_MIB * MIB}`
  socket.write(`${[...head, `host: ${hostname}:${port}`, 'connection: close', length].join('\r\n')}\r\n\r\n`)
  const piece = Buffer.alloc(MIB, 'a')
  for (let sent = 0; sent < BODY_MIB; sent++) {
    if (chunked) socket.write(`${MIB.toString(16)}\r\n`)
    const isTaken = socket.write(piece)
    if (chunked) socket.write('\r\n')
    if (!isTaken) await Promise.race([once(socket, 'drain'), failed])
  }
  if (chunked) socket.write('0\r\n\r\n')
  let answer = ''
  for await (const text of socket.setEncoding('utf8')) answer += text
  return answer
}

it.each([
  ['401', 'PUT /api/servers/srv_none/files/content?path=/a HTTP/1.1', 'UNAUTHENTICATED', {}],
  ['401', 'PUT /api/servers/srv_none/files/content?path=/a HTTP/1.1', 'UNAUTHENTICATED', { chunked: true }],
  ['401', 'POST /api/servers/srv_none/power HTTP/1.1', 'UNAUTHENTICATED', {}],
  ['404', 'PUT /api/nothing HTTP/1.1', 'NOT_FOUND', {}],
])(
  'a client that closes, and sends its body before it reads, finds the answer: %s to %s',
  async (status, line, code, how) => {
    const answer = await sendAll([line], how)
    expect(answer.split('\r\n')[0]).toContain(` ${status} `)
    expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4))).toMatchObject({ success: false, code })
  },
)

it('a body beyond what its endpoint takes is refused so, too', async () => {
  const head = [
    'POST /api/locations HTTP/1.1',
    `authorization: Bearer ${panel.adminToken}`,
    'content-type: application/json',
  ]
  const answer = await sendAll(head)
  expect(answer.split('\r\n')[0]).toContain(' 413 ')
  expect(answer).toContain('PAYLOAD_TOO_LARGE')
})

describe('a refused upload that is still being sent', () => {
  const UPLOAD = 'PUT /api/servers/srv_none/files/content?path=/a HTTP/1.1'
  const FORM = 'POST /api/auth/profile/avatar HTTP/1.1\r\ncontent-type: multipart/form-data; boundary=x'
  const piece = Buffer.alloc(MIB, 'a')

  /** A request whose body goes beyond what lies in the buffers between, so that the daemon has read some of it. */
  async function begun(line: string, mib: number, how = 'connection: close'): Promise<Socket> {
    const { hostname, port } = new URL(panel.url)
    // It goes on when the daemon has said all, until it is cut off.
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
    socket.on('error', () => undefined) // it may be reset; what counts is what came
    await once(socket, 'connect')
    socket.write(`${line}\r\nhost: ${hostname}:${port}\r\n${how}\r\ncontent-length: ${mib * MIB}\r\n\r\n`)
    for (let sent = 0; sent < 32; sent++) await write(socket)
    return socket
  }

  const write = (socket: Socket): Promise<unknown> => new Promise((done) => void socket.write(piece, done))
  const settled = (): Promise<unknown> => fetch(`${panel.url}/health`)

  it.each([
    [UPLOAD, 'connection: close'],
    [UPLOAD, 'connection: keep-alive'],
    [FORM, 'connection: close'],
    [FORM, 'connection: keep-alive'],
  ])('by a client that takes a minute and reads then: it finds the answer: %s, %s', async (line, how) => {
    const socket = await begun(line, 40, how)
    for (let second = 0; second < 60; second++) {
      clock.leap(1000)
      await settled()
    }
    for (let sent = 32; sent < 40; sent++) await write(socket)
    let answer = ''
    for await (const text of socket.setEncoding('utf8')) {
      answer += text
      if (answer.endsWith('}')) break
    }
    expect(answer).toMatch(/^HTTP\/1\.1 401 [\s\S]*"code":"UNAUTHENTICATED"/)
    socket.destroy()
  })

  it('is cut off when it goes on for too long', async () => {
    const socket = await begun(UPLOAD, 4000)
    clock.leap(1000)
    await settled()
    clock.leap(601_000)
    await settled()
    let sent = 32
    for (; !socket.destroyed; sent++) await write(socket)
    expect(sent).toBeLessThan(100)
  })

  it('is cut off when too much of it comes', async () => {
    const socket = await begun(UPLOAD, 1_000_000)
    let answer = ''
    socket.setEncoding('utf8').on('data', (text: string) => {
      answer += text
    })
    let sent = 32
    for (; !socket.destroyed; sent++) await write(socket)
    expect(sent).toBeGreaterThan(250)
    expect(answer).toContain('UNAUTHENTICATED')
  })
})
