import { type Client, createClient } from '../../src/shared/client.ts'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import { pause } from '../e2e/wait.ts'
import type { FaultPanel } from './fault-panel.ts'
import { patientFetch } from './patient-fetch.ts'

/** What a write came to: its answer, a refusal in words, or no answer at all. */
export type Outcome<T> =
  | { readonly is: 'answered'; readonly data: T }
  | { readonly is: 'refused'; readonly error: PanelError }
  | { readonly is: 'unknown' }

/** Every write that a test sent, with the request id that its audit row must carry, and what must be there by the answers. */
export class WriteLedger {
  readonly #panel: FaultPanel
  /** Request ids of writes that were answered with success. */
  readonly answered: string[] = []
  readonly refused: PanelError[] = []
  unknown = 0
  /** `table` and `id` of objects whose creation was answered, and that nobody has tried to delete since. */
  readonly present = new Map<string, string>()
  /** The same of objects whose deletion was answered. */
  readonly gone = new Map<string, string>()
  #count = 0

  constructor(panel: FaultPanel) {
    this.#panel = panel
  }

  /** Sends one write. When it gets no answer, it may have happened or not; the daemon is awaited. */
  async write<T>(send: (client: Client) => Promise<T>): Promise<Outcome<T>> {
    const requestId = `ledger-${++this.#count}`
    const outcome = await this.send(send, requestId)
    if (outcome.is === 'answered') this.answered.push(requestId)
    return outcome
  }

  /** Sends a request that changes nothing, so that no promise comes of it. */
  async send<T>(send: (client: Client) => Promise<T>, requestId: string): Promise<Outcome<T>> {
    const { url: baseUrl, token } = this.#panel
    const client = createClient({ baseUrl, token, fetch: patientFetch, headers: { 'x-request-id': requestId } })
    try {
      return { is: 'answered', data: await send(client) }
    } catch (error) {
      if (error instanceof PanelError && error.code !== 'SHUTTING_DOWN') {
        this.refused.push(error)
        return { is: 'refused', error }
      }
      this.unknown++
      await this.#back()
      return { is: 'unknown' }
    }
  }

  /** An object of `table` was created. */
  created(table: string, id: string): void {
    this.present.set(id, table)
  }

  /** A deletion is sent: from now on the object may be gone. */
  deleting(id: string): void {
    this.present.delete(id)
  }

  deleted(table: string, id: string): void {
    this.gone.set(id, table)
  }

  async #back(): Promise<void> {
    for (let tries = 0; tries < 1200; tries++) {
      if (await this.#panel.isReady().catch(() => false)) return // it is on its way up
      await pause(25)
    }
    throw new Error(`the daemon did not come back\n${this.#panel.log.slice(-3000)}`)
  }
}
