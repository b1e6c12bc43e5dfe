import { getLocation, listLocations } from '../../../../shared/api/locations.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import { nodesOfLocation } from '../nodes/rows.ts'
import { nodeView, type Presence } from '../nodes/view.ts'
import * as operations from './operations.ts'
import * as rows from './rows.ts'

/** What the routes of locations need. */
export type LocationRouteDeps = operations.LocationDeps & Presence

/** The routes of locations. */
export function locationRoutes(deps: LocationRouteDeps): Route[] {
  return [
    list(deps),
    get(deps),
    operate(operations.createLocation, deps),
    operate(operations.updateLocation, deps),
    operate(operations.deleteLocation, deps),
  ]
}

function list({ db }: LocationRouteDeps): Route {
  return route(listLocations, ({ query }) => rows.listLocations(db.read, query))
}

function get(deps: LocationRouteDeps): Route {
  return route(getLocation, async ({ params }, context) => {
    const { db } = deps
    const location =
      (await rows.findLocation(db.read, params.locationId)) ?? context.fail('LOCATION_NOT_FOUND', operations.GONE)
    const nodes = await nodesOfLocation(db.read, location.id)
    return { ...location, nodes: nodes.map((node) => nodeView(node, deps)) }
  })
}
