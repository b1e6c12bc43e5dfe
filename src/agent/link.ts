import type { AgentFrame } from '../shared/frames.ts'
import { Backoff, type LinkEnd } from './backoff.ts'
import { ConnectRefused, type ConnectTarget, connect } from './connect.ts'
import { errorText } from './logger.ts'
import { Session, type SessionDoors } from './session.ts'

interface LinkOptions {
  readonly target: ConnectTarget
  readonly doors: SessionDoors
  readonly random: () => number
}

/** Keeps the connection to the daemon: connects, runs a session, waits, and connects again until it is told to end. */
export class Link {
  readonly #options: LinkOptions
  readonly #backoff: Backoff
  #session: Session | undefined

  constructor(options: LinkOptions) {
    this.#options = options
    this.#backoff = new Backoff(options.random)
  }

  /** Sends a frame that loses its worth when there is no connection, or when its buffer is full. */
  sendIfIdle(frame: AgentFrame): void {
    if (this.#session?.ready === true) this.#session.sender.sendIfIdle(frame)
  }

  /** Sends a frame that the daemon will ask for again when it does not come. */
  sendOrDrop(frame: AgentFrame): void {
    if (this.#session?.ready === true) this.#session.sender.send(frame).catch(() => {}) // see above
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options.doors
    while (!signal.aborted) {
      const end = await this.#once(signal)
      if (signal.aborted) return
      await clock.sleep(this.#backoff.next(end), signal)
    }
  }

  async #once(signal: AbortSignal): Promise<LinkEnd> {
    const { target, doors } = this.#options
    try {
      const { socket, stream } = await connect(target, signal)
      this.#session = new Session(socket, doors)
      const { code, readyMs } = await this.#session.run(stream, signal)
      if (!signal.aborted) doors.log.warn({ closeCode: code }, 'the connection to the daemon has ended')
      return { code, retryAfterMs: null, readyMs }
    } catch (error) {
      const fields = { url: target.url, err: errorText(error) }
      if (!signal.aborted) doors.log.warn(fields, 'the daemon cannot be reached')
      const refusal = error instanceof ConnectRefused ? error.refusal : undefined
      return { code: refusal?.status ?? null, retryAfterMs: refusal?.retryAfterMs ?? null, readyMs: 0 }
    } finally {
      this.#session = undefined
    }
  }
}
