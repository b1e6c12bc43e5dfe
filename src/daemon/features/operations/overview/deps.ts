import type { Clock, IsoTime } from '../../../../shared/kernel/time.ts'
import type { Db, Queries } from '../../../db/db.ts'
import type { IntegrityCheck } from '../../../db/integrity-check.ts'
import type { NodeUsageBoard } from '../../fleet/nodes/usage.ts'

/** Alerts that somebody should know of. */
export interface AlertCounts {
  readonly open: number
  readonly unacknowledged: number
}

/** What the overview is made from. */
export interface OverviewDeps {
  readonly db: Db
  readonly clock: Clock
  readonly version: string
  readonly life: DaemonLife
  readonly integrity: IntegrityCheck
  readonly nodeUsage: NodeUsageBoard
  /** Whether the node's agent is connected now. */
  readonly isOnline: (nodeId: string) => boolean
  /** How many agents are connected now. */
  readonly connected: () => number
  readonly alerts: (q: Queries) => Promise<AlertCounts>
}

/** When this daemon was started. */
export interface DaemonLife {
  readonly startedAt: IsoTime
  readonly startedMs: number
}

/** The fields of answers that describe this daemon. */
export function daemonFacts({ clock, version, life }: OverviewDeps) {
  const uptimeSeconds = Math.floor((clock.monotonicMs() - life.startedMs) / 1000)
  return { version, startedAt: life.startedAt, uptimeSeconds }
}
