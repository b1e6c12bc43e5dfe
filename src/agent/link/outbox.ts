import type { AgentEvent } from '../../shared/protocol/frames.ts'

/** An event with its number and the instant at which it happened. */
export interface OutboxEvent {
  readonly seq: number
  readonly atMs: number
  readonly event: AgentEvent
}

/**
 * Events that the daemon has not acknowledged, by rising number. At the cap the oldest state events of servers that have
 * newer ones go (so numbers may have holes); results of commands never go.
 */
export class Outbox {
  readonly #capBytes: number
  #events: (OutboxEvent & { readonly bytes: number })[] = []
  #bytes = 0
  #lastSeq = 0
  #durableSeq = 0
  #ack = 0
  #wake: (() => void)[] = []

  constructor(capBytes: number) {
    this.#capBytes = capBytes
  }

  /** The number of the last event, acknowledged or not. */
  get lastSeq(): number {
    return this.#lastSeq
  }

  get ack(): number {
    return this.#ack
  }

  /** The number that the oldest waiting event has, or the next one will have. */
  get firstWaitingSeq(): number {
    return this.#events[0]?.seq ?? this.#lastSeq + 1
  }

  all(): readonly OutboxEvent[] {
    return this.#events
  }

  add(event: OutboxEvent): void {
    if (event.seq <= this.#lastSeq) return
    const bytes = JSON.stringify(event.event).length + 64
    this.#events.push({ seq: event.seq, atMs: event.atMs, event: event.event, bytes })
    this.#bytes += bytes
    this.#lastSeq = event.seq
    if (this.#bytes > this.#capBytes) this.#shrink()
  }

  acknowledge(seq: number): void {
    this.#ack = Math.max(this.#ack, seq)
    let acknowledged = 0
    for (const event of this.#events) {
      if (event.seq > seq) break
      this.#bytes -= event.bytes
      acknowledged++
    }
    if (acknowledged > 0) this.#events.splice(0, acknowledged)
  }

  restore(lastSeq: number, ack: number): void {
    this.#lastSeq = Math.max(this.#lastSeq, lastSeq)
    this.#ack = Math.max(this.#ack, ack)
  }

  /** Gives the waiting events the numbers from `from` on. */
  renumber(from: number): void {
    this.#events = this.#events.map((event, index) => ({ ...event, seq: from + index }))
    this.#lastSeq = from + this.#events.length - 1
    this.#ack = from - 1
  }

  /** Events up to `seq` are on the disk and may be sent. */
  markDurable(seq: number): void {
    if (seq <= this.#durableSeq) return
    this.#durableSeq = seq
    const woken = this.#wake
    this.#wake = []
    for (const wake of woken) wake()
  }

  /** The oldest sendable event after `seq`. */
  next(seq: number): OutboxEvent | undefined {
    let low = 0
    let high = this.#events.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#events[middle]?.seq ?? 0) > seq) high = middle
      else low = middle + 1
    }
    const event = this.#events[low]
    return event !== undefined && event.seq <= this.#durableSeq ? event : undefined
  }

  /** Resolves when more events may be sent, or when `signal` aborts. */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve()
      const done = (): void => {
        signal.removeEventListener('abort', done)
        resolve()
      }
      signal.addEventListener('abort', done)
      this.#wake.push(done)
    })
  }

  /** Brings the outbox to nine tenths of its cap, so that not every further event has to search it. */
  #shrink(): void {
    const goal = this.#capBytes * 0.9
    const newest = new Map<string, number>()
    for (const { seq, event } of this.#events) {
      if (event.type === 'server.state') newest.set(event.report.serverId, seq)
    }
    this.#events = this.#events.filter(({ seq, event, bytes }) => {
      if (this.#bytes <= goal || event.type !== 'server.state') return true
      if (newest.get(event.report.serverId) === seq) return true
      this.#bytes -= bytes
      return false
    })
  }
}
