import type { Endpoint } from '../../../../shared/kernel/contract.ts'
import { type Route, route } from '../../../http/route.ts'
import * as operations from './order-operations.ts'
import type { OrderDeps } from './orders.ts'

/** Orders to servers: start, stop, restart, kill, install. */
export function orderRoutes(deps: OrderDeps): Route[] {
  return [
    orderRoute(operations.powerServer, deps),
    orderRoute(operations.startServer, deps),
    orderRoute(operations.stopServer, deps),
    orderRoute(operations.restartServer, deps),
    orderRoute(operations.killServer, deps),
    orderRoute(operations.installServer, deps),
    orderRoute(operations.reinstallServer, deps),
    orderRoute(operations.rebuildServer, deps),
  ]
}

function orderRoute<E extends operations.OrderEndpoint>(
  operation: operations.OrderOperation<E>,
  deps: OrderDeps,
): Route {
  return route<Endpoint>(operation.endpoint, (input, { principal }) =>
    // route() calls it only with input that this endpoint's schemas parsed.
    operations.performOrder(operation, { deps, principal, input: input as never }),
  )
}
