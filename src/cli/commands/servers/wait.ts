import { SERVER_STATUSES } from '../../../shared/kernel/server-life.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View } from '../../kit/output/view.ts'
import { forEach } from '../../kit/resource/bulk.ts'
import { type Named, resolveAll } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { isGone } from './gone.ts'
import { failed } from './outcome.ts'
import { waitTimeout } from './power.ts'
import { readServer, watchServer } from './watch.ts'

type Condition =
  | { readonly kind: 'state'; readonly states: readonly string[] }
  | { readonly kind: 'installed' | 'deleted' }

interface Reached {
  readonly server: string
  readonly id: string
  readonly status: string
  readonly waitedMs: number
}

const REACHED: View<Reached> = {
  id: (row) => row.id,
  name: (row) => row.server,
  columns: [
    column('SERVER', (row) => row.server),
    column('STATUS', (row) => ({ status: row.status })),
    column('WAITED', (row) => `${(row.waitedMs / 1000).toFixed(1)} s`),
  ],
}

/** `panel servers wait … --for …`. */
export const waitForServers: Action = async (run) => {
  const condition = conditionOf(run.args.text('for'))
  const servers = await resolveAll(run, 'server', run.args.words('server'))
  const reached: Reached[] = []
  const code = await forEach(run, servers, async (server) => {
    reached.push(await waitFor(run, server, condition))
  })
  const [only] = reached
  if (servers.length === 1 && only !== undefined) await run.out.item(only, REACHED)
  else await run.out.list(reached, REACHED)
  return code
}

async function waitFor(run: Run, server: Named, condition: Condition): Promise<Reached> {
  const started = run.clock.monotonicMs()
  const earlier = new Set<string>()
  const reached = (status: string): Reached => {
    return { server: server.name, id: server.id, status, waitedMs: Math.round(run.clock.monotonicMs() - started) }
  }
  try {
    return await watchServer(run, { server, timeoutMs: waitTimeout(run) }, async (tick) => {
      if (tick.kind === 'deleted' && condition.kind === 'deleted') return reached('deleted')
      const now = await readServer(run, server.id)
      if (condition.kind === 'installed' && now.installed && now.status !== 'installing') return reached(now.status)
      if (condition.kind === 'state' && condition.states.includes(now.status)) return reached(now.status)
      if (condition.kind !== 'deleted') giveUp(now, earlier)
      // An order that failed leaves the server at rest where it was.
      if (tick.kind === 'done' && !tick.order.ok && condition.kind !== 'deleted' && isAtRest(now))
        throw failed(now, tick.order.error ?? now.reason ?? `it is ${now.status}`)
      earlier.add(now.status)
      return undefined
    })
  } catch (error) {
    if (condition.kind === 'deleted' && isGone(error)) return reached('deleted')
    throw error
  }
}

/** A server that came to rest badly while it was watched will not get there by itself. */
function giveUp(
  now: {
    readonly name: string
    readonly status: string
    readonly nextRestartAt: string | null
    readonly reason: string | null
  },
  earlier: ReadonlySet<string>,
): void {
  const changed = [...earlier].some((status) => status !== now.status)
  if (now.status !== 'stopped' && isAtRest(now) && changed) throw failed(now, now.reason ?? `it is ${now.status}`)
}

function isAtRest(now: { readonly status: string; readonly nextRestartAt: string | null }): boolean {
  if (now.status === 'crashed') return now.nextRestartAt === null
  return now.status === 'stopped' || now.status === 'error'
}

function conditionOf(text: string | undefined): Condition {
  if (text === 'installed' || text === 'deleted') return { kind: text }
  const states = /^state=(.+)$/.exec(text ?? '')?.[1]?.split(',')
  const known: readonly string[] = SERVER_STATUSES
  if (states?.every((state) => known.includes(state)) === true) return { kind: 'state', states }
  throw usage('--for is state=<status>[,<status>], installed or deleted', `states: ${known.join(', ')}`)
}
