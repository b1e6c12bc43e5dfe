import { PanelError } from '../../../../../shared/kernel/errors.ts'
import { ServerId } from '../../../../../shared/kernel/ids.ts'
import type { TaskStep } from '../../../../../shared/kernel/schedule.ts'
import type { PowerAction } from '../../../../../shared/kernel/server-life.ts'
import { perform } from '../../../../access/operation.ts'
import type { Bus } from '../../../../core/bus.ts'
import type { Log } from '../../../../core/log.ts'
import type { Tx } from '../../../../db/db.ts'
import type { ConsoleGateway } from '../../console/feed.ts'
import { powerServer } from '../../servers/order-operations.ts'
import type { OrderDeps } from '../../servers/orders.ts'
import { findServerRow, type ServerRow } from '../../servers/rows.ts'
import { statusOf } from '../../servers/view.ts'
import type { RunState } from '../run-type.ts'
import { outputSince } from './console-output.ts'
import { failureOf, type Outcome, type RunJob, refused } from './outcome.ts'

type PowerStep = Extract<TaskStep, { action: PowerAction }>

/** What power steps give their orders with, and watch them. */
export type PowerDeps = OrderDeps & { readonly bus: Bus; readonly log: Log; readonly gateway: ConsoleGateway }

/** An order that has not come to its end by then has failed for the schedule; the node goes on with it. */
const LONGEST_MS = 15 * 60_000
/** How often is looked without an event. */
const LOOK_MS = 5000
/** A server that is down so long after its start was carried out does not come up any more. */
const DOWN_MS = 10_000

/** What giving an order has changed of the state. */
type Ordered = Pick<RunState, 'commandId' | 'startedBefore' | 'refusal'>

/** Gives the order within the transaction that writes down that it was given: once, whatever ends when. */
export async function order(tx: Tx, deps: PowerDeps, job: RunJob, { action, payload }: PowerStep): Promise<Ordered> {
  const { serverId } = job.input
  const row = await findServerRow(tx.q, serverId)
  const startedBefore = row?.startedAt ?? null
  const input = { params: { serverId: ServerId.parse(serverId) }, query: undefined, body: { action, ...payload } }
  try {
    const { commandId } = await perform(tx, powerServer, { deps, principal: job.principal, input })
    return { commandId, startedBefore, refusal: null }
  } catch (error) {
    if (isReachedAlready(error, action)) return { commandId: null, startedBefore: null, refusal: null }
    const { code, error: message } = failureOf(error)
    return { commandId: null, startedBefore, refusal: { code, error: message } }
  }
}

/** A stop of what is stopped, or a start of what runs, has nothing to do. */
function isReachedAlready(error: unknown, action: PowerAction): boolean {
  if (!(error instanceof PanelError) || error.code !== 'SERVER_INVALID_STATE') return false
  const status = error.meta['currentStatus']
  if (action === 'start') return status === 'running' || status === 'starting'
  return action !== 'restart' && status === 'stopped'
}

/** Waits for the end of the order, and after a start until the game is ready. */
export async function outcomeOf(
  deps: PowerDeps,
  { job, signal }: { readonly job: RunJob; readonly signal: AbortSignal },
  step: PowerStep,
): Promise<Outcome> {
  const { serverId } = job.input
  const { state } = job
  const since = Date.parse(state.actedAt ?? '')
  const startedMs = deps.clock.monotonicMs()
  const watched = { moved: false }
  for (;;) {
    const woken = nextEventOf(deps.bus, serverId, signal)
    try {
      const row = await findServerRow(deps.db.read, serverId)
      if (row === undefined) return refused('SERVER_NOT_FOUND', 'The server is gone')
      const outcome = await look(deps, { row, step, state, watched })
      if (outcome !== undefined) return { ...outcome, output: await outputSince(deps, row, state.cursor) }
      if (signal.aborted) throw new Error('the wait for an order was ended')
      const waited = Math.max(deps.clock.nowMs() - since, deps.clock.monotonicMs() - startedMs)
      if (waited >= LONGEST_MS) {
        const minutes = LONGEST_MS / 60_000
        const error = `The ${step.action} has not come to its end within ${minutes} minutes; the server is ${statusOf(row)}`
        return { ...refused('TIMEOUT', error), output: await outputSince(deps, row, state.cursor) }
      }
      await deps.clock.sleep(LOOK_MS, woken.signal)
    } finally {
      woken.end()
    }
  }
}

/** What is known of the order now; `undefined`: it goes on. */
async function look(
  { db, clock }: PowerDeps,
  of: {
    readonly row: ServerRow
    readonly step: PowerStep
    readonly state: RunState
    readonly watched: { moved: boolean }
  },
): Promise<Outcome | undefined> {
  const { row, step, state, watched } = of
  let endedMs = Number.NEGATIVE_INFINITY
  if (state.commandId !== null) {
    const command = await db.read
      .selectFrom('command')
      .select(['state', 'error', 'endedAt'])
      .where('id', '=', state.commandId)
      .executeTakeFirst()
    if (command !== undefined && command.endedAt === null) return undefined
    if (command?.state === 'failed') return refused('AGENT_ERROR', messageOf(command.error))
    endedMs = Date.parse(command?.endedAt ?? row.updatedAt)
  }
  if (step.action === 'stop' || step.action === 'kill') return { ok: true }
  const status = statusOf(row)
  const isNew = state.startedBefore === null || row.startedAt !== state.startedBefore
  if (status === 'running' && (isNew || step.action === 'start')) return { ok: true }
  if (status === 'suspended') return refused('SERVER_SUSPENDED', 'The server was suspended')
  if (status === 'starting' || status === 'running') watched.moved = true
  const isDown = status === 'stopped' || status === 'crashed' || status === 'error'
  if (!isDown || row.nextRestartAt !== null) return undefined
  if (!watched.moved && clock.nowMs() - endedMs < DOWN_MS) return undefined
  return refused(
    'SERVER_INVALID_STATE',
    `The server is ${status} after its ${step.action}: ${row.reason ?? row.lastExitReason ?? 'it has ended'}`,
  )
}

function messageOf(error: string | null): string {
  const parsed: unknown = error === null ? null : JSON.parse(error) // written by finishCommand from an object
  const message = typeof parsed === 'object' && parsed !== null && 'message' in parsed ? parsed.message : undefined
  return typeof message === 'string' ? message : 'The node could not carry the order out'
}

/** Aborts with the next event of a server, or with `signal`. */
function nextEventOf(bus: Bus, serverId: string, signal: AbortSignal) {
  const woken = new AbortController()
  const wake = (): void => woken.abort()
  const unlisten = bus.listen((event) => {
    if (event.serverId === serverId) wake()
  })
  signal.addEventListener('abort', wake)
  if (signal.aborted) wake()
  const end = (): void => {
    unlisten()
    signal.removeEventListener('abort', wake)
  }
  return { signal: woken.signal, end }
}
