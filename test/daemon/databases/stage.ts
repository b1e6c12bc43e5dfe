import { createDatabaseHost, type DatabaseHost, listDatabaseHosts } from '../../../src/shared/api/database-hosts.ts'
import { createServerDatabase, type ServerDatabase } from '../../../src/shared/api/databases.ts'
import { createServer } from '../../../src/shared/api/servers.ts'
import { createTemplate } from '../../../src/shared/api/templates.ts'
import type { CallInput } from '../../../src/shared/kernel/contract.ts'
import type { DatabaseHostId, ServerId } from '../../../src/shared/kernel/ids.ts'
import { betweenLooks } from '../../looks.ts'
import type { TestPanel } from '../../panel.ts'

type Input = NonNullable<CallInput<typeof createDatabaseHost>['body']>

let count = 0

/** A server that may have so many databases, on a node without an agent. */
export async function addServer({ client, nodeId, locationId }: TestPanel, databaseAllocation = 10): Promise<ServerId> {
  count += 1
  const template = await client.call(createTemplate, { body: { name: `Sleep ${count}`, startup: 'sleep 1' } })
  const size = { allocatedMemoryMb: 16, allocatedCpuCores: 0.1, allocatedDiskMb: 16 }
  const place = { templateId: template.id, nodeId, locationId, primaryPort: 21_000 + count }
  const body = { name: `server ${count}`, ...size, ...place, databaseAllocation }
  return (await client.call(createServer, { body })).id
}

/** Where a host is, and who the panel is there. */
export interface Service {
  readonly port: number
  readonly username: string
  readonly password: string
}

/** Makes it known to the panel. */
export function addHost(
  { client }: TestPanel,
  { port, username, password }: Service,
  more: Pick<Input, 'engine' | 'tls' | 'maxDatabases' | 'caCertificate'> & { readonly host?: string },
): Promise<DatabaseHost> {
  count += 1
  const body = { name: `host ${count}`, host: '127.0.0.1', port, username, password, ...more }
  return client.call(createDatabaseHost, { body })
}

/** Makes a database, as the administrator. */
export function addDatabase(
  { client }: TestPanel,
  serverId: ServerId,
  body: { hostId?: DatabaseHostId; name?: string; remote?: string },
): Promise<ServerDatabase> {
  return client.call(createServerDatabase, { params: { serverId }, body })
}

/** The host as the list shows it now. */
export async function hostNow({ client }: TestPanel, id: DatabaseHostId): Promise<DatabaseHost> {
  const host = (await client.call(listDatabaseHosts, {})).find((one) => one.id === id)
  if (host === undefined) throw new Error(`there is no ${id}`)
  return host
}

/** Looks until it is so. */
export async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const start = performance.now()
  while (!(await holds())) {
    if (performance.now() > start + 20_000) throw new Error(`it did not come to pass: ${what}`)
    await betweenLooks(start)
  }
}
