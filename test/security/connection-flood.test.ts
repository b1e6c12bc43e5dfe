import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startPanel, type TestPanel } from '../panel.ts'

// A program of this machine, such as a game, that opens connections and keeps them.

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel({ localSocket: true, env: { PANEL_HTTP__MAX_CONNECTIONS: '80' } })
})
afterAll(() => panel.close())

/** Whether the connection is still open when everything before it has been looked at. */
async function open(): Promise<{ readonly isOpen: boolean; end(): void }> {
  const socket = connect({ port: Number(new URL(panel.url).port), host: '127.0.0.1' })
  socket.on('error', () => undefined) // it may be reset; what counts is that it is closed
  const isOpen = new Promise<boolean>((resolve) => {
    socket.once('close', () => resolve(false))
    socket.once('data', () => resolve(true))
  })
  socket.write('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n')
  return { isOpen: await isOpen, end: () => socket.destroy() }
}

it('takes a share of the places, and neither files nor the unix socket from the daemon', async () => {
  const sockets = []
  for (let i = 0; i < 60; i++) sockets.push(await open())
  const kept = sockets.filter(({ isOpen }) => isOpen).length
  expect(kept).toBeGreaterThan(10)
  expect(kept).toBeLessThanOrEqual(20)
  const { statusCode } = await new Promise<IncomingMessage>((resolve, reject) => {
    const headers = { authorization: `Bearer ${panel.adminToken}`, host: 'localhost' }
    request({ socketPath: panel.socket, path: '/api/nodes', headers }, (answer) => resolve(answer.resume()))
      .once('error', reject)
      .end()
  })
  expect(statusCode).toBe(200)
  for (const socket of sockets) socket.end()
})
