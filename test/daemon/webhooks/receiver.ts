import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { type Clock, systemClock } from '../../../src/shared/kernel/time.ts'

/** A request as it came in. */
export interface Incoming {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** The body as JSON. */
  readonly json: { id: string; event: string; data: Record<string, unknown> } & Record<string, unknown>
}

/** A real HTTP server that is told of events. */
export interface Receiver {
  readonly url: string
  readonly received: Incoming[]
  /** How the next requests are answered; by default with 204. */
  answer: (response: ServerResponse, incoming: Incoming) => void
  /** Waits until so many requests have come. */
  took(count: number): Promise<Incoming[]>
  close(): Promise<void>
}

/** Starts one on the loopback. */
export async function startReceiver(): Promise<Receiver> {
  const received: Incoming[] = []
  const server = createServer(async (request, response) => {
    const body = await text(request)
    const incoming = { path: request.url ?? '', headers: request.headers, body, json: JSON.parse(body) }
    received.push(incoming)
    receiver.answer(response, incoming)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // it listens on TCP
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/hook`,
    received,
    answer: (response) => void response.writeHead(204).end(),
    took: async (count) => {
      await eventually(`${count} requests, not ${received.length}`, () => received.length >= count)
      return received
    },
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return receiver
}

/** Whether the request is signed with the secret: HMAC-SHA256 over the timestamp, a dot and the body. */
export function isSignedWith({ headers, body }: Incoming, secret: string): boolean {
  const stamp = String(headers['x-webhook-timestamp'])
  return createHmac('sha256', secret).update(`${stamp}.${body}`).digest('hex') === headers['x-webhook-signature']
}

/** A clock that tests put forward, and that does not wait for the daemon's slow loops. */
export interface QuickClock extends Clock {
  /** Puts the wall clock forward; `both`: also the one that counts durations. */
  advance(ms: number, both?: 'both'): void
}

/** Time limits of 10 s are for what hangs, and are left as they are. */
const LIMIT_MS = 10_000

/** The loops that look every 30 s look all the time, and who waits for a time looks again when it is put forward. */
export function quickClock(): QuickClock {
  let [wall, steady] = [0, 0]
  let moved = new AbortController()
  return {
    nowMs: () => systemClock.nowMs() + wall,
    monotonicMs: () => systemClock.monotonicMs() + steady,
    sleep: async (ms, signal) => {
      if (ms === LIMIT_MS) return systemClock.sleep(ms, signal)
      const wake = signal === undefined ? moved.signal : AbortSignal.any([signal, moved.signal])
      await systemClock.sleep(ms === 30_000 ? 20 : ms, wake)
    },
    advance: (ms, both) => {
      wall += ms
      if (both === 'both') steady += ms
      moved.abort()
      moved = new AbortController()
    },
  }
}

/** Polls until the condition holds. */
export async function eventually(what: string, holds: () => boolean | Promise<boolean>, ms = 30_000): Promise<void> {
  const deadline = performance.now() + ms
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`Waited in vain for ${what}`)
    await systemClock.sleep(10)
  }
}
