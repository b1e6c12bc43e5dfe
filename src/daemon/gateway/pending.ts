import { PanelError } from '../../shared/kernel/errors.ts'
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

/** A reason of its own: without one Node makes an error with a stack for each request. */
const OVER = 'over'

interface Waiting {
  settle(reply: FrameOf<'reply'>): void
  report(progress: unknown): void
  fail(error: Error): void
}

/** The requests of one connection that wait for their answers. */
export class PendingRequests {
  readonly #clock: Clock
  readonly #send: (frame: Extract<DaemonFrame, { type: 'request' | 'request.cancel' }>) => void
  readonly #waiting = new Map<string, Waiting>()
  #count = 0

  constructor(clock: Clock, send: (frame: Extract<DaemonFrame, { type: 'request' | 'request.cancel' }>) => void) {
    this.#clock = clock
    this.#send = send
  }

  /** Resolves with the checked answer; rejects with AGENT_TIMEOUT, the node's error as a PanelError, or NODE_OFFLINE. */
  async request<D extends RequestDefinition>(
    definition: D,
    request: Operation,
    options: RequestOptions<D>,
  ): Promise<ResultOf<D>> {
    const id = `r${++this.#count}`
    const over = new AbortController()
    const patience = options.timeoutMs ?? definition.timeoutMs
    try {
      const reply = await new Promise<FrameOf<'reply'>>((resolve, reject) => {
        const giveUp = (message: string): void => {
          if (definition.cancels) this.#send({ type: 'request.cancel', id })
          reject(new PanelError('AGENT_TIMEOUT', message))
        }
        let heardMs = this.#clock.monotonicMs()
        const report = (progress: unknown): void => {
          heardMs = this.#clock.monotonicMs()
          const parsed = definition.progress.safeParse(progress)
          if (parsed.success) options.onProgress?.(parsed.data as ProgressOf<D>) // parsed by this very definition
        }
        this.#waiting.set(id, { settle: resolve, report, fail: reject })
        const watch = async (): Promise<void> => {
          for (let leftMs = patience; leftMs > 0; leftMs = heardMs + patience - this.#clock.monotonicMs()) {
            await this.#clock.sleep(leftMs, over.signal)
            if (over.signal.aborted) return
          }
          giveUp('The node did not answer in time; it may still have done what was asked')
        }
        void watch()
        const abort = (): void => giveUp('Nobody waits for the answer of the node any more')
        if (options.signal?.aborted === true) {
          reject(new PanelError('AGENT_TIMEOUT', 'Nobody waits for the answer of the node any more'))
          return
        }
        options.signal?.addEventListener('abort', abort, { once: true, signal: over.signal })
        this.#send({ type: 'request', id, request })
      })
      if (reply.error !== null) throw agentErrorToPanelError(reply.error)
      return resultOf(definition, reply.result)
    } finally {
      over.abort(OVER)
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
    for (const waiting of [...this.#waiting.values()]) waiting.fail(error)
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
