import { EVENTS } from '../../../shared/kernel/events.ts'
import type { Permission } from '../../../shared/kernel/permissions.ts'
import type { BusEvent } from '../../core/bus.ts'
import { CallFailure } from './failures.ts'

/** Events that may wait for one plugin; those beyond are counted, and the plugin gets their number. */
export const MOST_WAITING_EVENTS = 1000
/** A plugin that dies of an event gets it once more, and then never again. */
const MOST_TRIES = 2

/** What a queue hands its events to. */
export interface EventTarget {
  /** The handlers by the type of event. */
  readonly handlers: ReadonlyMap<string, readonly string[]>
  holds(permission: Permission): Promise<boolean>
  /** Resolves when the plugin works; false when it never will again. */
  ready(): Promise<boolean>
  /** Fails with a CallFailure. */
  call(handler: string, input: unknown): Promise<unknown>
  /** A handler failed by itself; the event counts as delivered. */
  failed(handler: string, error: CallFailure): void
}

interface Waiting {
  readonly event: BusEvent
  tries: number
}

/**
 * The events on their way to one plugin, in order and one after the other. Within the bound none is lost, also while its
 * process is started again; an event in whose handling the process ended may be delivered twice.
 */
export class EventQueue {
  readonly #target: EventTarget
  readonly #waiting: Waiting[] = []
  #lost = 0
  #wake = (): void => undefined
  #closed = false

  constructor(target: EventTarget) {
    this.#target = target
  }

  /** Takes an event in, without waiting. */
  offer(event: BusEvent): void {
    if (this.#closed || !this.#target.handlers.has(event.type)) return
    if (this.#waiting.length >= MOST_WAITING_EVENTS) this.#lost += 1
    else this.#waiting.push({ event, tries: 0 })
    this.#wake()
  }

  close(): void {
    this.#closed = true
    this.#wake()
  }

  /** Delivers until it is closed, or the plugin never works again. */
  async run(): Promise<void> {
    while (!this.#closed) {
      if (this.#waiting.length === 0 && this.#lost === 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        continue
      }
      if (!(await this.#target.ready())) return
      // What is lost came behind all that waited when it was lost; the plugin hears of it at the first chance.
      if (this.#lost > 0) await this.#reportLoss()
      else await this.#deliver()
    }
  }

  async #deliver(): Promise<void> {
    const [next] = this.#waiting
    if (next === undefined) return
    const { event } = next
    const { type, serverId, data, timestamp } = event
    if (await this.#target.holds(EVENTS[type].permission)) {
      const input = { id: event.id, type, serverId, data, timestamp }
      next.tries += 1
      const alive = await this.#give(this.#target.handlers.get(type) ?? [], input)
      if (!alive && next.tries < MOST_TRIES) return
      if (!alive) this.#lost += 1
    }
    this.#waiting.shift()
  }

  async #reportLoss(): Promise<void> {
    const lost = this.#lost
    const all = new Set([...this.#target.handlers.values()].flat())
    const alive = await this.#give([...all], { id: null, type: 'events_lost', serverId: null, data: { lost } })
    if (alive) this.#lost -= lost
  }

  /** Whether the process is still there afterwards. */
  async #give(handlers: readonly string[], input: unknown): Promise<boolean> {
    for (const handler of handlers) {
      try {
        await this.#target.call(handler, input)
      } catch (error) {
        if (!(error instanceof CallFailure)) throw error
        if (error.end === 'gone') return false
        this.#target.failed(handler, error)
      }
    }
    return true
  }
}
