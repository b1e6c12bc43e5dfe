import { listServerAllocations } from '../../../../shared/api/server-allocations.ts'
import { createServer } from '../../../../shared/api/servers.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import { readPortHolds } from '../../fleet/nodes/port-holds.ts'
import { creationDesk } from './create-together.ts'
import type * as servers from './operations.ts'
import * as operations from './port-operations.ts'
import { likelyAddresses } from './ports.ts'
import { findServerRow } from './rows.ts'
import { definitionOf } from './view.ts'

/** The ports of servers, and the creation of a server, which may have one chosen for it. */
export function portRoutes(deps: servers.ServerDeps): Route[] {
  const create = creationDesk(deps)
  return [
    route(createServer, async (input, { principal }) => {
      await lookAtPorts(deps, input)
      return create({ principal, input })
    }),
    route(listServerAllocations, async ({ params: { serverId } }, context) => {
      const row = await findServerRow(deps.db.read, serverId)
      return operations.portsIn(row ?? context.fail('SERVER_NOT_FOUND', 'There is no such server'), deps.facts)
    }),
    operate(operations.addServerAllocation, deps),
    operate(operations.removeServerAllocation, deps),
    operate(operations.setPrimaryAllocation, deps),
  ]
}

/**
 * Has the node look at the ports that a new server may be given, before the transaction that chooses: it waits for no agent. What
 * is wrong with the request is said by the creation itself.
 */
async function lookAtPorts({ db, portLooks, isOnline }: servers.ServerDeps, { body }: Input<typeof createServer>) {
  const { nodeId, templateId } = body
  const isChosen = body.allocationId == null && body.networkMode === undefined && body.primaryPort == null
  // The addresses of a network are none of the machine's.
  if (!isChosen || !isOnline(nodeId)) return
  const node = await db.read.selectFrom('node').selectAll().where('id', '=', nodeId).executeTakeFirst()
  const row = await db.read
    .selectFrom('template')
    .select('definition as templateDefinition')
    .where('id', '=', templateId)
    .executeTakeFirst()
  if (node === undefined || row === undefined) return
  const template = definitionOf(row)
  const runtime = body.runtime ?? template.runtimes[0] ?? 'process'
  const holds = await readPortHolds(db.read, nodeId)
  await portLooks.look(
    nodeId,
    likelyAddresses(holds, { ip: body.primaryIp ?? node.defaultIp, node, template, runtime }),
  )
}
