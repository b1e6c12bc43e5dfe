import type { AgentFrame } from '../../shared/protocol/frames.ts'
import { Backoff, type LinkEnd } from './backoff.ts'
import { ConnectRefused, type ConnectTarget, connect } from './connect.ts'
import { connectionProblem } from './daemon-connection.ts'
import { Session, type SessionDeps } from './session.ts'

interface LinkOptions {
  readonly target: ConnectTarget
  readonly deps: SessionDeps
  readonly random: () => number
}

/** How a connection ended, and how that is logged. */
interface Ended {
  readonly end: LinkEnd
  readonly fields: Readonly<Record<string, unknown>>
  readonly message: string
}

/** Keeps the connection to the daemon: connects, runs a session, waits, and connects again until it is aborted. */
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
    const { clock, log } = this.#options.deps
    while (!signal.aborted) {
      const { end, fields, message } = await this.#once(signal)
      if (signal.aborted) return
      const waitMs = this.#backoff.next(end)
      log.warn({ ...fields, waitMs }, message)
      await clock.sleep(waitMs, signal)
    }
  }

  async #once(signal: AbortSignal): Promise<Ended> {
    const { target, deps } = this.#options
    try {
      const { socket, stream } = await connect(target, signal)
      this.#session = new Session(socket, deps)
      const { code, readyMs } = await this.#session.run(stream, signal)
      const end = { code, retryAfterMs: null, readyMs }
      return { end, fields: { closeCode: code }, message: 'daemon connection ended' }
    } catch (error) {
      const fields = { url: target.url, err: connectionProblem(error) }
      const refusal = error instanceof ConnectRefused ? error.refusal : undefined
      const end = { code: refusal?.status ?? null, retryAfterMs: refusal?.retryAfterMs ?? null, readyMs: 0 }
      return { end, fields, message: 'cannot reach daemon' }
    } finally {
      this.#session = undefined
    }
  }
}
