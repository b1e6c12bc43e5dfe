import { describe, expectTypeOf, it } from 'vitest'
import {
  type OperationDeps,
  type Outcome,
  operationsOver,
  PANEL,
  type Principal,
  type perform,
  type Work,
} from '../../src/daemon/access/operation.ts'
import type { Context, Handler } from '../../src/daemon/http/route.ts'
import type { createLocation, listLocations, updateLocation } from '../../src/shared/api/locations.ts'
import type { createNode, deleteNode } from '../../src/shared/api/nodes.ts'
import type { installServer, restartServer, stopServer } from '../../src/shared/api/power.ts'
import { getServer, listServers } from '../../src/shared/api/servers.ts'
import type { Client } from '../../src/shared/client.ts'
import type { Answer, CallInput, CodeOf, Data, Input, Row } from '../../src/shared/kernel/contract.ts'
import { defineEndpoint, NoData } from '../../src/shared/kernel/contract.ts'
import type { LocationId, ServerId } from '../../src/shared/kernel/ids.ts'

/**
 * What the compiler promises about contracts, client and operations (ADR 2, 38). The expectations are kept by the type check;
 * that this file compiles is the test.
 */
describe('the types of a contract', () => {
  it('are those of its schemas: what a caller passes, and what a handler gets', () => {
    expectTypeOf<Input<typeof getServer>['params']>().toEqualTypeOf<{ serverId: ServerId }>()
    expectTypeOf<Input<typeof createLocation>['params']>().toEqualTypeOf<Record<never, never>>()
    expectTypeOf<Input<typeof createLocation>['query']>().toEqualTypeOf<undefined>()
    expectTypeOf<Input<typeof createNode>['body']['locationId']>().toEqualTypeOf<LocationId>()
    // A default is there after parsing, and may be left out before.
    expectTypeOf<Input<typeof installServer>['body']['start']>().toEqualTypeOf<boolean>()
    expectTypeOf<{ params: { serverId: ServerId }; body: Record<never, never> }>().toExtend<
      CallInput<typeof installServer>
    >()
    expectTypeOf<CallInput<typeof stopServer>>().toHaveProperty('params')
    expectTypeOf<CallInput<typeof stopServer>>().not.toHaveProperty('query')
  })

  it('say what is answered: rows with a total for a list, nothing for a deletion', () => {
    expectTypeOf<Answer<typeof listLocations>>().toHaveProperty('total')
    expectTypeOf<Row<typeof listLocations>>().toEqualTypeOf<Data<typeof listLocations>[number]>()
    expectTypeOf<Data<typeof restartServer>['stored']>().toEqualTypeOf<boolean>()
    const removal = defineEndpoint({
      ...{ id: 'x.delete', tag: 'Admin', summary: 'x', path: '/api/x', access: 'session', method: 'DELETE' },
      response: NoData,
      audit: { action: 'x.delete' },
    } as const)
    expectTypeOf<Answer<typeof removal>>().toEqualTypeOf<null>()
    expectTypeOf<CodeOf<typeof removal>>().toEqualTypeOf<never>()
  })

  it('ask of a write what it leaves in the audit log', () => {
    type Definition = Parameters<
      typeof defineEndpoint<'/api/x', Record<never, never>, typeof NoData, never, never, never, false, 'POST'>
    >[0]
    expectTypeOf<Definition>().toHaveProperty('audit')
    expectTypeOf<undefined>().not.toExtend<Definition['audit']>()
  })
})

describe('the types of the client', () => {
  it('ask for what the endpoint needs, and answer its data', () => {
    const call = (client: Client) => client.call(getServer, { params: { serverId: 'srv_1' as ServerId } })
    expectTypeOf(call).returns.resolves.toEqualTypeOf<Data<typeof getServer>>()
    const all = (client: Client) => client.page(listServers)
    expectTypeOf(all).returns.resolves.toHaveProperty('pagination')
    expectTypeOf<CallInput<typeof listServers>>().not.toHaveProperty('body')
    expectTypeOf<{ body: { name: number } }>().not.toExtend<CallInput<typeof createLocation>>()
    expectTypeOf<{ body: { name: string } }>().toExtend<CallInput<typeof createLocation>>()
  })
})

describe('a code that an endpoint does not declare', () => {
  it('does not compile in an operation', () => {
    type Fail = Work<typeof createNode, OperationDeps>['fail']
    expectTypeOf<Parameters<Fail>[0]>().toEqualTypeOf<'LOCATION_NOT_FOUND' | 'NODE_NAME_TAKEN'>()
    expectTypeOf<'NODE_IN_USE'>().toExtend<Parameters<Work<typeof deleteNode, OperationDeps>['fail']>[0]>()
    expectTypeOf<'NODE_IN_USE'>().not.toExtend<Parameters<Fail>[0]>()
    expectTypeOf<Fail>().returns.toEqualTypeOf<never>()
  })

  it('does not compile in a handler', () => {
    type Fail = Context<typeof createNode>['fail']
    expectTypeOf<'NODE_IN_USE'>().not.toExtend<Parameters<Fail>[0]>()
    expectTypeOf<Parameters<Handler<typeof getServer>>[0]>().toEqualTypeOf<Input<typeof getServer>>()
  })
})

describe('the types of an operation', () => {
  const operation = operationsOver<OperationDeps>()

  it('are its endpoint: input, answer, events of known types', () => {
    type Run = Parameters<typeof operation<typeof updateLocation>>[1]
    expectTypeOf<Parameters<Run>[1]>().toEqualTypeOf<Input<typeof updateLocation>>()
    expectTypeOf<{ answer: { id: number } }>().not.toExtend<Outcome<typeof updateLocation>>()
    expectTypeOf<{ answer: Answer<typeof updateLocation> }>().toExtend<Outcome<typeof updateLocation>>()
    type Event = NonNullable<Outcome<typeof updateLocation>['events']>[number]
    expectTypeOf<{ type: 'no_such_event'; data: Record<never, never> }>().not.toExtend<Event>()
    expectTypeOf<{ type: 'location_deleted'; data: { nonsense: 1 } }>().not.toExtend<Event>()
  })

  it('know who it is for: a caller, a job with its cause, or the panel', () => {
    expectTypeOf<Principal['kind']>().toEqualTypeOf<'caller' | 'job' | 'panel'>()
    expectTypeOf(PANEL).toExtend<Principal>()
    expectTypeOf<{ kind: 'job'; jobId: string; onBehalfOf: string }>().not.toExtend<Principal>()
    type Request = Parameters<typeof perform<typeof createLocation, OperationDeps>>[2]
    expectTypeOf<Request['input']>().toEqualTypeOf<Input<typeof createLocation>>()
    expectTypeOf<Request['principal']>().toEqualTypeOf<Principal>()
  })
})
