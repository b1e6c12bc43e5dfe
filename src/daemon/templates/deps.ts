import type { Clock } from '../../shared/time.ts'
import type { Audit } from '../core/audit.ts'
import type { Bus } from '../core/bus.ts'
import type { Db } from '../core/db.ts'

/** What the routes of nests and templates need. */
export interface TemplateDeps {
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
  readonly clock: Clock
}
