import {
  installServer,
  type OrderAccepted,
  powerServer,
  rebuildServer,
  reinstallServer,
} from '../../../shared/api/power.ts'
import type { Server } from '../../../shared/api/servers.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import { POWER_ACTIONS, type ServerStatus } from '../../../shared/kernel/server-life.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { column, type View } from '../../kit/output/view.ts'
import { forEach } from '../../kit/resource/bulk.ts'
import { type Named, resolveAll } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { askedText, isMoving, isReached, type Order } from './outcome.ts'
import { readServer, watchServer } from './watch.ts'

/** What an order came to. */
interface Result {
  readonly server: string
  readonly id: string
  readonly action: string
  readonly status: string
  readonly generation: number
  /** `null`: it was there already, nothing was ordered. */
  readonly commandId: string | null
  readonly waitedMs: number
  /** Why it ended, of one that was stopped; else why it is not as desired. */
  readonly reason: string | null
  /** Of one that failed, among several. */
  readonly error?: string
}

const RESULT: View<Result> = {
  id: (row) => row.id,
  name: (row) => row.server,
  columns: [
    column('SERVER', (row) => row.server),
    column('ACTION', (row) => row.action),
    column('STATUS', (row) => ({ status: row.status })),
    column('COMMAND', (row) => row.commandId),
    column('WAITED', (row) => `${(row.waitedMs / 1000).toFixed(1)} s`),
    column('REASON', (row) => row.reason),
  ],
}

type Kind = Order['action']

/** `panel servers power <action> …` and its short forms. */
export const powerServers: Action = async (run) => {
  const word = run.args.word('action') ?? run.path.at(-1)
  const action = POWER_ACTIONS.find((known) => known === word)
  if (action === undefined) throw usage(`'${word}' is no action`, `one of ${POWER_ACTIONS.join(', ')}`)
  const servers = await resolveAll(run, 'server', run.args.words('server'))
  return orderAll(run, servers, action)
}

/** `panel servers install` and `reinstall`. */
export const installServers: Action = async (run) => {
  const action = run.path.at(-1) === 'reinstall' ? 'reinstall' : 'install'
  const servers = await resolveAll(run, 'server', run.args.words('server'))
  if (action === 'reinstall') {
    for (const server of servers) {
      const { name } = await readServer(run, server.id)
      await run.prompt.confirmName(`Wipe the files of ${name} and install it again?`, name)
    }
  }
  return orderAll(run, servers, action)
}

/** `panel servers rebuild`. */
export const rebuildServers: Action = async (run) =>
  orderAll(run, await resolveAll(run, 'server', run.args.words('server')), 'rebuild')

/** Whether to wait: by flag, else on a terminal. */
export function wantsToWait(run: Run): boolean {
  return run.args.choice('wait') ?? (run.args.text('timeout') !== undefined || run.terminal.stdout.isTTY === true)
}

/** How long to wait, in milliseconds. */
export function waitTimeout(run: Run): number {
  return run.args.duration('timeout') ?? 600_000
}

async function orderAll(run: Run, servers: readonly Named[], action: Kind): Promise<number> {
  const results: Result[] = []
  const streamed = servers.length > 1 && run.out.format !== 'json' && run.out.format !== 'yaml'
  const code = await forEach(
    run,
    servers,
    async (server) => {
      const result = wantsToWait(run) ? await orderAndWait(run, server, action) : await orderOnly(run, server, action)
      results.push(result)
      if (streamed) await run.out.row(result, RESULT)
    },
    ({ id, name }, { code: error }) => {
      if (!streamed)
        results.push({
          server: name,
          id,
          action,
          status: 'failed',
          generation: 0,
          commandId: null,
          waitedMs: 0,
          reason: null,
          error,
        })
    },
  )
  const [only] = results
  if (servers.length === 1 && only !== undefined) await run.out.item(only, RESULT)
  else if (!streamed) await run.out.list(results, RESULT)
  return code
}

async function orderOnly(run: Run, server: Named, action: Kind): Promise<Result> {
  const before = await readServer(run, server.id)
  if (before.eula !== null && (action === 'start' || action === 'restart')) run.notice(askedText(before.name))
  const given = await give(run, before, action)
  return resultOf(before, action, { status: given?.status ?? before.status, order: given, waitedMs: 0 })
}

/** Nobody hears of the end of an order that is not stored, but the state is known at once. */
const POLL_MS = 500

async function waitUnstored(run: Run, server: Server, action: Kind, order: OrderAccepted): Promise<Result> {
  const started = run.clock.monotonicMs()
  const left = (): number => started + waitTimeout(run) - run.clock.monotonicMs()
  for (let now = await readServer(run, server.id); ; now = await readServer(run, server.id)) {
    const waitedMs = Math.round(run.clock.monotonicMs() - started)
    if (now.status === 'stopped') return resultOf(now, action, { status: now.status, order, waitedMs })
    if (left() <= 0) throw new CliFailure('TIMEOUT', `${server.name}: not stopped in time; what was ordered continues`)
    await run.clock.sleep(Math.min(POLL_MS, left()), run.signal)
    if (run.signal.aborted) throw new CliFailure('INTERRUPTED', 'stopped waiting')
  }
}

async function orderAndWait(run: Run, server: Named, action: Kind): Promise<Result> {
  const started = run.clock.monotonicMs()
  const before = await readServer(run, server.id)
  let given: OrderAccepted | undefined
  let done: Parameters<typeof isReached>[2]['done']
  let moved = false
  let said = before.reason
  run.signal.addEventListener('abort', () => {
    if (given !== undefined)
      run.notice(`\nstopped waiting; the order continues (${given.commandId}): panel servers view ${before.name}`)
  })
  return watchServer(run, { server: before, timeoutMs: waitTimeout(run) }, async (tick) => {
    if (tick.kind === 'open' && tick.first) {
      given = await give(run, before, action)
      if (given?.stored === false) return waitUnstored(run, before, action, given)
      const settled = given === undefined && !isOnTheWay(before.status)
      if (settled) return resultOf(before, action, { status: before.status, order: undefined, waitedMs: 0 })
    }
    if (tick.kind === 'deleted') throw new CliFailure('OPERATION_FAILED', `${before.name}: it was deleted`)
    if (tick.kind === 'done' && tick.order.commandId === given?.commandId) done = tick.order
    const now = await readServer(run, before.id)
    moved ||= isMoving(now, before)
    if (now.status === 'starting' && now.reason !== null && now.reason !== said)
      run.notice(`${now.name}: ${now.reason}`)
    said = now.reason
    const start = run.args.flag('start')
    const order: Order = {
      action,
      generation: given?.generation ?? before.generation,
      commandId: given?.commandId ?? '',
      start,
    }
    if (!isReached(order, now, { before, done, moved })) return undefined
    return resultOf(now, action, {
      status: now.status,
      order: given,
      waitedMs: Math.round(run.clock.monotonicMs() - started),
    })
  })
}

const UNSTORED =
  "the panel's database cannot be written, so the order went straight to the node; it is recorded later (panel health)"

/** Gives the order; `undefined` when the server is there, or on its way there, already. */
async function give(run: Run, server: Server, action: Kind): Promise<OrderAccepted | undefined> {
  const client = await run.client()
  const options = { idempotencyKey: run.idempotencyKey(server.id) }
  const params = { serverId: server.id }
  const start = run.args.flag('start')
  try {
    if (action === 'install') return await client.call(installServer, { params, body: { start } }, options)
    if (action === 'reinstall') return await client.call(reinstallServer, { params, body: { start } }, options)
    if (action === 'rebuild') return await client.call(rebuildServer, { params, body: { start } }, options)
    const grace = run.args.duration('grace')
    const body = grace === undefined ? { action } : { action, graceSeconds: Math.ceil(grace / 1000) }
    const accepted = await client.call(powerServer, { params, body }, options)
    if (!accepted.stored) run.notice(`${server.name}: ${UNSTORED}`)
    return accepted
  } catch (error) {
    if (!(error instanceof PanelError) || error.code !== 'SERVER_INVALID_STATE') throw error
    const status = String(error.meta['currentStatus'] ?? server.status)
    if (!ALREADY[action].some((known) => known === status)) throw error
    run.notice(`${server.name} is ${status} already`)
    return undefined
  }
}

const ALREADY: Readonly<Record<Kind, readonly ServerStatus[]>> = {
  start: ['running', 'starting'],
  stop: ['stopped', 'stopping'],
  kill: ['stopped'],
  restart: [],
  install: [],
  reinstall: [],
  rebuild: [],
}

function isOnTheWay(status: ServerStatus): boolean {
  return status === 'starting' || status === 'stopping'
}

function resultOf(
  server: Server,
  action: Kind,
  outcome: { readonly status: string; readonly order: OrderAccepted | undefined; readonly waitedMs: number },
): Result {
  return {
    server: server.name,
    id: server.id,
    action,
    status: outcome.status,
    generation: outcome.order?.generation ?? server.generation,
    commandId: outcome.order?.commandId ?? null,
    waitedMs: outcome.waitedMs,
    reason: outcome.status === 'stopped' ? server.lastExitReason : server.reason,
  }
}
