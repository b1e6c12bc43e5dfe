import { streamAdminEvents } from '../../../shared/api/admin.ts'
import { streamServerEvents } from '../../../shared/api/server-events.ts'
import { EVENTS } from '../../../shared/kernel/events.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { oneLine } from '../../kit/output/escape.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import type { StreamItem } from '../../net/stream.ts'

/** `panel servers events <server>`. */
export const serverEvents: Action = async (run) => {
  const word = run.args.required('server')
  const serverId = word === 'all-servers' ? word : (await resolve(run, 'server', word)).id
  const types = run.args.list('type')
  const query = types.length === 0 ? {} : { types: types.join(',') }
  const open = await run.streams()
  await follow(run, open(streamServerEvents, { params: { serverId }, query }, resumeFrom(run)), () => true)
}

/** `panel events tail`. */
export const tailEvents: Action = async (run) => {
  const types = typesOf(run.args.list('type'))
  const word = run.args.text('server')
  const serverId = word === undefined ? undefined : (await resolve(run, 'server', word)).id
  const query = types === undefined ? {} : { types: types.join(',') }
  const open = await run.streams()
  await follow(run, open(streamAdminEvents, { query }, resumeFrom(run)), (event) => {
    return serverId === undefined || event['serverId'] === serverId
  })
}

type EventRecord = Readonly<Record<string, unknown>>

async function follow(
  run: Run,
  items: AsyncIterable<StreamItem>,
  wanted: (event: EventRecord) => boolean,
): Promise<void> {
  for await (const item of items) {
    if (item.kind === 'retrying') run.notice(`cut off (${item.reason}); next try in ${(item.inMs / 1000).toFixed(1)} s`)
    if (item.kind !== 'frame' || item.event === 'connected') continue
    const data: unknown = JSON.parse(item.data)
    if (typeof data !== 'object' || data === null) continue
    const event: EventRecord = { ...(item.id === '' ? {} : { id: item.id }), type: item.event, ...data }
    if (item.event === 'error') run.notice(`the panel says: ${oneLine(String(event['message'] ?? event['error']))}`)
    else if (wanted(event)) await print(run, event)
  }
}

async function print(run: Run, event: EventRecord): Promise<void> {
  const { format } = run.out
  if (format === 'json' || format === 'jsonl') return run.out.entry(event)
  if (run.out.machine) return run.out.value(event)
  if (format === 'id' || format === 'name')
    return run.out.text(`${String(format === 'id' ? (event['id'] ?? '') : event['type'])}\n`)
  const { type, timestamp, id: _, ...rest } = event
  const fields = Object.entries(rest).filter(([, value]) => value !== null)
  const text = fields.map(
    ([name, value]) => `${name}=${typeof value === 'string' ? oneLine(value) : JSON.stringify(value)}`,
  )
  await run.out.text(`${String(timestamp ?? '-')}  ${oneLine(String(type))}  ${text.join(' ')}\n`)
}

/** Types by glob, as the daemon knows them by name only. */
function typesOf(globs: readonly string[]): readonly string[] | undefined {
  if (globs.length === 0) return undefined
  const patterns = globs.flatMap((glob) => glob.split(',')).map(patternOf)
  const types = Object.keys(EVENTS).filter((type) => patterns.some((pattern) => pattern.test(type)))
  if (types.length === 0)
    throw usage(`no event type is like '${globs.join(', ')}'`, `types: ${Object.keys(EVENTS).join(', ')}`)
  return types
}

/** A star says no more when it is written twice. */
function patternOf(glob: string): RegExp {
  const text = glob
    .slice(0, 100)
    .replace(/\*+/g, '*')
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.')
  return new RegExp(`^${text}$`)
}

function resumeFrom(run: Run): { signal: AbortSignal; retriesBeforeOpen: number; lastEventId?: string } {
  const cursor = run.args.text('after-cursor')
  return { signal: run.signal, retriesBeforeOpen: 3, ...(cursor === undefined ? {} : { lastEventId: cursor }) }
}
