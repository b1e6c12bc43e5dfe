import { streamNodeMetrics, streamServerMetrics } from '../../../../shared/api/metrics-streams.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Db } from '../../../db/db.ts'
import { type StreamRoute, streamRoute } from '../../../http/route.ts'
import type { NodeUsageBoard } from '../../fleet/nodes/usage.ts'
import type { ServerUsageBoard } from '../../servers/servers/usage.ts'
import { endWithServer } from './server-end.ts'

/** Bytes a viewer may leave unread. */
const MAX_UNSENT = 1024 * 1024

/** What the streams of metrics need. */
interface MetricsDeps {
  readonly db: Db
  readonly bus: Bus
  readonly usage: ServerUsageBoard
  readonly nodeUsage: NodeUsageBoard
}

/** The streams of metrics. Frames carry no id: the newest stands for all that was missed. */
export function metricsStreams(deps: MetricsDeps): StreamRoute[] {
  deps.bus.listen(({ type, data }) => {
    if (type === 'node_deleted') deps.nodeUsage.forget(String(data['nodeId']))
  })
  return [serverMetrics(deps), nodeMetrics(deps)]
}

function serverMetrics({ db, bus, usage }: MetricsDeps): StreamRoute {
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
      const now = usage.get(serverId)
      if (now !== undefined) connection.send('resource_stats', { serverId, ...now })
    }
    const ends = [
      usage.listen((of) => {
        // A slow reader gets the newest when they have read what waits.
        if (of === serverId && connection.unsentBytes === 0) push()
      }),
      usage.watch(row.nodeId, serverId),
      endWithServer({ bus, find, connection, serverId, log: context.log }),
    ]
    connection.send('connected', { serverId })
    push()
    await over(connection.closed, ends)
  })
}

function nodeMetrics({ db, bus, nodeUsage }: MetricsDeps): StreamRoute {
  return streamRoute(streamNodeMetrics, async ({ params }, context) => {
    const { nodeId } = params
    const row = await db.read.selectFrom('node').select('id').where('id', '=', nodeId).executeTakeFirst()
    if (row === undefined) throw new PanelError('NODE_NOT_FOUND', 'There is no such node')
    const connection = context.open({ name: 'node-metrics', maxUnsentBytes: MAX_UNSENT })
    const ends = [
      nodeUsage.listen((usage) => {
        if (usage.nodeId === nodeId && connection.unsentBytes === 0) connection.send('node_stats', usage)
      }),
      bus.listen(({ type, data }) => {
        if (type === 'node_deleted' && data['nodeId'] === nodeId) connection.end()
      }),
    ]
    connection.send('connected', { nodeId })
    const last = nodeUsage.get(nodeId)
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
