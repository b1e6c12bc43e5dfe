import type { LogLevel, Refusal, ToPlugin } from '../shared/protocol/plugin-frames.ts'
import type { Channel } from './channel.ts'

const MOST_LOG_TEXT = 8000

/** A request to the panel was refused: `code` is that of the API. */
export class PanelRefusal extends Error {
  override readonly name = 'PanelRefusal'
  readonly code: string
  readonly status: number | undefined
  readonly details: unknown

  constructor({ code, message, status, details }: Refusal) {
    super(message)
    this.code = code
    this.status = status
    this.details = details
  }
}

/** The plugin's way to the panel: numbered requests and their answers. */
export class PanelClient {
  readonly #channel: Channel
  readonly #waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>()
  #last = 0

  constructor(channel: Channel) {
    this.#channel = channel
  }

  ask(op: string, input: unknown): Promise<unknown> {
    const id = ++this.#last
    return new Promise((resolve, reject) => {
      this.#channel.send({ t: 'request', id, op, input })
      this.#waiting.set(id, { resolve, reject })
    })
  }

  log(level: LogLevel, text: unknown, fields?: unknown): void {
    const about = fields === undefined ? {} : { fields: sayable(fields) }
    this.#channel.send({ t: 'log', level, text: String(text).slice(0, MOST_LOG_TEXT), ...about })
  }

  settle(frame: ToPlugin & { t: 'answer' | 'refusal' }): void {
    const waiting = this.#waiting.get(frame.id)
    this.#waiting.delete(frame.id)
    if (frame.t === 'answer') waiting?.resolve(frame.value)
    else waiting?.reject(new PanelRefusal(frame.error))
  }
}

/** A line of the log is not worth the failure of who writes it. */
function sayable(fields: unknown): unknown {
  try {
    JSON.stringify(fields)
    return fields
  } catch {
    return 'not JSON' // the text of the line is reported all the same
  }
}
