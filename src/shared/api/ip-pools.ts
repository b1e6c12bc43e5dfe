import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { IpPoolId, NodeId, ServerId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { ServerStatus } from '../kernel/server-life.ts'
import { IsoTime } from '../kernel/time.ts'

/** How many addresses there are: a number up to 2^53 - 1, beyond that its decimal digits (a /64 has 2^64). */
const Count = z.union([z.int(), z.string().regex(/^\d{16,}$/)])

/** An address of a pool that a server has. */
export const PoolAddress = z.object({
  id: z.string(),
  ip: z.string(),
  serverId: ServerId,
  serverName: z.string(),
  serverStatus: ServerStatus,
  createdAt: IsoTime,
})
export type PoolAddress = z.infer<typeof PoolAddress>

/** How many of its addresses a pool shows in itself; `ip_pools.allocations` lists all. */
export const SHOWN_ADDRESSES = 100

/** A network of a node whose addresses are given to servers, each to one. */
export const IpPool = z.object({
  id: IpPoolId,
  nodeId: NodeId,
  nodeName: z.string(),
  networkName: z.string(),
  cidr: z.string(),
  gateway: z.string().nullable(),
  startIp: z.string().nullable(),
  endIp: z.string().nullable(),
  reserved: z.array(z.string()),
  /** The first and last address that is given out, unless it is reserved. */
  rangeStart: z.string(),
  rangeEnd: z.string(),
  /** The addresses of that range; those of them that are reserved or the gateway; those that servers have; the rest. */
  total: Count,
  reservedCount: z.int(),
  usedCount: z.int(),
  availableCount: Count,
  createdAt: IsoTime,
  updatedAt: IsoTime,
  /** The first {@link SHOWN_ADDRESSES} that servers have. */
  allocations: z.array(PoolAddress),
})
export type IpPool = z.infer<typeof IpPool>

const Ip = z.union([z.ipv4(), z.ipv6()], 'must be an IP address')
const Cidr = z.union([z.cidrv4(), z.cidrv6()], 'must be a network such as 10.0.0.0/24 or 2001:db8::/64')

/** `networkMode` of a server means something else by these. */
const TAKEN_NAMES: readonly string[] = ['bridge', 'host', 'none']
const NetworkName = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/,
    'must be 1 to 63 letters, digits, dots, _ or -, the first a letter or digit',
  )
  .refine((name) => !TAKEN_NAMES.includes(name), 'is no name for a network of a pool')

const range = {
  gateway: Ip.nullish(),
  startIp: Ip.nullish(),
  endIp: Ip.nullish(),
  reserved: z.array(Ip).max(1000).optional(),
}

export const listIpPools = defineEndpoint({
  id: 'ip_pools.list',
  tag: 'Admin',
  summary: 'List IP pools by node and network',
  method: 'GET',
  path: '/api/admin/ip-pools',
  access: { panel: 'admin.read' },
  query: pageQuery().extend({ nodeId: NodeId.optional(), search: z.string().max(200).optional() }),
  response: z.array(IpPool),
  paged: true,
})

export const getIpPool = defineEndpoint({
  id: 'ip_pools.get',
  tag: 'Admin',
  summary: 'Show an IP pool',
  method: 'GET',
  path: '/api/admin/ip-pools/:poolId',
  access: { panel: 'admin.read' },
  params: { poolId: IpPoolId },
  response: IpPool,
  errors: ['ADMIN_IP_POOL_NOT_FOUND'],
})

export const listPoolAddresses = defineEndpoint({
  id: 'ip_pools.allocations',
  tag: 'Admin',
  summary: 'List the addresses of an IP pool that servers have',
  method: 'GET',
  path: '/api/admin/ip-pools/:poolId/allocations',
  access: { panel: 'admin.read' },
  params: { poolId: IpPoolId },
  query: pageQuery(),
  response: z.array(PoolAddress),
  paged: true,
  errors: ['ADMIN_IP_POOL_NOT_FOUND'],
})

export const createIpPool = defineEndpoint({
  id: 'ip_pools.create',
  tag: 'Admin',
  summary: 'Create an IP pool on a node',
  method: 'POST',
  path: '/api/admin/ip-pools',
  access: { panel: 'admin.write' },
  body: z.object({ nodeId: NodeId, networkName: NetworkName, cidr: Cidr, ...range }),
  response: IpPool,
  status: 201,
  errors: ['NODE_NOT_FOUND', 'ADMIN_IP_POOL_OVERLAP'],
  audit: { action: 'ip_pool.create' },
})

export const updateIpPool = defineEndpoint({
  id: 'ip_pools.update',
  tag: 'Admin',
  summary: 'Edit an IP pool; no address that a server has may fall out of it',
  method: 'PUT',
  path: '/api/admin/ip-pools/:poolId',
  access: { panel: 'admin.write' },
  params: { poolId: IpPoolId },
  body: z.object({ cidr: Cidr.optional(), ...range }),
  response: IpPool,
  errors: ['ADMIN_IP_POOL_NOT_FOUND', 'ADMIN_IP_POOL_OVERLAP'],
  audit: { action: 'ip_pool.update' },
})

export const deleteIpPool = defineEndpoint({
  id: 'ip_pools.delete',
  tag: 'Admin',
  summary: 'Delete an IP pool of which no server has an address',
  method: 'DELETE',
  path: '/api/admin/ip-pools/:poolId',
  access: { panel: 'admin.write' },
  params: { poolId: IpPoolId },
  response: NoData,
  errors: ['ADMIN_IP_POOL_NOT_FOUND', 'ADMIN_IP_POOL_IN_USE'],
  audit: { action: 'ip_pool.delete' },
})

export const listNodePools = defineEndpoint({
  id: 'nodes.ip_pools',
  tag: 'Nodes',
  summary: 'List the networks of a node and how many addresses are free there',
  method: 'GET',
  path: '/api/nodes/:nodeId/ip-pools',
  access: { node: 'node.read' },
  params: { nodeId: NodeId },
  query: pageQuery(),
  response: z.array(IpPool.pick({ id: true, networkName: true, cidr: true, availableCount: true })),
  paged: true,
  errors: ['NODE_NOT_FOUND'],
})

export const listFreeAddresses = defineEndpoint({
  id: 'nodes.ip_availability',
  tag: 'Nodes',
  summary: 'List the next free addresses of a node, of one network or of all',
  method: 'GET',
  path: '/api/nodes/:nodeId/ip-availability',
  access: { node: 'node.read' },
  params: { nodeId: NodeId },
  query: z.object({
    networkName: z.string().max(63).optional(),
    limit: z.coerce
      .number()
      .int()
      .min(1)
      .default(200)
      .transform((n) => Math.min(n, 1000)),
  }),
  response: z.array(z.string()),
  errors: ['NODE_NOT_FOUND', 'ADMIN_IP_POOL_NOT_FOUND'],
})
