import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { DatabaseHostId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { HostName, OneLine } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'

/** What a host speaks: `mysql` is MySQL and MariaDB. */
export const DatabaseEngine = z.enum(['mysql', 'postgresql'])
export type DatabaseEngine = z.infer<typeof DatabaseEngine>

/**
 * How connections to a host are protected. `off`: not at all. `require`: encrypted. `verify`: encrypted, and the
 * certificate must be the host's. `auto`: `off` to this machine, `require` to any other.
 */
export const DatabaseTls = z.enum(['auto', 'off', 'require', 'verify'])
export type DatabaseTls = z.infer<typeof DatabaseTls>

/** A server of databases on which the panel makes databases. The password is never answered. */
export const DatabaseHost = z.object({
  id: DatabaseHostId,
  name: z.string(),
  engine: DatabaseEngine,
  host: z.string(),
  port: z.int(),
  username: z.string(),
  hasPassword: z.boolean(),
  tls: DatabaseTls,
  /** PEM of authorities that are trusted beside the usual ones. */
  caCertificate: z.string().nullable(),
  /** How many databases it takes; `null`: no limit of its own. */
  maxDatabases: z.int().nullable(),
  databaseCount: z.int(),
  /** Databases that are gone for everybody but still to be removed from the host: it was away or refused. */
  leftoverCount: z.int(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type DatabaseHost = z.infer<typeof DatabaseHost>

const HostBody = z.object({
  name: OneLine.trim().min(3).max(100),
  host: HostName,
  port: z.int().min(1).max(65_535).optional(),
  username: OneLine.min(1).max(128),
  password: OneLine.min(1).max(1024),
  tls: DatabaseTls.default('auto'),
  caCertificate: z.string().startsWith('-----BEGIN CERTIFICATE-----').max(65_536).nullish(),
  maxDatabases: z.int().min(0).max(100_000).nullish(),
})

const params = { hostId: DatabaseHostId }

export const listDatabaseHosts = defineEndpoint({
  id: 'database_hosts.list',
  tag: 'Admin',
  summary: 'List database hosts, newest first',
  method: 'GET',
  path: '/api/admin/database-hosts',
  access: { panel: 'admin.read' },
  query: pageQuery().extend({ search: z.string().max(200).optional() }),
  response: z.array(DatabaseHost),
  paged: true,
})

export const getDatabaseHost = defineEndpoint({
  id: 'database_hosts.get',
  tag: 'Admin',
  summary: 'Show a database host',
  method: 'GET',
  path: '/api/admin/database-hosts/:hostId',
  access: { panel: 'admin.read' },
  params,
  response: DatabaseHost,
  errors: ['ADMIN_DATABASE_HOST_NOT_FOUND'],
})

export const createDatabaseHost = defineEndpoint({
  id: 'database_hosts.create',
  tag: 'Admin',
  summary: 'Add a database host',
  method: 'POST',
  path: '/api/admin/database-hosts',
  access: { panel: 'admin.write' },
  /** Without a port: 3306, for PostgreSQL 5432. */
  body: HostBody.extend({ engine: DatabaseEngine.default('mysql') }),
  response: DatabaseHost,
  status: 201,
  errors: ['ADMIN_DATABASE_HOST_NAME_TAKEN', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'database_host.create' },
})

export const updateDatabaseHost = defineEndpoint({
  id: 'database_hosts.update',
  tag: 'Admin',
  summary: 'Edit a database host; what is not named stays',
  method: 'PUT',
  path: '/api/admin/database-hosts/:hostId',
  access: { panel: 'admin.write' },
  params,
  /** The mask as the password keeps it. */
  body: HostBody.extend({ tls: DatabaseTls }).partial(),
  response: DatabaseHost,
  errors: ['ADMIN_DATABASE_HOST_NOT_FOUND', 'ADMIN_DATABASE_HOST_NAME_TAKEN', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'database_host.update' },
})

export const deleteDatabaseHost = defineEndpoint({
  id: 'database_hosts.delete',
  tag: 'Admin',
  summary: 'Remove a database host on which no database is left',
  method: 'DELETE',
  path: '/api/admin/database-hosts/:hostId',
  access: { panel: 'admin.write' },
  params,
  /** `force`: leave behind what is still to be removed from a host that will never come back. */
  query: z.object({ force: QueryBoolean.optional() }),
  response: NoData,
  errors: ['ADMIN_DATABASE_HOST_NOT_FOUND', 'ADMIN_DATABASE_HOST_IN_USE'],
  audit: { action: 'database_host.delete' },
})

/** Why a host cannot be used, for programs. */
export const DatabaseHostProblem = z.enum([
  'dns',
  'refused',
  'unreachable',
  'timeout',
  'tls',
  'denied',
  'version',
  'exists',
  'connection',
  'rejected',
  'key',
])
export type DatabaseHostProblem = z.infer<typeof DatabaseHostProblem>

/** How a connection went; a host that cannot be reached is an answer, not a failure of the request. */
export const DatabaseHostPing = z.object({
  ok: z.boolean(),
  /** The same as `ok`. */
  success: z.boolean(),
  /** From the first packet to the answer of a query. */
  latencyMs: z.int().nullable(),
  version: z.string().optional(),
  reason: DatabaseHostProblem.optional(),
  /** A sentence that says what to do. */
  error: z.string().optional(),
})
export type DatabaseHostPing = z.infer<typeof DatabaseHostPing>

export const pingDatabaseHost = defineEndpoint({
  id: 'database_hosts.ping',
  tag: 'Admin',
  summary: 'Connect to a database host and report what is wrong',
  method: 'GET',
  path: '/api/admin/database-hosts/:hostId/ping',
  access: { panel: 'admin.read' },
  params,
  response: DatabaseHostPing,
  errors: ['ADMIN_DATABASE_HOST_NOT_FOUND'],
})
