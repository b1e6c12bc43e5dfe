import {
  type Expression,
  type ExpressionBuilder,
  expressionBuilder,
  type Selectable,
  type SelectQueryBuilder,
  sql,
} from 'kysely'
import type { ServerStatus } from '../../../../shared/kernel/server-life.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Visibility } from '../../../access/permit.ts'
import { assignedNodes } from '../../../access/relations.ts'
import { compiled } from '../../../core/cached.ts'
import type { Queries } from '../../../db/db.ts'
import { KeepingQueries, keptRows } from '../../../db/kept-results.ts'
import { countQuery, keptTotal, offsetOf, totalByPage } from '../../../db/paging.ts'
import { readTogether } from '../../../db/read-together.ts'
import type { Schema } from '../../../db/schema.ts'
import { rowsBy } from '../../../db/sqlite/queries.ts'
import { jsonStatement, statement } from '../../../db/statement.ts'
import { containing, contains } from '../../../db/text-search.ts'

const SERVER_COLUMNS = [
  'server.id', 'server.uuid', 'server.name', 'server.description', 'server.templateId', 'server.nodeId', 'server.locationId',
  'server.ownerId', 'server.allocationId', 'server.runtime', 'server.memoryMb', 'server.cpuCores', 'server.diskMb',
  'server.swapMb', 'server.databaseAllocation', 'server.cpuSet', 'server.ioWeight', 'server.image', 'server.environment',
  'server.startupCommand', 'server.mounts', 'server.restartPolicy', 'server.maxCrashCount',
  'server.suspendedAt', 'server.suspendedByUserId', 'server.suspensionReason', 'server.archivedAt', 'server.deletingAt',
  'server.desired',
  'server.generation', 'server.power', 'server.lastKnownPower', 'server.activity', 'server.installed', 'server.failed',
  'server.crashed', 'server.crashCount', 'server.reason', 'server.observedGeneration', 'server.observedAt',
  'server.startedAt', 'server.pid', 'server.lastExitCode', 'server.lastExitSignal', 'server.lastExitCause',
  'server.lastExitReason', 'server.lastCrashAt',
  'server.nextRestartAt', 'server.createdAt', 'server.updatedAt',
  'server.bootPolicy', 'server.startOrder', 'server.stopTimeoutSeconds', 'server.timeZone', 'server.eula',
  'server.startupName', 'server.pinnedTemplate', 'server.pinnedAt',
] as const // biome-ignore format: columns

/** A server's ports beside the primary one, as JSON text (by `|| ''`: else it would be a value within the JSON of its row); `null`: none, as with most. A list is read by one statement. */
export const FURTHER_PORTS = sql<string | null>`case when exists (
  select 1 from allocation as other where other.server_id = server.id and other.id <> server.allocation_id
) then (
  select json_group_array(json_object(
    'id', further.id, 'ip', further.ip, 'port', further.port, 'alias', further.alias, 'name', coalesce(further.name, 'port-' || further.port),
    'role', coalesce(further.role, 'other'), 'protocol', coalesce(further.protocol, 'both')
  )) from allocation as further where further.server_id = server.id and further.id <> server.allocation_id
) || '' end`.as('furtherPorts')

/** What is asked of a list of servers. */
export interface ServerFilter {
  readonly page: number
  readonly limit: number
  readonly search?: string | undefined
  readonly status?: ServerStatus | undefined
  readonly nodeId?: string | undefined
  readonly ownerId?: string | undefined
  readonly templateId?: string | undefined
  readonly locationId?: string | undefined
  /** Contained in the name or e-mail address of the owner. */
  readonly owner?: string | undefined
  /** Whether `search` also finds names of nodes. */
  readonly nodesToo?: true
  readonly sort: 'name' | 'createdAt' | 'status'
  readonly order: 'asc' | 'desc'
}

/** A server's row with what its answers need of its template, node, location and allocation. */
export type ServerRow = NonNullable<Awaited<ReturnType<typeof findServerRow>>>

function joined(q: Queries) {
  return q
    .selectFrom('server')
    .innerJoin('template', 'template.id', 'server.templateId')
    .innerJoin('node', 'node.id', 'server.nodeId')
    .innerJoin('location', 'location.id', 'server.locationId')
    .innerJoin('allocation', 'allocation.id', 'server.allocationId')
    .leftJoin('ipPoolAddress', (join) =>
      // A further port may stand at another address that a pool gives out by now.
      join.onRef('ipPoolAddress.serverId', '=', 'server.id').onRef('ipPoolAddress.ip', '=', 'allocation.ip'),
    )
    .leftJoin('ipPool', 'ipPool.id', 'ipPoolAddress.poolId')
    .select(SERVER_COLUMNS)
    .select([
      'template.name as templateName',
      'node.name as nodeName',
      'node.hostname as nodeHostname',
      'node.publicAddress as nodePublicAddress',
      'node.defaultIp as nodeDefaultIp',
      'location.name as locationName',
      'allocation.ip as ip',
      'allocation.port as port',
      'allocation.alias as allocationAlias',
      'ipPool.networkName as networkName',
    ])
    .select(FURTHER_PORTS)
}

/** What is written of a new server; the rest is for reports of its agent, and what is decided later. */
const NEW_COLUMNS = [
  'id', 'uuid', 'name', 'description', 'templateId', 'nodeId', 'locationId', 'ownerId', 'allocationId', 'runtime', 'memoryMb', 'cpuCores', 'diskMb', 'swapMb', 'databaseAllocation', 'cpuSet', 'ioWeight', 'image', 'environment', 'startupCommand', 'startupName', 'mounts', 'restartPolicy', 'maxCrashCount', 'bootPolicy', 'startOrder', 'stopTimeoutSeconds', 'timeZone', 'desired', 'generation', 'power', 'installed', 'failed', 'crashed', 'crashCount', 'observedGeneration', 'createdAt', 'updatedAt',
] as const // biome-ignore format: columns

export type NewServerRow = Pick<Selectable<Schema['server']>, (typeof NEW_COLUMNS)[number]>

/** Writes new servers. */
export async function insertServerRows(q: Queries, rows: readonly NewServerRow[]): Promise<void> {
  await insertServers(q, { rows: JSON.stringify(rows.map((row) => NEW_COLUMNS.map((name) => wellFormed(row[name])))) })
}

/** SQLite makes no UTF-8 of half a character that JSON has as an escape. */
function wellFormed(value: string | number | null): string | number | null {
  return typeof value === 'string' ? value.toWellFormed() : value
}

const insertServers = statement((q, { rows }: { rows: string }) => {
  const columns = sql.join(NEW_COLUMNS.map((name) => sql.ref(name)))
  const values = sql.join(NEW_COLUMNS.map((_, at) => sql`value ->> ${sql.lit(at)}`))
  return {
    compile: () =>
      sql`insert into "server" (${columns}) select ${values} from json_each(${rows}) order by key`.compile(q),
  }
})

/** One column of a server as an edit writes it, with the generation that the server has then. */
export interface ColumnEdit {
  readonly id: string
  readonly value: string | number | null
  readonly generation: number
}

/** Writes the same column of several servers by one statement. A number with a fraction must not come this way: SQLite may read it a bit off. */
export async function updateServerColumn(
  q: Queries,
  { column, edits, now }: { readonly column: string; readonly edits: readonly ColumnEdit[]; readonly now: IsoTime },
): Promise<void> {
  const known = COLUMN_UPDATES.get(column) ?? columnUpdate(column)
  COLUMN_UPDATES.set(column, known)
  const rows = edits.map(({ id, value, generation }) => [id, wellFormed(value), generation])
  await known(q, { rows: JSON.stringify(rows), now })
}

const COLUMN_UPDATES = new Map<string, ReturnType<typeof columnUpdate>>()

function columnUpdate(column: string) {
  return statement((q, { rows, now }: { rows: string; now: IsoTime }) => ({
    compile: () =>
      sql`update "server" set ${sql.ref(column)} = given.value ->> 1, generation = given.value ->> 2, updated_at = ${now}
        from json_each(${rows}) as given where "server".id = given.value ->> 0`.compile(q),
  }))
}

/** A column for what is known when the row is read: to add it to so wide a row costs several times what the row does. */
export const LATER = sql<string>`''`

const serverById = statement(
  (q, { id }: { id: string }) =>
    joined(q)
      .select(['template.definition as templateDefinition', LATER.as('currentDefinition')])
      .where('server.id', '=', id),
  { keepsTo: ({ id }) => ({ table: 'server', ids: [id] }) },
)

/** The server with this id. Outside of transactions, others that are asked for meanwhile are read with it. */
export async function findServerRow(q: Queries, id: string) {
  if (q instanceof KeepingQueries && q.isShared) {
    const found = await serverTogether(q, id)
    return found === undefined ? undefined : (await withDefinitions(q, [found]))[0]
  }
  const [row] = await serverById(q, { id })
  return row === undefined ? undefined : kept(row, row.templateDefinition)
}

const serversByIds = jsonStatement(
  (q, { ids }: { ids: string }) =>
    joined(q)
      .select([LATER.as('templateDefinition'), LATER.as('currentDefinition')])
      .where('server.id', 'in', sql<string>`(select value from json_each(${ids}))`),
  { keepsTo: ({ ids }) => ({ table: 'server', ids: JSON.parse(ids) as string[] }) }, // made of such below
)

/** Makes the SQL that reads a server, for the first who asks. */
export function prepareServerRow(): void {
  serversByIds.sql()
}

const serverTogether = readTogether(serversByIds, 'server')

/** Those of the servers with these ids that are there, in any order. */
export async function findServerRows(q: Queries, ids: readonly string[]): Promise<ServerRow[]> {
  return await withDefinitions(q, await serversByIds(q, { ids: JSON.stringify(ids) }))
}

/**
 * The row with the definition that it is run by: the one that it was pinned to, else that of its template, which is there
 * as `currentDefinition`.
 */
function kept<R extends Defined>(row: R, currentDefinition: string): R {
  row.currentDefinition = currentDefinition
  row.templateDefinition = row.pinnedTemplate ?? currentDefinition
  return row
}

interface Defined {
  readonly pinnedTemplate: string | null
  templateDefinition: string
  currentDefinition: string
}

interface Asked {
  readonly visibility: Visibility
  readonly filter: ServerFilter
}

const countOfServers = compiled((q, { visibility, filter }: Asked) =>
  countQuery(q, narrow(q.selectFrom('server'), visibility, filter)),
)

const pageOfServers = compiled((q, { visibility, filter }: Asked) => {
  const matching = narrow(q.selectFrom('server'), visibility, filter).select('server.id')
  return sorted(matching, filter).limit(filter.limit).offset(offsetOf(filter))
})

const definitionRows = statement((q, { id }: { id: string }) =>
  q.selectFrom('template').select('definition').where('id', '=', id),
)

/** The definition of a template, which is kept: there are as many entries as templates, whichever of them are asked for together. */
async function definitionRow(q: Queries, id: string): Promise<{ readonly definition: string } | undefined> {
  const keepsTo = { table: 'template', ids: [id] }
  const from = (q instanceof KeepingQueries ? q.shared(definitionRows.sql(), keepsTo) : undefined) ?? q
  const read = () => definitionRows(from, { id })
  const [row] = from instanceof KeepingQueries ? await from.keptBy(definitionRows.sql(), keepsTo, read) : await read()
  return row
}

/** Whether what {@link withDefinitions} reads of a template has changed, for who keeps something that was made of it. */
export function definitionSight(q: KeepingQueries, templateId: string): ReturnType<KeepingQueries['sightOf']> {
  return q.sightOf(definitionRows.sql(), { keepsTo: { table: 'template', ids: [templateId] } })
}

/**
 * One page of the servers that the caller may see, and how many there are. Which they are is kept until something changes by which
 * they are found or ordered; their rows are read by their ids, so that a page stays as it is when other servers change.
 */
export async function listServerRows(
  q: Queries,
  visibility: Visibility,
  filter: ServerFilter,
): Promise<{ rows: ServerRow[]; total: number }> {
  const query = pageOfServers({ visibility, filter })
  // What depends on the time is another query each time.
  const isTimed = visibility !== 'all' && visibility.related !== null
  const page = isTimed ? await rowsBy(q, query) : await keptRows(q, query)
  const ids = page.map(({ id }) => id)
  const found = new Map((await findServerRows(q, ids)).map((row) => [row.id, row]))
  const total =
    totalByPage(filter, ids.length) ??
    (await keptTotal(q, countOfServers({ visibility, filter: { ...filter, page: 1 } })))
  return { rows: ids.flatMap((id) => found.get(id) ?? []), total }
}

/** Adds the definitions of the templates, each read once: they are the largest part, and many servers share one. */
export async function withDefinitions<R extends Defined & { readonly templateId: string }>(
  q: Queries,
  rows: readonly R[],
): Promise<R[]> {
  const ids = [...new Set(rows.map((row) => row.templateId))]
  const templates = await Promise.all(ids.map((id) => definitionRow(q, id)))
  const definitions = new Map(templates.map((template, place) => [ids[place], template?.definition]))
  return rows.flatMap((row) => {
    const current = definitions.get(row.templateId)
    return current === undefined ? [] : [kept(row, current)] // both are gone since the first read
  })
}

/** Those of the servers with these ids that the caller may see, in any order. */
export async function findVisibleRows(q: Queries, visibility: Visibility, ids: readonly string[]) {
  const wanted = joined(q).where('server.id', 'in', [...ids])
  return visibility === 'all' ? wanted.execute() : wanted.where((where) => visible(where, visibility)).execute()
}

/** Whose servers these are, by the id of the owner. */
export async function ownersOf(q: Queries, rows: readonly Pick<ServerRow, 'ownerId'>[]) {
  if (rows.length === 0) return new Map<string, never>()
  const ids = [...new Set(rows.map((row) => row.ownerId))]
  const users = await q.selectFrom('user').select(['id', 'username', 'email']).where('id', 'in', ids).execute()
  return new Map(users.map((user) => [user.id, user]))
}

/** How many of the servers that the caller may see have each status. */
export async function countServersByStatus(q: Queries, visibility: Visibility) {
  const servers = q.selectFrom('server')
  const seen = visibility === 'all' ? servers : servers.where((where) => visible(where, visibility))
  const query = seen.select((eb) => [statusSql().as('status'), eb.fn.countAll<number>().as('count')])
  return query.groupBy('status').execute()
}

function narrow<O>(
  query: SelectQueryBuilder<Schema, 'server', O>,
  visibility: Visibility,
  filter: ServerFilter,
): SelectQueryBuilder<Schema, 'server', O> {
  let narrowed = visibility === 'all' ? query : query.where((where) => visible(where, visibility))
  for (const column of ['nodeId', 'ownerId', 'templateId', 'locationId'] as const) {
    const value = filter[column]
    if (value !== undefined) narrowed = narrowed.where(`server.${column}`, '=', value)
  }
  const { status, search } = filter
  if (status !== undefined) narrowed = narrowed.where(statusSql(), '=', status)
  if (search !== undefined && search !== '') {
    const nodes = filter.nodesToo === true ? [nodeNamed(search)] : []
    narrowed = narrowed.where((where) => where.or([...matches(search), ...nodes]))
  }
  if (filter.owner !== undefined) narrowed = narrowed.where('server.ownerId', 'in', ownersLike(filter.owner))
  return narrowed
}

/**
 * The name contains the text, or the id or uuid begins with it. SQLite folds the case of ASCII letters alone, so that names
 * are looked for with the others in both cases.
 */
function matches(search: string) {
  const literal = (text: string): string => text.replace(/[\\%_]/g, '\\$&')
  const cases = new Set([search, search.toLowerCase(), search.toUpperCase()])
  const names = [...cases].map(
    (text) => sql<boolean>`lower(server.name) like lower(${`%${literal(text)}%`}) escape '\\'`,
  )
  const beginning = `${literal(search.toLowerCase())}%`
  const ids = ['id', 'uuid'].map(
    (column) => sql<boolean>`lower(${sql.ref(`server.${column}`)}) like ${beginning} escape '\\'`,
  )
  return [...names, ...ids]
}

function nodeNamed(search: string) {
  const eb = expressionBuilder<Schema, 'server'>()
  const nodes = eb
    .selectFrom('node')
    .select('node.id')
    .where(contains(sql.ref('node.name'), containing(search)))
  return eb('server.nodeId', 'in', nodes)
}

function ownersLike(text: string) {
  const pattern = containing(text)
  return expressionBuilder<Schema>()
    .selectFrom('user')
    .select('user.id')
    .where((eb) => eb.or([contains(sql.ref('user.username'), pattern), contains(sql.ref('user.email'), pattern)]))
}

/** Sorts by what an index has in this order, so that the rows before a page are passed over and not sorted. */
function sorted<Q extends { orderBy(by: Expression<unknown>, direction: 'asc' | 'desc'): Q }>(
  query: Q,
  { sort, order }: ServerFilter,
): Q {
  const [id, createdAt] = [sql.ref('server.id'), sql.ref('server.createdAt')]
  const columns = {
    name: [sql`server.name collate nocase`, id],
    createdAt: [createdAt, id],
    status: [statusSql(), createdAt, id],
  }
  return columns[sort].reduce<Q>((so, column) => so.orderBy(column, order), query)
}

/** The ids of the servers that somebody may see, as a subquery. */
export function visibleServerIds(visibility: Exclude<Visibility, 'all'>) {
  return expressionBuilder<Schema>()
    .selectFrom('server')
    .select('server.id')
    .where((where) => visible(where, visibility))
}

function visible(where: ExpressionBuilder<Schema, 'server'>, { ids, related }: Exclude<Visibility, 'all'>) {
  const named = ids.length === 0 ? [] : [where('server.id', 'in', [...ids])]
  if (related === null) return where.or([...named, sql<boolean>`1 = 0`])
  return where.or([
    ...named,
    where('server.ownerId', '=', related.userId),
    where('server.id', 'in', grantedServers(where, related)),
    where('server.nodeId', 'in', assignedNodes(related)),
  ])
}

/** The servers that the user was granted to read. */
function grantedServers(where: ExpressionBuilder<Schema, 'server'>, { userId, now }: { userId: string; now: IsoTime }) {
  return where
    .selectFrom('serverAccess')
    .select('serverAccess.serverId')
    .where('serverAccess.userId', '=', userId)
    .where((eb) => eb.or([eb('serverAccess.expiresAt', 'is', null), eb('serverAccess.expiresAt', '>', now)]))
    .where('serverAccess.permissions', 'like', '%"server.read"%')
}

/** The status of `serverStatus` (shared/server-life.ts) in SQL, for filters and order; a test compares the two. */
function statusSql() {
  return sql<string>`case
    when server.deleting_at is not null then 'deleting'
    when server.archived_at is not null then 'archived'
    when server.suspended_at is not null then 'suspended'
    when server.activity is not null then server.activity
    when server.power = 'unknown' then 'unknown'
    when server.power = 'offline' and server.crashed = 1 then 'crashed'
    when server.power = 'offline' and server.failed = 1 then 'error'
    when server.power = 'offline' then 'stopped'
    else server.power end`
}
