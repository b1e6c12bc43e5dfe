/** One event of the event log as the admin stream carries it. */
export interface PanelEvent {
  readonly type: string
  readonly serverId: string | undefined
  readonly data: Readonly<Record<string, unknown>>
}

/** A frame of an event stream. */
export interface Frame {
  readonly id: string
  readonly event: string
  readonly data: string
}

/** The frames of a text; the unfinished last one is left out. */
export function framesOf(text: string): Frame[] {
  return text
    .split('\n\n')
    .slice(0, -1)
    .flatMap((block) => {
      const fields = new Map<string, string>()
      for (const line of block.split('\n')) {
        const at = line.indexOf(':')
        if (at > 0) fields.set(line.slice(0, at), line.slice(at + 1).trimStart())
      }
      const event = fields.get('event')
      return event === undefined ? [] : [{ id: fields.get('id') ?? '', event, data: fields.get('data') ?? '' }]
    })
}

/** Everything that the event log holds now, oldest first: the stream is read from the first event to the present last one. */
export async function allEvents(url: string, token: string): Promise<PanelEvent[]> {
  return (await eventsAfter(url, token, undefined)).events
}

/** The events behind the one with this id (all, without one) up to the present last one, and that one's id. */
export async function eventsAfter(
  url: string,
  token: string,
  id: string | undefined,
): Promise<{ events: PanelEvent[]; last: string }> {
  const [hello] = await readFrames(url, token, undefined, (frames) => frames.length > 0)
  const last = String(JSON.parse(hello?.data ?? '{}').lastEventId)
  const [epoch = '', count] = last.split('-')
  if (count === '0' || last === id) return { events: [], last }
  const frames = await readFrames(url, token, id ?? `${epoch}-0`, (read) => read.some((frame) => frame.id === last))
  // What comes behind it belongs to the next reading.
  const wanted = frames.slice(1, frames.findIndex((frame) => frame.id === last) + 1)
  return { events: wanted.map(eventOf), last }
}

/** Follows the stream from the first event that is kept until one comes that is so; each is looked at once, in order. */
export async function firstEvent(
  url: string,
  token: string,
  isSo: (event: PanelEvent) => boolean,
  withinMs: number,
): Promise<PanelEvent> {
  const [hello] = await readFrames(url, token, undefined, (frames) => frames.length > 0)
  const [epoch = ''] = String(JSON.parse(hello?.data ?? '{}').lastEventId).split('-')
  let looked = 0
  let found: PanelEvent | undefined
  const isEnough = (frames: readonly Frame[]): boolean => {
    const fresh = frames.slice(looked).map(eventOf)
    looked = frames.length
    found ??= fresh.find(isSo)
    return found !== undefined
  }
  await readFrames(url, token, `${epoch}-0`, isEnough, withinMs)
  if (found === undefined) throw new Error(`${url} ended`)
  return found
}

function eventOf({ event, data }: Frame): PanelEvent {
  const fields: Record<string, unknown> = JSON.parse(data)
  const { serverId } = fields
  return { type: event, serverId: typeof serverId === 'string' ? serverId : undefined, data: fields }
}

async function readFrames(
  url: string,
  token: string,
  lastEventId: string | undefined,
  isEnough: (frames: readonly Frame[]) => boolean,
  withinMs = 10_000,
): Promise<Frame[]> {
  const over = AbortSignal.timeout(withinMs)
  const response = await fetch(url, {
    headers: {
      authorization: `Bearer ${token}`,
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    },
    signal: over,
  })
  if (!response.ok || response.body === null) throw new Error(`${url} answered ${response.status}`)
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of response.body) {
    text += decoder.decode(chunk, { stream: true })
    const frames = framesOf(text)
    if (isEnough(frames)) return frames
  }
  throw new Error(`${url} ended: ${text}`)
}
