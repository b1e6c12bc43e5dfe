import { PanelError } from '../../shared/kernel/errors.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import type { AgentRequest } from '../../shared/protocol/frames.ts'
import { GATEWAY_LIMITS } from '../../shared/protocol/frames.ts'
import { agentErrorToPanelError, RESULTS, type ResultOf } from './agent-errors.ts'
import type { FrameOf } from './handlers.ts'

/** How long a request may take (default 5 s), and what ends the waiting early. */
export interface RequestOptions {
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

interface Waiting {
  settle(reply: FrameOf<'reply'>): void
  fail(error: Error): void
}

/** The requests of one connection that wait for their answers. */
export class PendingRequests {
  readonly #clock: Clock
  readonly #send: (id: string, request: AgentRequest) => void
  readonly #waiting = new Map<string, Waiting>()
  #count = 0

  constructor(clock: Clock, send: (id: string, request: AgentRequest) => void) {
    this.#clock = clock
    this.#send = send
  }

  /** Resolves with the checked answer; rejects with AGENT_TIMEOUT, the node's error as a PanelError, or NODE_OFFLINE. */
  async request<R extends AgentRequest>(request: R, options: RequestOptions): Promise<ResultOf<R['op']>> {
    const id = `r${++this.#count}`
    const over = new AbortController()
    try {
      const reply = await new Promise<FrameOf<'reply'>>((resolve, reject) => {
        this.#waiting.set(id, { settle: resolve, fail: reject })
        void this.#clock.sleep(options.timeoutMs ?? GATEWAY_LIMITS.requestMs, over.signal).then(() => {
          if (over.signal.aborted) return
          reject(
            new PanelError('AGENT_TIMEOUT', 'The node did not answer in time; it may still have done what was asked'),
          )
        })
        const abort = (): void =>
          reject(new PanelError('AGENT_TIMEOUT', 'Nobody waits for the answer of the node any more'))
        if (options.signal?.aborted === true) return abort()
        options.signal?.addEventListener('abort', abort, { once: true, signal: over.signal })
        this.#send(id, request)
      })
      if (reply.error !== null) throw agentErrorToPanelError(reply.error)
      return resultOf(request, reply.result)
    } finally {
      over.abort()
      this.#waiting.delete(id)
    }
  }

  /** Takes an answer; one that nobody waits for any more is passed over. */
  settle(reply: FrameOf<'reply'>): void {
    this.#waiting.get(reply.id)?.settle(reply)
  }

  /** The connection is gone: nothing will be answered. */
  failAll(error: PanelError): void {
    for (const waiting of [...this.#waiting.values()]) waiting.fail(error)
  }
}

function resultOf<R extends AgentRequest>(request: R, result: unknown): ResultOf<R['op']> {
  const parsed = RESULTS[request.op].safeParse(result)
  if (parsed.success) return parsed.data as ResultOf<R['op']> // parsed by the schema of this very op
  throw new PanelError('AGENT_ERROR', 'The node answered in a way that this daemon does not understand', {
    meta: { agentCode: 'INTERNAL' },
    cause: parsed.error,
  })
}
