import * as api from '../../../../shared/api/power.ts'
import type { Answer, Endpoint, Input } from '../../../../shared/kernel/contract.ts'
import type { PowerAction } from '../../../../shared/kernel/server-life.ts'
import { type Operation, type Principal, transact } from '../../../access/operation.ts'
import { accept, type Order, type OrderDeps } from './orders.ts'

/** An endpoint that answers an accepted order. */
export type OrderEndpoint = Endpoint & { readonly response: typeof api.OrderAccepted; readonly paged: false }

/** The operation of an order, which says of its input what is ordered. */
export interface OrderOperation<E extends OrderEndpoint> extends Operation<E, OrderDeps> {
  readonly orderOf: (input: Input<E>) => Order
}

function ordering<E extends OrderEndpoint>(
  endpoint: E,
  orderOf: (input: Input<NoInfer<E>>) => Order,
): OrderOperation<E> {
  const run: Operation<E, OrderDeps>['run'] = async (work, input) => {
    const { accepted, done } = await accept(work, orderOf(input))
    return { ...done, answer: accepted as Answer<E> } // every OrderEndpoint answers an OrderAccepted
  }
  return { endpoint, orderOf, run }
}

type Power = Input<typeof api.startServer>

const powerOrder = (action: PowerAction, { params, body: { graceSeconds } }: Power): Order => ({
  serverId: params.serverId,
  action,
  args: graceSeconds === undefined ? {} : { timeoutMs: graceSeconds * 1000 },
})

export const powerServer = ordering(api.powerServer, (input) => powerOrder(input.body.action, input))
export const startServer = ordering(api.startServer, (input) => powerOrder('start', input))
export const stopServer = ordering(api.stopServer, (input) => powerOrder('stop', input))
export const restartServer = ordering(api.restartServer, (input) => powerOrder('restart', input))
export const killServer = ordering(api.killServer, (input) => powerOrder('kill', input))

export const installServer = ordering(api.installServer, ({ params: { serverId }, body: { start } }) => ({
  ...{ serverId, action: 'install', args: { thenStart: start } },
}))

export const reinstallServer = ordering(api.reinstallServer, ({ params: { serverId }, body: { start } }) => ({
  ...{ serverId, action: 'reinstall', args: { thenStart: start } },
}))

export const rebuildServer = ordering(api.rebuildServer, ({ params: { serverId }, body: { start } }) => ({
  ...{ serverId, action: 'rebuild', args: { thenStart: start } },
}))

/** Carries an order out in a transaction of its own. Stop and kill go past a database that cannot be written. */
export async function performOrder<E extends OrderEndpoint>(
  operation: OrderOperation<E>,
  { deps, principal, input }: { readonly deps: OrderDeps; readonly principal: Principal; readonly input: Input<E> },
): Promise<Answer<E>> {
  try {
    return await transact(operation, { deps, principal, input })
  } catch (error) {
    const order = operation.orderOf(input)
    if (!deps.unstored.mayGive(order, error)) throw error
    const { endpoint } = operation
    return (await deps.unstored.give(order, { endpoint, principal })) as Answer<E> // as in ordering()
  }
}
