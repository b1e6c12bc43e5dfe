import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AccountsPanel, openAccountsPanel } from '../daemon/accounts-panel.ts'
import { startPanel } from '../panel.ts'

let panel: AccountsPanel
beforeAll(async () => {
  panel = await openAccountsPanel()
})
afterAll(() => panel.close())

const LONG = 'content-type: application/json\r\ncontent-length: 1000000\r\n'
const CHUNKED = 'content-type: application/json\r\ntransfer-encoding: chunked\r\n'
const JSON_BODY = JSON.stringify({ email: 'a@example.org', password: 'x' })

/** A request whose head is whole and whose body has only begun. */
async function begun(
  head: string,
  body = '{',
): Promise<{ socket: Socket; received: () => string; closed: Promise<unknown> }> {
  const socket = connect(Number(new URL(panel.url).port), '127.0.0.1')
  let text = ''
  socket.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
  })
  socket.on('error', () => undefined) // it may be reset; what counts is that it is closed
  const closed = once(socket, 'close')
  await once(socket, 'connect')
  socket.write(`${head}\r\n${body}`)
  return { socket, received: () => text, closed }
}

const post = (path: string, headers: string): string => `POST ${path} HTTP/1.1\r\nhost: localhost\r\n${headers}`
/** Resolves when everything that was written is read by the server: it answers a request on another connection. */
const settled = (): Promise<unknown> => fetch(`${panel.url}/health`)

describe('a body that drips', () => {
  it('is given up with 408 however it is sent and whatever the answer is, and one that comes at a modest rate is taken', async () => {
    const dripping = await Promise.all([
      ...Array.from({ length: 50 }, () => begun(post('/api/auth/login', LONG))),
      begun(post('/api/auth/login', CHUNKED), '1\r\n{\r\n'),
      begun(post('/api/nowhere', LONG)),
      begun(post('/api/auth/login', LONG.replace('json', 'x-unknown'))),
    ])
    // Answered before its body has come: there is no credential.
    const answered = await Promise.all([
      begun(post('/api/servers', LONG)),
      begun(`GET /api/auth/me HTTP/1.1\r\nhost: localhost\r\n${LONG}`),
    ])
    const second = await begun(post('/api/auth/login', `content-type: application/json\r\ncontent-length: 2\r\n`), '{}')
    while (!second.received().includes('VALIDATION_ERROR')) await once(second.socket, 'data')
    second.socket.write(`${post('/api/auth/login', LONG)}\r\n{`)
    const padded = JSON_BODY.replace('{', `{${' '.repeat(80_000)}`)
    const slow = await begun(
      post('/api/auth/login', `content-type: application/json\r\ncontent-length: ${padded.length}\r\n`),
      '{',
    )
    await settled()
    slow.socket.write(padded.slice(1, 79_000))
    await settled()
    panel.clock.advance(14_000)
    for (const one of [...dripping, ...answered, second]) one.socket.write(one === dripping[50] ? '1\r\n \r\n' : ' ')
    await settled()
    expect(dripping.filter(({ socket }) => socket.readyState !== 'open').length).toBeLessThan(4)
    panel.clock.advance(10_000)
    await Promise.all([...dripping, ...answered, second].map(({ closed }) => closed))
    for (const { received } of dripping.slice(0, 51)) {
      expect(received()).toMatch(/^HTTP\/1\.1 408 /)
      expect(received()).toContain('"code":"REQUEST_TIMEOUT"')
      expect(received().toLowerCase()).toContain('x-frame-options: deny')
    }
    for (const { received } of answered) expect(received().match(/HTTP\/1\.1/g)).toHaveLength(1)
    slow.socket.write(padded.slice(79_000))
    while (!slow.received().includes('}')) await once(slow.socket, 'data')
    expect(slow.received()).toMatch(/^HTTP\/1\.1 409 [\s\S]*"code":"SETUP_REQUIRED"/)
    slow.socket.destroy()
  })
})

it('what is no HTTP is refused in the envelope of the API', async () => {
  const { received, closed } = await begun('NONSENSE\r\n', '')
  await closed
  expect(received()).toMatch(/^HTTP\/1\.1 400 [\s\S]*"code":"VALIDATION_ERROR"/)
})

it('what is no HTTP behind a request cuts the answer off that has begun, and writes nothing into it', async () => {
  const whole = await startPanel()
  const socket = connect(Number(new URL(whole.url).port), '127.0.0.1')
  let received = ''
  socket.setEncoding('utf8').on('data', (piece: string) => {
    received += piece
  })
  socket.on('error', () => undefined) // as above
  const closed = once(socket, 'close')
  socket.write(`GET /api/admin/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${whole.adminToken}\r\n\r\n`)
  while (!received.includes('event: ')) await once(socket, 'data')
  socket.write('NONSENSE\r\n\r\n')
  await closed
  await whole.close()
  expect(received).toMatch(/^HTTP\/1\.1 200 /)
  expect(received).not.toContain('VALIDATION_ERROR')
})
