import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startPanel, type TestPanel } from '../panel.ts'

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel()
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
