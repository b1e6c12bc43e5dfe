import { fieldError } from '../../../../shared/kernel/errors.ts'
import type { Bus, BusEvent } from '../../../core/bus.ts'
import type { SseConnection } from '../../../http/sse.ts'

const PAGE = 500

/** How one viewer follows the event log. */
export interface Following {
  readonly bus: Bus
  readonly connection: SseConnection
  /** Names the installation in ids, so that a marker of another one is recognised. */
  readonly epoch: string
  readonly lastEventId: string | undefined
  readonly types: ReadonlySet<string> | undefined
  /** Whether this viewer may see the event. */
  readonly mayPass: (event: BusEvent) => boolean | Promise<boolean>
  /** What of an event this viewer gets; absent: all of it. */
  readonly cut?: (event: BusEvent) => Promise<BusEvent | undefined>
  /** The fields of the `connected` frame beside the marker's. */
  readonly hello: Readonly<Record<string, unknown>>
  /** Called when `connected` has been sent, before any event. */
  readonly begun?: () => void | Promise<void>
  /** Called for each event of the log after its turn, also for those that this viewer does not get. */
  readonly passed?: (event: BusEvent) => void
}

/**
 * Sends `connected`, then every event after the viewer's marker, then those that come, in the order of ids, each once.
 * `connected` says whether events before are missing for ever (`missed`). Resolves when the stream is over.
 */
export async function follow(following: Following): Promise<void> {
  const { bus, connection } = following
  const waiting: BusEvent[] = []
  let wake = (): void => undefined
  const stop = bus.listen((event) => {
    waiting.push(event)
    wake()
  })
  connection.closed.addEventListener('abort', () => wake())
  try {
    const { first, last } = await bus.bounds()
    const marker = parseMarker(following)
    const known = marker !== undefined && marker >= first - 1 && marker <= last
    connection.send('connected', {
      ...following.hello,
      lastEventId: `${following.epoch}-${last}`,
      resumed: known,
      missed: following.lastEventId !== undefined && !known,
    })
    await following.begun?.()
    let sent = known ? await replay(following, marker) : last
    while (!connection.closed.aborted) {
      for (const event of waiting.splice(0)) {
        if (event.id <= sent) continue
        sent = event.id
        await pass(following, event)
      }
      if (waiting.length > 0 || connection.closed.aborted) continue
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  } finally {
    stop()
  }
}

/** A comma-separated choice of event types; one that the stream does not carry is refused. */
export function typesOf(text: string | undefined, carries: (type: string) => boolean): ReadonlySet<string> | undefined {
  if (text === undefined || text === '') return undefined
  const names = text.split(',').map((name) => name.trim())
  const unknown = names.filter((name) => !carries(name))
  if (unknown.length > 0) throw fieldError('query.types', `has no event type ${unknown.join(', ')}`)
  return new Set(names)
}

async function replay(following: Following, after: number): Promise<number> {
  let sent = after
  while (!following.connection.closed.aborted) {
    const page = await following.bus.after(sent, PAGE)
    for (const event of page) {
      await pass(following, event)
      sent = event.id
    }
    if (page.length < PAGE) break
    await following.connection.drained()
  }
  return sent
}

async function pass(following: Following, event: BusEvent): Promise<void> {
  await send(following, event)
  following.passed?.(event)
}

async function send(following: Following, event: BusEvent): Promise<void> {
  const { connection, types, epoch } = following
  if (types !== undefined && !types.has(event.type)) return
  if (!(await following.mayPass(event))) return
  const shown = following.cut === undefined ? event : await following.cut(event)
  if (shown === undefined) return
  const server = event.serverId === null ? {} : { serverId: event.serverId }
  connection.send(event.type, { ...server, ...shown.data, timestamp: event.timestamp }, `${epoch}-${event.id}`)
}

function parseMarker({ lastEventId, epoch }: Following): number | undefined {
  const match = lastEventId === undefined ? null : /^([0-9a-z]+)-(\d{1,15})$/.exec(lastEventId)
  return match !== null && match[1] === epoch ? Number(match[2]) : undefined
}
