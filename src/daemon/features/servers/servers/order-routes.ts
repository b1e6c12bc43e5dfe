import type { Endpoint } from '../../../../shared/kernel/contract.ts'
import { type Route, route } from '../../../http/route.ts'
import * as operations from './order-operations.ts'
import type { OrderDeps } from './orders.ts'

/** Orders to servers: start, stop, restart, kill, install. */
export function orderRoutes(deps: OrderDeps): Route[] {
  const give = operations.orderDesk(deps)
  return [
    orderRoute(operations.powerServer, give),
    orderRoute(operations.startServer, give),
    orderRoute(operations.stopServer, give),
    orderRoute(operations.restartServer, give),
    orderRoute(operations.killServer, give),
    orderRoute(operations.installServer, give),
    orderRoute(operations.reinstallServer, give),
    orderRoute(operations.rebuildServer, give),
  ]
}

function orderRoute<E extends operations.OrderEndpoint>(
  { endpoint, orderOf }: operations.OrderOperation<E>,
  give: ReturnType<typeof operations.orderDesk>,
): Route {
  return route<Endpoint>(endpoint, (input, { principal }) =>
    // route() calls it only with input that this endpoint's schemas parsed.
    give({ order: orderOf(input as never), endpoint, principal }),
  )
}
