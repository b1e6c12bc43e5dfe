import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { AllocationId, ServerId } from '../kernel/ids.ts'
import { PortName, PortNumber, PortProtocol, PortRole } from '../kernel/ports.ts'
import { ServerPort } from './servers.ts'

/** A port of a server with the allocation that it is. Its number is the same inside and outside of a container. */
export const ServerAllocation = ServerPort.extend({
  allocationId: AllocationId,
  containerPort: z.int(),
  hostPort: z.int(),
  alias: z.string().nullable(),
  /** How far its template has it from the primary port; `null`: it has a number of its own. */
  offset: z.int().nullable(),
})
export type ServerAllocation = z.infer<typeof ServerAllocation>

const params = { serverId: ServerId }
/** A number of a port as it stands in a path. */
const PortText = z
  .string()
  .regex(/^[1-9][0-9]{0,4}$/, 'must be a port')
  .refine((text) => PortNumber.safeParse(Number(text)).success, 'must be a port')
const Ip = z.union([z.ipv4(), z.ipv6()], 'must be an IP address')

/** What may refuse a change of a server's ports. */
const REFUSED = [
  'SERVER_NOT_FOUND',
  'SERVER_SUSPENDED',
  'SERVER_INVALID_STATE',
  'SERVER_MUST_BE_STOPPED',
  'PERMISSION_DENIED',
] as const

export const listServerAllocations = defineEndpoint({
  id: 'server_allocations.list',
  tag: 'Servers',
  summary: 'List the ports of a server, the primary one first',
  method: 'GET',
  path: '/api/servers/:serverId/allocations',
  access: { server: ['server.read'] },
  params,
  response: z.array(ServerAllocation),
  errors: ['SERVER_NOT_FOUND'],
})

export const addServerAllocation = defineEndpoint({
  id: 'server_allocations.add',
  tag: 'Servers',
  summary: 'Give a server a further port, in force at its next start',
  method: 'POST',
  path: '/api/servers/:serverId/allocations',
  access: { server: ['server.update'] },
  params,
  /**
   * Without `containerPort` one is chosen. The name of a port of the template brings role, protocol and place with it. A port that
   * is no free allocation of the node needs `admin.write` or an assignment of the node.
   */
  body: z
    .object({
      containerPort: PortNumber.optional(),
      hostPort: PortNumber.optional(),
      /** The server's own address without it. */
      ip: Ip.optional(),
      name: PortName.optional(),
      role: PortRole.optional(),
      protocol: PortProtocol.optional(),
    })
    .prefault({}),
  response: ServerAllocation,
  status: 201,
  errors: [...REFUSED, 'ALLOCATION_EXISTS', 'PORT_IN_USE', 'INSUFFICIENT_RESOURCES'],
  audit: { action: 'server.allocation_add' },
})

export const removeServerAllocation = defineEndpoint({
  id: 'server_allocations.remove',
  tag: 'Servers',
  summary: 'Take a further port from a stopped server',
  method: 'DELETE',
  path: '/api/servers/:serverId/allocations/:containerPort',
  access: { server: ['server.update'] },
  params: { ...params, containerPort: PortText },
  /** `ip`: needed where the server has the port on several addresses. */
  query: z.object({ ip: Ip.optional() }),
  response: NoData,
  errors: [...REFUSED, 'ALLOCATION_NOT_FOUND'],
  audit: { action: 'server.allocation_remove' },
})

export const setPrimaryAllocation = defineEndpoint({
  id: 'server_allocations.primary',
  tag: 'Servers',
  summary: 'Make a further port of a stopped server the primary one; the two change places',
  method: 'POST',
  path: '/api/servers/:serverId/allocations/primary',
  access: { server: ['server.update'] },
  params,
  body: z.object({ containerPort: PortNumber, ip: Ip.optional() }),
  response: z.object({ primaryPort: z.int(), primaryIp: z.string() }),
  errors: [...REFUSED, 'ALLOCATION_NOT_FOUND', 'ALLOCATION_IN_USE', 'PORT_IN_USE', 'INSUFFICIENT_RESOURCES'],
  audit: { action: 'server.allocation_primary' },
})
