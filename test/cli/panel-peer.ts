import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { me, newKey } from './peer-answers.ts'
import { serverAnswer } from './tui/server-answer.ts'

/** A request that the peer received. */
export interface Received {
  readonly method: string
  readonly path: string
  readonly key: string | undefined
  readonly body: unknown
}

/** A daemon of the tests for the command line: servers with a state, their events, and a console, over real HTTP. */
export interface PanelPeer {
  readonly url: string
  readonly received: readonly Received[]
  /** What the next power order leads to: states in their order, or a refusal by the agent. */
  script(states: readonly string[], done?: { ok: boolean; error: string }): void
  /** The next requests of this path are answered so, as often as `times` says. */
  refuse(path: string, refusal: { status: number; code: string; times?: number; retryAfter?: number }): void
  print(...lines: string[]): void
  /** Ends every open stream. */
  cut(): void
  state(): string
  close(): Promise<void>
}

const ID = 'srv_01k000000000000000000000aa'
const TOKEN = 'pak_01k000000000000000000000aa_secret'

const SESSION = 'pst_01k000000000000000000000aa_secret'
/** The API key that the peer accepts. */
export const PEER_TOKEN = TOKEN

/** Starts a peer with one server, `demo`, on a free port of the loopback. */
export async function startPanelPeer(status = 'stopped'): Promise<PanelPeer> {
  const received: Received[] = []
  const refusals = new Map<string, { status: number; code: string; times: number; retryAfter?: number | undefined }>()
  const eventStreams = new Set<ServerResponse>()
  const consoleStreams = new Set<ServerResponse>()
  const log: string[] = []
  let plan: { states: readonly string[]; done: { ok: boolean; error: string | null } } = {
    states: [],
    done: { ok: true, error: null },
  }
  let generation = 1
  let startedAt: string | null = status === 'running' ? '2026-01-01T00:00:00.000Z' : null
  let lastCrashAt: string | null = null

  const server = () => ({
    ...serverAnswer(status),
    powerState: ['starting', 'running', 'stopping'].includes(status) ? status : 'offline',
    id: ID,
    name: 'demo',
    generation,
    startedAt,
    lastCrashAt,
  })
  const send = (to: Iterable<ServerResponse>, event: string, data: unknown, id = ''): void => {
    for (const stream of to)
      stream.write(`${id === '' ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  }
  const time = (): string => new Date().toISOString()
  const line = (seq: number) => ({
    type: 'console',
    serverId: ID,
    line: log[seq - 1] ?? '',
    stream: 'stdout',
    seq,
    timestamp: '2026-01-01T00:00:00.000Z',
  })

  const carryOut = (commandId: string): void => {
    for (const state of plan.states) {
      if (state === 'starting') startedAt = time()
      if (state === 'crashed') lastCrashAt = time()
      const previousState = status
      status = state
      const rest = {
        desired: 'running',
        generation,
        reason: null,
        exitCode: null,
        exitSignal: null,
        crashCount: 0,
        nextRestartAt: null,
      }
      send(eventStreams, 'server_state_update', {
        type: 'server_state_update',
        serverId: ID,
        timestamp: time(),
        state,
        previousState,
        ...rest,
      })
    }
    const code = plan.done.ok ? null : 'AGENT_ERROR'
    const done = { commandId, op: 'start', ok: plan.done.ok, noop: false, code, error: plan.done.error }
    send(eventStreams, 'server_command_done', { type: 'server_command_done', serverId: ID, timestamp: time(), ...done })
  }

  const answer = (response: ServerResponse, code: number, value: unknown): void => {
    response.writeHead(code, { 'content-type': 'application/json', 'x-request-id': 'req_1' })
    response.end(JSON.stringify(value))
  }
  const refuseWith = (
    response: ServerResponse,
    code: number,
    name: string,
    meta: Record<string, unknown> = {},
  ): void => {
    answer(response, code, { success: false, error: `refused: ${name}`, code: name, meta, requestId: 'req_1' })
  }
  const openStream = (response: ServerResponse, into: Set<ServerResponse>): void => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.flushHeaders()
    into.add(response)
    response.on('close', () => into.delete(response))
  }

  const power = (response: ServerResponse, action: string): void => {
    const there: Record<string, string> = { start: 'running', stop: 'stopped', kill: 'stopped' }
    if (there[action] === status) {
      refuseWith(response, 409, 'SERVER_INVALID_STATE', { currentStatus: status, allowed: [] })
      return
    }
    generation += 1
    const commandId = `cmd_${generation}`
    answer(response, 202, {
      success: true,
      data: {
        action,
        status,
        desired: action === 'stop' || action === 'kill' ? 'stopped' : 'running',
        generation,
        commandId,
      },
    })
    setImmediate(() => carryOut(commandId))
  }

  const consoleStream = (request: IncomingMessage, response: ServerResponse, url: URL): void => {
    openStream(response, consoleStreams)
    send([response], 'connected', { type: 'connected', serverId: ID, lastSeq: log.length, timestamp: time() })
    const marker = request.headers['last-event-id']
    const last = typeof marker === 'string' ? Number(marker.split('-')[1]) : undefined
    const from =
      last === undefined ? Math.max(1, log.length - Number(url.searchParams.get('lines') ?? 200) + 1) : last + 1
    if (last !== undefined) {
      const resume = {
        type: 'resume_console',
        serverId: ID,
        from,
        to: last,
        missed: 0,
        reason: null,
        timestamp: time(),
      }
      send([response], 'resume_console', resume, `e1-${last}`)
    }
    for (let seq = from; seq <= log.length; seq++) send([response], 'console', line(seq), `e1-${seq}`)
  }

  const logs = (response: ServerResponse, url: URL): void => {
    const [lines, before, after] = ['lines', 'before', 'after'].map((name) => url.searchParams.get(name))
    const limit = Number(lines ?? 100)
    const place = (text: string): number => Number(text.split('-')[1])
    const all = log
      .map((_, i) => i + 1)
      .filter((seq) => (before ? seq < place(before) : true) && (after ? seq > place(after) : true))
    const chosen = after ? all.slice(0, limit) : all.slice(-limit)
    const rows = chosen.map((seq) => ({
      id: `e1-${seq}`,
      seq,
      stream: 'stdout',
      data: log[seq - 1],
      timestamp: line(seq).timestamp,
    }))
    const data = {
      logs: rows,
      count: rows.length,
      requestedLines: limit,
      epoch: 'e1',
      firstSeq: 1,
      lastSeq: log.length,
    }
    answer(response, 200, { success: true, data })
  }

  const print = (...lines: string[]): void => {
    for (const text of lines) {
      log.push(text)
      send(consoleStreams, 'console', line(log.length), `e1-${log.length}`)
    }
  }

  const http = createServer(async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://peer')
    let text = ''
    for await (const part of request) text += String(part)
    const body: unknown = text === '' ? undefined : JSON.parse(text)
    const key = request.headers['idempotency-key']
    received.push({
      method: request.method ?? '',
      path: url.pathname,
      key: typeof key === 'string' ? key : undefined,
      body,
    })
    const refusal = refusals.get(url.pathname)
    if (refusal !== undefined && refusal.times > 0) {
      refusal.times -= 1
      if (refusal.retryAfter !== undefined) response.setHeader('retry-after', String(refusal.retryAfter))
      return refuseWith(response, refusal.status, refusal.code)
    }
    if (url.pathname === '/api/auth/login') {
      const { permissions, ...who } = me()
      return answer(response, 200, { success: true, data: { ...who, permissions, userId: 'usr_1', token: SESSION } })
    }
    if (request.headers.authorization === `Bearer ${SESSION}` && url.pathname === '/api/admin/api-keys') {
      return answer(response, 201, { success: true, data: newKey(TOKEN) })
    }
    if (url.pathname === '/api/auth/logout') return answer(response, 200, { success: true, data: null })
    if (request.headers.authorization !== `Bearer ${TOKEN}`) return refuseWith(response, 401, 'UNAUTHENTICATED')
    if (url.pathname === '/api/auth/me') return answer(response, 200, { success: true, data: me() })
    const path = url.pathname.replace(ID, ':id')
    if (path === '/api/servers') {
      const search = url.searchParams.get('search') ?? ''
      const rows = 'demo'.includes(search) || ID.startsWith(search) ? [server()] : []
      return answer(response, 200, {
        success: true,
        data: rows,
        pagination: { page: 1, limit: 50, total: rows.length, totalPages: 1 },
      })
    }
    if (path === '/api/servers/:id') return answer(response, 200, { success: true, data: server() })
    if (path === '/api/servers/:id/power') return power(response, String(Object(body).action))
    if (path === '/api/servers/:id/events') return openStream(response, eventStreams)
    if (path === '/api/servers/:id/console/stream') return consoleStream(request, response, url)
    if (path === '/api/servers/:id/logs') return logs(response, url)
    if (path === '/api/servers/:id/console/command') {
      answer(response, 202, { success: true, data: { sent: true, timestamp: time() } })
      return print(`answer to ${String(Object(body).command)}`)
    }
    refuseWith(response, 404, path.startsWith('/api/servers/') ? 'SERVER_NOT_FOUND' : 'NOT_FOUND')
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const { port } = http.address() as AddressInfo // it listens on TCP
  const cut = (): void => {
    for (const stream of [...eventStreams, ...consoleStreams]) stream.destroy()
  }
  return {
    url: `http://127.0.0.1:${port}`,
    received,
    script: (states, done) => {
      plan = { states, done: done ?? { ok: true, error: null } }
    },
    refuse: (path, { status: code, code: name, times, retryAfter }) => {
      refusals.set(path, { status: code, code: name, times: times ?? Number.POSITIVE_INFINITY, retryAfter })
    },
    print,
    cut,
    state: () => status,
    close: async () => {
      cut()
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}
