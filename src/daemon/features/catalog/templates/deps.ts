import type { Clock } from '../../../../shared/kernel/time.ts'
import type { OperationDeps } from '../../../access/operation.ts'

/** What the routes and operations of nests and templates need. */
export interface TemplateDeps extends OperationDeps {
  readonly clock: Clock
}
