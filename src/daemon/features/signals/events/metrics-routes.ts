import { streamNodeMetrics, streamServerMetrics } from '../../../../shared/api/metrics-streams.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Db } from '../../../db/db.ts'
import { type StreamRoute, streamRoute } from '../../../http/route.ts'
import type { NodeUsageBoard } from '../../fleet/nodes/figures.ts'
import type { Figures } from '../../servers/servers/figures.ts'
import { endWithServer } from './server-end.ts'

/** Bytes a viewer may leave unread. */
const MAX_UNSENT = 1024 * 1024

/** What the streams of figures need. */
interface MetricsDeps {
  readonly db: Db
  readonly bus: Bus
  readonly figures: Figures
  readonly nodeFigures: NodeUsageBoard
}

/** The streams of figures. Frames carry no id: the newest stands for all that was missed. */
export function metricsStreams(deps: MetricsDeps): StreamRoute[] {
  deps.bus.listen(({ type, data }) => {
    if (type === 'node_deleted') deps.nodeFigures.forget(String(data['nodeId']))
  })
  return [serverMetrics(deps), nodeMetrics(deps)]
}

function serverMetrics({ db, bus, figures }: MetricsDeps): StreamRoute {
  return streamRoute(streamServerMetrics, async ({ params }, context) => {
    const { serverId } = params
    const find = () =>
      db.read.selectFrom('server').select(['nodeId', 'suspendedAt']).where('id', '=', serverId).executeTakeFirst()
    const row = await find()
    if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
    if (row.suspendedAt !== null) {
      throw new PanelError('SERVER_SUSPENDED', 'This server is suspended', { meta: { suspendedAt: row.suspendedAt } })
    }
    const connection = context.open({ name: 'metrics', serverId, maxUnsentBytes: MAX_UNSENT })
    const push = (): void => {
      const now = figures.get(serverId)
      if (now !== undefined) connection.send('resource_stats', { serverId, ...now })
    }
    const ends = [
      figures.listen((of) => {
        // A slow reader gets the newest when he has taken what waits.
        if (of === serverId && connection.unsentBytes === 0) push()
      }),
      figures.watch(row.nodeId, serverId),
      endWithServer({ bus, find, connection, serverId, log: context.log }),
    ]
    connection.send('connected', { serverId })
    push()
    await over(connection.closed, ends)
  })
}

function nodeMetrics({ db, bus, nodeFigures }: MetricsDeps): StreamRoute {
  return streamRoute(streamNodeMetrics, async ({ params }, context) => {
    const { nodeId } = params
    const row = await db.read.selectFrom('node').select('id').where('id', '=', nodeId).executeTakeFirst()
    if (row === undefined) throw new PanelError('NODE_NOT_FOUND', 'There is no such node')
    const connection = context.open({ name: 'node-metrics', maxUnsentBytes: MAX_UNSENT })
    const ends = [
      nodeFigures.listen((figures) => {
        if (figures.nodeId === nodeId && connection.unsentBytes === 0) connection.send('node_stats', figures)
      }),
      bus.listen(({ type, data }) => {
        if (type === 'node_deleted' && data['nodeId'] === nodeId) connection.end()
      }),
    ]
    connection.send('connected', { nodeId })
    const last = nodeFigures.get(nodeId)
    if (last !== undefined) connection.send('node_stats', last)
    await over(connection.closed, ends)
  })
}

/** Resolves when the stream is over, with everything ended that was begun for it. */
async function over(closed: AbortSignal, ends: readonly (() => void)[]): Promise<void> {
  if (!closed.aborted) {
    await new Promise<void>((resolve) => closed.addEventListener('abort', () => resolve(), { once: true }))
  }
  for (const end of ends) end()
}
