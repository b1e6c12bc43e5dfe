import { isoTime } from '../../../../shared/kernel/time.ts'
import type { ServerReport } from '../../../../shared/protocol/server.ts'
import type { ReportedAt } from '../../../gateway/handlers.ts'
import { observedColumns } from './observe.ts'
import type { ServerRow } from './rows.ts'

interface Seen {
  readonly report: ServerReport
  readonly at: ReportedAt
}

/** An agent that reports more servers than this invents them. */
const MOST_PER_NODE = 20_000
const ALIVE: ReadonlySet<string> = new Set(['starting', 'running', 'stopping'])

/**
 * What agents have reported last of their servers, in memory. It counts for the servers of nodes whose reports cannot be
 * stored: their rows are older than what is known.
 */
export class LiveStates {
  readonly #isOnline: (nodeId: string) => boolean
  readonly #nodes = new Map<string, Map<string, Seen>>()
  readonly #behind = new Set<string>()

  constructor(isOnline: (nodeId: string) => boolean) {
    this.#isOnline = isOnline
  }

  /** Takes what a node reports of one server. */
  report(nodeId: string, report: ServerReport, at: ReportedAt): void {
    const servers = this.#nodes.get(nodeId) ?? new Map<string, Seen>()
    this.#nodes.set(nodeId, servers)
    if (servers.size < MOST_PER_NODE || servers.has(report.serverId)) servers.set(report.serverId, { report, at })
  }

  /** From now on the rows of this node's servers are older than what it reports. */
  fallBehind(nodeId: string): void {
    this.#behind.add(nodeId)
  }

  /** All that the node has reported is in its rows. */
  catchUp(nodeId: string): void {
    this.#behind.delete(nodeId)
  }

  /** Whether the rows of this node's servers may be older than what it reports. */
  isBehind(nodeId: string): boolean {
    return this.#behind.has(nodeId)
  }

  /** The nodes whose rows are old. */
  behind(): string[] {
    return [...this.#behind]
  }

  /** The newest generation of a server that its node has reported. */
  generation(row: Pick<ServerRow, 'id' | 'nodeId'>): number {
    return this.#nodes.get(row.nodeId)?.get(row.id)?.report.generation ?? 0
  }

  /** The row with what is known of its server beyond it. */
  overlay(row: ServerRow): ServerRow {
    if (!this.#behind.has(row.nodeId)) return row
    const seen = this.#nodes.get(row.nodeId)?.get(row.id)
    const now = seen === undefined ? row : { ...row, ...observed(row, seen) }
    if (this.#isOnline(row.nodeId) || !ALIVE.has(now.power)) return now
    return { ...now, power: 'unknown', lastKnownPower: now.power }
  }
}

function observed(row: ServerRow, { report, at }: Seen): Partial<ServerRow> {
  return { ...observedColumns(row, report, at), observedAt: isoTime(at.receivedMs) }
}
