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
  const events = wanted.map(({ event, data }) => {
    const fields: Record<string, unknown> = JSON.parse(data)
    const { serverId } = fields
    return { type: event, serverId: typeof serverId === 'string' ? serverId : undefined, data: fields }
  })
  return { events, last }
}

async function readFrames(
  url: string,
  token: string,
  lastEventId: string | undefined,
  isEnough: (frames: readonly Frame[]) => boolean,
): Promise<Frame[]> {
  const over = AbortSignal.timeout(10_000)
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
