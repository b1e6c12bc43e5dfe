import { getLocation, listLocations } from '../../../../shared/api/locations.ts'
import { operate } from '../../../http/operate.ts'
import { cachedRoute, type Route } from '../../../http/route.ts'
import { nodesOfLocation } from '../nodes/rows.ts'
import { nodeView, type Presence } from '../nodes/view.ts'
import * as operations from './operations.ts'
import * as rows from './rows.ts'

/** What the routes of locations need. */
export type LocationRouteDeps = operations.LocationDeps & Presence

/** The routes of locations. */
export function locationRoutes(deps: LocationRouteDeps): Route[] {
  return [
    list(),
    get(deps),
    operate(operations.createLocation, deps),
    operate(operations.updateLocation, deps),
    operate(operations.deleteLocation, deps),
  ]
}

function list(): Route {
  return cachedRoute(listLocations, ({ query }, { at }) => rows.listLocations(at.q, query))
}

function get(deps: LocationRouteDeps): Route {
  return cachedRoute(getLocation, async ({ params }, context) => {
    const { q } = context.at
    const location =
      (await rows.findLocation(q, params.locationId)) ?? context.fail('LOCATION_NOT_FOUND', operations.GONE)
    const nodes = await nodesOfLocation(q, location.id)
    return { ...location, nodes: nodes.map((node) => nodeView(node, deps, context.live)) }
  })
}
