import * as api from '../../../../shared/api/power.ts'
import type { Answer, Endpoint, Input } from '../../../../shared/kernel/contract.ts'
import type { PowerAction } from '../../../../shared/kernel/server-life.ts'
import { type Operation, type Principal, recordChange } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { gather, type Settled } from '../../../db/gather.ts'
import { type Accepted, accept, acceptAll, type Order, type OrderDeps } from './orders.ts'

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

/** An order with who gives it. */
export interface GivenOrder {
  readonly order: Order
  readonly endpoint: Endpoint
  readonly principal: Principal
}

/** Carries orders out, those that come together in one transaction. Stop and kill go past a database that cannot be written. */
export function orderDesk(deps: OrderDeps): (given: GivenOrder) => Promise<Accepted> {
  const carryOut = gather<GivenOrder, Accepted>(deps.db, (tx, given) => acceptGiven(tx, deps, given), { isBrief: true })
  return async (given) => {
    try {
      return await carryOut(given)
    } catch (error) {
      const { order, endpoint, principal } = given
      if (!deps.unstored.mayGive(order, error)) throw error
      return await deps.unstored.give(order, { endpoint, principal })
    }
  }
}

async function acceptGiven(tx: Tx, deps: OrderDeps, given: readonly GivenOrder[]): Promise<Settled<Accepted>[]> {
  const settled = await acceptAll(
    { tx, deps },
    given.map(({ order }) => order),
  )
  for (const [place, { endpoint, principal }] of given.entries()) {
    const one = settled[place]
    if (one !== undefined && 'value' in one) await recordChange(tx, { deps, principal, endpoint }, one.value.done)
  }
  return settled.map((one) => ('value' in one ? { value: one.value.accepted } : one))
}
