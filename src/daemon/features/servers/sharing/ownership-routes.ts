import { operate } from '../../../http/operate.ts'
import type { Route } from '../../../http/route.ts'
import type { AccessDeps } from './deps.ts'
import { transferOwnership } from './ownership-operations.ts'

/** The route that gives a server to another owner. */
export function ownershipRoutes(deps: AccessDeps): Route[] {
  return [operate(transferOwnership, deps)]
}
