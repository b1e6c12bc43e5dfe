import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Audit } from '../../../access/audit.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Db } from '../../../db/db.ts'

/** What the routes of nests and templates need. */
export interface TemplateDeps {
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
  readonly clock: Clock
}
