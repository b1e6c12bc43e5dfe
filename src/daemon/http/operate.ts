import type { Endpoint } from '../../shared/kernel/contract.ts'
import { type Operation, type OperationDeps, transact } from '../access/operation.ts'
import { type Route, route } from './route.ts'

/** Binds an operation to its endpoint: a call is one transaction, carried out for its caller. */
export function operate<E extends Endpoint, D extends OperationDeps>(operation: Operation<E, D>, deps: D): Route {
  return route<Endpoint>(operation.endpoint, (input, { principal }) =>
    // route() calls it only with input that this endpoint's schemas parsed.
    transact(operation, { deps, principal, input: input as never }),
  )
}
