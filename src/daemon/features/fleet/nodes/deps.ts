import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Audit } from '../../../access/audit.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Db } from '../../../db/db.ts'
import type { NodeKeys } from './keys.ts'
import type { HealthReport } from './stats.ts'

/** What the routes of nodes need. */
export interface NodeDeps {
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
  readonly clock: Clock
  readonly keys: NodeKeys
  /** Whether the node's agent is connected now. */
  readonly isOnline: (nodeId: string) => boolean
  /** The last health report of the node's agent. */
  readonly health: (nodeId: string) => HealthReport | undefined
  /** Where agents reach this daemon, as in `https://panel.example.org`. */
  readonly publicUrl: () => string
}
