import type { z } from 'zod'
import { streamNodeMetrics, streamServerMetrics } from '../../../shared/api/metrics-streams.ts'
import { oneLine } from '../../kit/output/escape.ts'
import type { View } from '../../kit/output/view.ts'
import type { Run } from '../../kit/run.ts'
import type { StreamItem } from '../../net/stream.ts'

/** A stream of usage as `--watch` shows it: a row for each report. */
interface Watched<T> {
  readonly items: AsyncIterable<StreamItem>
  readonly event: string
  readonly view: View<T>
  /** The shape of a report; a newer daemon may add to it. */
  readonly schema: z.ZodObject & z.ZodType<T>
}

/** Opens the usage stream of a server. */
export async function serverUsage(run: Run, serverId: string): Promise<AsyncIterable<StreamItem>> {
  const open = await run.streams()
  return open(streamServerMetrics, { params: { serverId } }, { signal: run.signal, retriesBeforeOpen: 3 })
}

/** Opens the usage stream of a node. */
export async function nodeUsage(run: Run, nodeId: string): Promise<AsyncIterable<StreamItem>> {
  const open = await run.streams()
  return open(streamNodeMetrics, { params: { nodeId } }, { signal: run.signal, retriesBeforeOpen: 3 })
}

/** Shows reports as they come, until the stream or the person ends it. */
export async function watchUsage<T>(run: Run, { items, event, view, schema }: Watched<T>): Promise<void> {
  for await (const item of items) {
    if (item.kind === 'retrying') run.notice(`cut off (${item.reason}); next try in ${(item.inMs / 1000).toFixed(1)} s`)
    if (item.kind !== 'frame') continue
    const data: unknown = JSON.parse(item.data)
    if (item.event === event)
      await run.out.row(schema.loose().parse(data) as T, view) // a loose object still has the fields of its schema
    else if (item.event === 'error' && typeof data === 'object' && data !== null && 'error' in data)
      run.notice(`the panel says: ${oneLine(String(data.error))}`)
  }
}
