import { adoptOrphan, listOrphans, purgeOrphan } from '../../../../shared/api/orphans.ts'
import { type Route, route } from '../../../http/route.ts'
import { adopt, type OrphanDeps, orphansOf, purge } from './orphans.ts'

/** What a node has of servers without a row: after `delete --force` while it was away, or after a database was restored. */
export function orphanRoutes(deps: OrphanDeps): Route[] {
  return [
    route(listOrphans, ({ params }) => orphansOf(deps, params.nodeId)),
    route(adoptOrphan, (input, { principal }) => adopt(deps, { principal, input })),
    route(purgeOrphan, (input, { principal }) => purge(deps, { principal, input })),
  ]
}
