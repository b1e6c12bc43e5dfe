import { PanelError } from '../../shared/kernel/errors.ts'
import { InFlight } from '../../shared/kernel/in-flight.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import type { ProgressOf, RequestDefinition, ResultOf } from '../../shared/protocol/define.ts'
import type { DaemonFrame, Operation } from '../../shared/protocol/frames.ts'
import { agentErrorToPanelError } from './agent-errors.ts'
import type { FrameOf } from './handlers.ts'

/** What a caller may set for one request. */
export interface RequestOptions<D extends RequestDefinition = RequestDefinition> {
  /** How long it may take without an answer or a report, in place of the definition's own time. */
  readonly timeoutMs?: number
  /** Ends the waiting; an agent whose request can be cancelled is asked to end its work as well. */
  readonly signal?: AbortSignal
  /** How far it is, as far as reports arrive. */
  readonly onProgress?: (progress: ProgressOf<D>) => void
}

const NOBODY_WAITS = 'Nobody waits for the answer of the node any more'

/** A reason of its own: without one Node makes an error with a stack for each look that is not needed any more. */
const OVER = 'over'

interface Waiting {
  /** When it has waited long enough. */
  untilMs: number
  settle(reply: FrameOf<'reply'>): void
  report(progress: unknown): void
  fail(error: Error): void
  giveUp(message: string): void
}

/** The requests of one connection that wait for their answers. */
export class PendingRequests {
  readonly #clock: Clock
  readonly #send: (frame: Extract<DaemonFrame, { type: 'request' | 'request.cancel' }>) => void
  readonly #waiting = new InFlight<string, Waiting>()
  /** The next look for those that have waited long enough: one for all, since most are answered at once. */
  #look: { readonly atMs: number; readonly over: AbortController } | undefined
  #count = 0

  constructor(clock: Clock, send: (frame: Extract<DaemonFrame, { type: 'request' | 'request.cancel' }>) => void) {
    this.#clock = clock
    this.#send = send
  }

  /** Resolves with the checked answer; rejects with AGENT_TIMEOUT, the node's error as a PanelError, or NODE_OFFLINE. */
  async request<D extends RequestDefinition>(
    definition: D,
    request: Operation,
    { timeoutMs: patience = definition.timeoutMs, signal, onProgress }: RequestOptions<D>,
  ): Promise<ResultOf<D>> {
    if (signal?.aborted === true) throw new PanelError('AGENT_TIMEOUT', NOBODY_WAITS)
    const id = `r${++this.#count}`
    let abort = (): void => undefined
    try {
      const reply = await new Promise<FrameOf<'reply'>>((resolve, reject) => {
        const until = (): number => this.#clock.monotonicMs() + patience
        const giveUp = (message: string): void => {
          if (definition.cancels) this.#send({ type: 'request.cancel', id })
          reject(new PanelError('AGENT_TIMEOUT', message))
        }
        const report = (progress: unknown): void => {
          waiting.untilMs = until()
          const parsed = definition.progress.safeParse(progress)
          if (parsed.success) onProgress?.(parsed.data as ProgressOf<D>) // parsed by this very definition
        }
        const waiting: Waiting = { untilMs: until(), settle: resolve, report, fail: reject, giveUp }
        this.#waiting.set(id, waiting)
        this.#lookAt(waiting.untilMs)
        abort = () => giveUp(NOBODY_WAITS)
        signal?.addEventListener('abort', abort, { once: true })
        this.#send({ type: 'request', id, request })
      })
      if (reply.error !== null) throw agentErrorToPanelError(reply.error)
      return resultOf(definition, reply.result)
    } finally {
      signal?.removeEventListener('abort', abort)
      this.#waiting.delete(id)
    }
  }

  /** Takes an answer; one that nobody waits for any more is passed over. */
  settle(reply: FrameOf<'reply'>): void {
    this.#waiting.get(reply.id)?.settle(reply)
  }

  /** Takes a report on the way; one that nobody waits for any more is passed over. */
  progress({ id, progress }: FrameOf<'request.progress'>): void {
    this.#waiting.get(id)?.report(progress)
  }

  /** The connection is gone: nothing will be answered. */
  failAll(error: PanelError): void {
    this.#look?.over.abort(OVER)
    this.#look = undefined
    for (const waiting of this.#waiting.values()) waiting.fail(error)
  }

  #lookAt(atMs: number): void {
    if (this.#look !== undefined && this.#look.atMs <= atMs) return
    this.#look?.over.abort(OVER)
    const look = { atMs, over: new AbortController() }
    this.#look = look
    void this.#giveUpLate(look)
  }

  async #giveUpLate({ atMs, over }: { readonly atMs: number; readonly over: AbortController }): Promise<void> {
    await this.#clock.sleep(Math.max(0, atMs - this.#clock.monotonicMs()), over.signal)
    if (over.signal.aborted) return
    this.#look = undefined
    const nowMs = this.#clock.monotonicMs()
    let next = Number.POSITIVE_INFINITY
    for (const waiting of this.#waiting.values()) {
      if (waiting.untilMs > nowMs) next = Math.min(next, waiting.untilMs)
      else waiting.giveUp('The node did not answer in time; it may still have done what was asked')
    }
    if (next < Number.POSITIVE_INFINITY) this.#lookAt(next)
  }
}

function resultOf<D extends RequestDefinition>(definition: D, result: unknown): ResultOf<D> {
  const parsed = definition.result.safeParse(result)
  if (parsed.success) return parsed.data as ResultOf<D> // parsed by this very definition
  throw new PanelError('AGENT_ERROR', 'The node answered in a way that this daemon does not understand', {
    meta: { agentCode: 'INTERNAL' },
    cause: parsed.error,
  })
}
