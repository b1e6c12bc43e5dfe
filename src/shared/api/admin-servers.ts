import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { UserId } from '../kernel/ids.ts'
import { ListedServer, serverQuery } from './servers.ts'

/** A server as the operator's list shows it: with whose it is. */
export const AdminServer = ListedServer.extend({
  owner: z.object({ id: UserId, username: z.string(), email: z.string() }).nullable(),
})
export type AdminServer = z.infer<typeof AdminServer>

export const listAdminServers = defineEndpoint({
  id: 'servers.list_admin',
  tag: 'Admin',
  summary: 'List the servers of all accounts on all nodes',
  method: 'GET',
  path: '/api/admin/servers',
  access: { panel: 'server.read' },
  /** `search` also finds names of nodes; `owner` is contained in the user name or e-mail address. */
  query: serverQuery.extend({ owner: z.string().max(200).optional() }),
  response: z.array(AdminServer),
  paged: true,
  cached: true,
})
