import { streamServerEvents } from '../../../shared/api/server-events.ts'
import { getServer, type Server } from '../../../shared/api/servers.ts'
import type { EventData } from '../../../shared/kernel/events.ts'
import { CliFailure } from '../../kit/failure.ts'
import type { Named } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

/** What happened to a watched server. `open`: the stream is (again) open, so nothing later is missed. */
export type Tick =
  | { readonly kind: 'open'; readonly first: boolean }
  | { readonly kind: 'state' }
  | { readonly kind: 'done'; readonly order: EventData<'server_command_done'> }
  | { readonly kind: 'deleted' }

const TYPES = 'server_state_update,server_command_done,server_updated,server_deleted'
/** A daemon that is away for longer than these tries (about a minute) is given up. */
const RETRIES = 8

/**
 * Follows one server until `evaluate` answers something. The stream is open before the first tick, so an order that `evaluate`
 * gives there is followed from its beginning. Throws TIMEOUT after `timeoutMs`.
 */
export async function watchServer<T>(
  run: Run,
  wanted: { readonly server: Named; readonly timeoutMs: number },
  evaluate: (tick: Tick) => Promise<T | undefined>,
): Promise<T> {
  const over = new AbortController()
  const signal = AbortSignal.any([run.signal, over.signal])
  let timedOut = false
  void run.clock.sleep(wanted.timeoutMs, signal).then(() => {
    timedOut = !signal.aborted
    over.abort()
  })
  try {
    const open = await run.streams()
    const input = { params: { serverId: wanted.server.id }, query: { types: TYPES } }
    let first = true
    for await (const item of open(streamServerEvents, input, { signal, retries: RETRIES })) {
      if (item.kind === 'retrying') continue
      const tick = item.kind === 'open' ? ({ kind: 'open', first } as const) : await tickOf(item)
      first = false
      const verdict = tick === undefined ? undefined : await evaluate(tick)
      if (verdict !== undefined) return verdict
    }
  } finally {
    over.abort()
  }
  if (timedOut)
    throw new CliFailure(
      'TIMEOUT',
      `${wanted.server.name}: not there within ${wanted.timeoutMs / 1000} s; what was ordered continues`,
    )
  throw new CliFailure('INTERRUPTED', 'stopped waiting')
}

/** The server as it is now. */
export async function readServer(run: Run, serverId: string): Promise<Server> {
  return (await run.client()).call(getServer, { params: { serverId } })
}

async function tickOf(frame: { readonly event: string; readonly data: string }): Promise<Tick | undefined> {
  if (frame.event === 'server_state_update' || frame.event === 'server_updated') return { kind: 'state' }
  if (frame.event === 'server_deleted') return { kind: 'deleted' }
  if (frame.event !== 'server_command_done') return undefined
  const { EVENTS } = await import('../../../shared/kernel/events.ts')
  const order = EVENTS.server_command_done.data.safeParse(JSON.parse(frame.data))
  return order.success ? { kind: 'done', order: order.data } : undefined
}
