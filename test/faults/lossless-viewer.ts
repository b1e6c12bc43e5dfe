import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { until } from '../e2e/wait.ts'

/** A frame that says which lines are gone. */
export interface ResumeTold {
  readonly from: number
  readonly to: number
  readonly missed: number
  readonly reason: string | null
}

const RECONNECT_MS = 100

/**
 * A viewer of one console over plain HTTP: reads the stream, and after every cut connects again with the id of the last
 * frame that it has read to its end. Checks as it reads that no line comes twice and none is passed over in silence.
 */
export class LosslessViewer {
  /** The text of the lines, in the order in which they came. */
  readonly lines: string[] = []
  readonly resumes: ResumeTold[] = []
  /** What must never happen, told by the test. */
  readonly wrongs: string[] = []
  connections = 0
  lastId: string | undefined
  lastSeq: number | undefined
  readonly #url: string
  readonly #token: string
  readonly #slow: { readonly bytesPerSecond: number; readonly forMs: number } | undefined
  #began: number | undefined
  #request: ClientRequest | undefined
  #text = ''
  #away = false

  constructor(
    url: string,
    token: string,
    options: { resumeAt?: string; slow?: { bytesPerSecond: number; forMs: number } } = {},
  ) {
    this.#url = url
    this.#token = token
    this.#slow = options.slow
    this.lastId = options.resumeAt
    this.#connect()
  }

  /** Resolves when a line has come for which `isIt` holds. */
  async line(what: string, isIt: (text: string) => boolean, withinMs = 60_000): Promise<void> {
    let seen = 0
    const look = async (): Promise<boolean> => {
      for (; seen < this.lines.length; seen++) if (isIt(this.lines[seen] ?? '')) return true
      return false
    }
    await until(`${what} (${this.connections} connections)`, look, withinMs).catch((error: unknown) => {
      throw new Error(`${String(error)}; ${this.lines.length} lines, last: ${this.lines.slice(-3).join(' | ')}`)
    })
  }

  /** Cuts the stream; the viewer comes back as after any other cut. */
  cut(): void {
    this.#request?.destroy()
  }

  /** Resolves when it is connected again after a cut. */
  async back(): Promise<void> {
    const reported = this.resumes.length
    await until('the viewer is back', async () => this.resumes.length > reported)
  }

  /** Cuts the stream and stays away. */
  leave(): void {
    this.#away = true
    this.#request?.destroy()
  }

  #connect(): void {
    if (this.#away) return
    this.#text = ''
    this.connections += 1
    const headers: Record<string, string> = { authorization: `Bearer ${this.#token}` }
    if (this.lastId !== undefined) headers['last-event-id'] = this.lastId
    const again = once(() => setTimeout(() => this.#connect(), RECONNECT_MS))
    const made = request(this.#url, { agent: false, headers })
    made.on('error', again) // the daemon is away, or was killed in the middle of a frame
    made.on('response', (response) => {
      response.on('error', again).on('close', again).setEncoding('utf8')
      void this.#read(response)
    })
    this.#request = made.end()
  }

  /** At the slow pace so many bytes are taken and then none until they are due; later everything as it comes. */
  async #read(response: IncomingMessage): Promise<void> {
    const slow = this.#slow
    this.#began ??= performance.now()
    const began = this.#began
    while (slow !== undefined && performance.now() - began < slow.forMs && !response.destroyed) {
      const part: string | null = response.read(slow.bytesPerSecond / 4) ?? null
      if (part !== null) this.#take(part)
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
    response.on('data', (part: string) => this.#take(part))
  }

  #take(part: string): void {
    const frames = (this.#text + part).split('\n\n')
    this.#text = frames.pop() ?? ''
    for (const frame of frames) this.#frame(frame)
  }

  #frame(text: string): void {
    const fields = new Map(
      text.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
    )
    const event = fields.get('event')
    if (event === 'console') this.#console(JSON.parse(fields.get('data') ?? ''))
    if (event === 'resume_console') this.#resume(JSON.parse(fields.get('data') ?? ''))
    const id = fields.get('id')
    if (id !== undefined) this.lastId = id
  }

  #console({ seq, line }: { seq: number; line: string }): void {
    const expected = this.lastSeq === undefined ? seq : this.lastSeq + 1
    if (seq !== expected) this.wrongs.push(`line ${seq} came in the place of line ${expected}`)
    this.lastSeq = seq
    this.lines.push(line)
  }

  #resume({ from, to, missed, reason }: ResumeTold): void {
    this.resumes.push({ from, to, missed, reason })
    if (this.lastSeq !== undefined && from !== this.lastSeq + 1) {
      this.wrongs.push(`a resume from ${from} came after line ${this.lastSeq}`)
    }
    if (to - from + 1 !== missed) this.wrongs.push(`a resume from ${from} to ${to} told of ${missed}`)
    this.lastSeq = to
  }
}

function once(action: () => void): () => void {
  let due = true
  return () => {
    if (due) action()
    due = false
  }
}
