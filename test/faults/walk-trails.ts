import { type AuditLog, listAuditLogs } from '../../src/shared/api/admin.ts'
import { eventsAfter, type PanelEvent } from '../e2e/sse.ts'
import type { FaultPanel } from './fault-panel.ts'

const PAGE = 200

/** The audit log and the event log of a panel as they grow, oldest first; each row is read once. */
export class WalkTrails {
  readonly events: PanelEvent[] = []
  readonly audit: AuditLog[] = []
  readonly #panel: FaultPanel
  #lastEvent: string | undefined

  constructor(panel: FaultPanel) {
    this.#panel = panel
  }

  async catchUp(): Promise<void> {
    const { url, token } = this.#panel
    const { events, last } = await eventsAfter(`${url}/api/admin/events`, token, this.#lastEvent)
    this.events.push(...events)
    this.#lastEvent = last
    this.audit.push(...(await this.#newRows()))
  }

  /** The ends of orders that were told of the server. */
  endsOf(serverId: string): Readonly<Record<string, unknown>>[] {
    return this.events
      .filter((event) => event.type === 'server_command_done' && event.serverId === serverId)
      .map(({ data }) => data)
  }

  /** What was told of the server's state. */
  statesOf(serverId: string): Readonly<Record<string, unknown>>[] {
    return this.events
      .filter((event) => event.type === 'server_state_update' && event.serverId === serverId)
      .map(({ data }) => data)
  }

  auditOf(serverId: string): AuditLog[] {
    return this.audit.filter(({ resourceId }) => resourceId === serverId)
  }

  async #newRows(): Promise<AuditLog[]> {
    const known = new Set(this.audit.map(({ id }) => id))
    const rows: AuditLog[] = []
    for (let page = 1; ; page++) {
      const found = await this.#panel.client.call(listAuditLogs, { query: { limit: PAGE, page } })
      const fresh = found.filter(({ id }) => !known.has(id))
      // A row that has come meanwhile moves the others on to the next page, where they are known.
      for (const row of fresh) known.add(row.id)
      rows.push(...fresh)
      if (fresh.length < PAGE) return rows.toReversed()
    }
  }
}
