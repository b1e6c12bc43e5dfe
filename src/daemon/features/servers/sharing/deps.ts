import type { Bus } from '../../../core/bus.ts'
import type { Log } from '../../../core/log.ts'
import type { UserDeps } from '../../accounts/users/deps.ts'
import type { ViewFacts } from '../servers/view.ts'

/** What the routes of grants, invitations and assignments work with. */
export interface AccessDeps extends UserDeps {
  readonly bus: Bus
  readonly log: Log
  readonly isOnline: (nodeId: string) => boolean
  readonly facts: ViewFacts
}
