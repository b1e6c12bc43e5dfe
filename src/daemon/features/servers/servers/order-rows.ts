import { sql } from 'kysely'
import { beforeIdsOf } from '../../../../shared/kernel/ids.ts'
import type { DesiredState } from '../../../../shared/kernel/server-life.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { ShellName } from '../../../../shared/protocol/server-spec.ts'
import type { Queries } from '../../../db/db.ts'
import { KeepingQueries } from '../../../db/kept-results.ts'
import type { Schema } from '../../../db/schema.ts'
import { jsonStatement, statement } from '../../../db/statement.ts'
import type { ServerRow } from './rows.ts'

/** What an order needs of its server, and no more: orders are many, and a whole row with its template is large. */
export interface OrderRow
  extends Pick<
    ServerRow,
    | 'id' | 'nodeId' | 'nodeName' | 'runtime' | 'desired' | 'generation' | 'suspendedAt' | 'suspensionReason' | 'deletingAt'
    | 'archivedAt' | 'activity' | 'power' | 'crashed' | 'failed' | 'startupCommand' | 'startupName'
  > /* biome-ignore format: columns */ {
  /** What its template says of the line that it is started by. */
  readonly launch: LaunchTemplate
  /** The newest order that says what is wanted of it; `null` when that has ended. */
  readonly newest: Schema['command']['op'] | null
}

/** The fields of a template that make the line of a server. */
export interface LaunchTemplate {
  readonly startup: string
  readonly startupCommands: readonly { readonly name: string; readonly command: string }[]
  readonly shell?: ShellName
}

/** The orders that say what is wanted of a server. */
const INTENTS = sql`('start', 'stop', 'restart', 'kill', 'install', 'rebuild')`

/**
 * Whether a newer order of the server than "command" has ended: what the older one wanted counts no longer. Ended ones are found by their
 * ids, which sort by time: only what came behind an order that is still open is looked at.
 */
const IS_OVERTAKEN = sql`exists (
  select 1 from command as newer
  where newer.id >= substr(command.id, 1, ${sql.lit(beforeIdsOf('cmd', 0).length)}) and newer.node_id = command.node_id
    and newer.server_id = command.server_id and newer.generation > command.generation
    and newer.op in ${INTENTS} and newer.ended_at is not null
)`

/** The newest order of a row of "server" that says what is wanted of it; none when that has ended. */
const NEWEST = sql<OrderRow['newest']>`(
  select command.op from command
  where command.node_id = server.node_id and command.server_id = server.id and command.ended_at is null
    and command.op in ${INTENTS} and (command.generation = server.generation or not ${IS_OVERTAKEN})
  order by command.generation desc limit 1
)`

/** What a definition says of the line, as a text: a row that is JSON itself would hold what it says. `null` for none. */
const launchText = (definition: string) =>
  sql<string | null>`json_extract(${sql.ref(definition)}, '$.startup', '$.startupCommands', '$.shell') || ''`

const launchRows = statement((q, { id }: { id: string }) =>
  q.selectFrom('template').select(launchText('template.definition').as('text')).where('template.id', '=', id),
)

/** What was read of kept rows, which stay the same as long as they are kept. */
const launches = new WeakMap<object, LaunchTemplate>()

/** What a template says of the line, read again only when the template has changed. */
async function launchOfTemplate(q: Queries, id: string): Promise<LaunchTemplate | undefined> {
  const read = () => launchRows(q, { id })
  const keepsTo = { table: 'template', ids: [id] }
  const [row] = q instanceof KeepingQueries ? await q.keptBy(launchRows.sql(), keepsTo, read) : await read()
  if (row === undefined || row.text === null) return undefined
  const launch = launches.get(row) ?? readLaunch(row.text)
  launches.set(row, launch)
  return launch
}

function readLaunch(text: string): LaunchTemplate {
  // Made by the statements here, from what the contract of templates had parsed.
  const [startup, startupCommands, shell] = JSON.parse(text) as [
    string,
    LaunchTemplate['startupCommands'] | null,
    ShellName | null,
  ]
  return { startup, startupCommands: startupCommands ?? [], ...(shell === null ? {} : { shell }) }
}

const orderRows = jsonStatement((q, { ids }: { ids: string }) =>
  q
    .selectFrom('server')
    .innerJoin('node', 'node.id', 'server.nodeId')
    .select([
      'server.id', 'server.nodeId', 'node.name as nodeName', 'server.runtime', 'server.desired', 'server.generation',
      'server.suspendedAt', 'server.suspensionReason', 'server.deletingAt', 'server.archivedAt', 'server.activity',
      'server.power', 'server.crashed', 'server.failed', 'server.startupCommand', 'server.startupName',
      'server.templateId', launchText('server.pinned_template').as('pinnedLaunch'), NEWEST.as('newest'),
    ]) // biome-ignore format: columns
    .where('server.id', 'in', sql<string>`(select value from json_each(${ids}))`),
)

/** Those of the servers with these ids that are there, as orders need them. */
export async function findOrderRows(q: Queries, ids: readonly string[]): Promise<OrderRow[]> {
  const rows = await orderRows(q, { ids: JSON.stringify(ids) })
  const templates = [...new Set(rows.flatMap((row) => (row.pinnedLaunch === null ? [row.templateId] : [])))]
  const ofTemplates = await Promise.all(templates.map((id) => launchOfTemplate(q, id)))
  return rows.flatMap((row) => {
    const { pinnedLaunch } = row
    const launch = pinnedLaunch === null ? ofTemplates[templates.indexOf(row.templateId)] : readLaunch(pinnedLaunch)
    return launch === undefined ? [] : [Object.assign(row, { launch })] // both are gone
  })
}

/** The newest order of a server that says what is wanted of it; `null` when that has ended. */
export async function findNewestOrder(q: Queries, serverId: string): Promise<OrderRow['newest']> {
  const row = await q.selectFrom('server').select(NEWEST.as('newest')).where('id', '=', serverId).executeTakeFirst()
  return row?.newest ?? null
}

/** The generation of a server, and what an order wants of it. */
export interface Intent {
  readonly id: string
  readonly before: number
  readonly generation: number
  readonly desired: DesiredState
}

/** Raises the generations of servers and says what is wanted of each. */
export async function writeIntents(q: Queries, intents: readonly Intent[], now: IsoTime): Promise<void> {
  const rows = JSON.stringify(intents.map(({ id, before, generation, desired }) => [id, before, generation, desired]))
  await updateIntents(q, { rows, now })
}

const updateIntents = statement((q, { rows, now }: { rows: string; now: IsoTime }) => ({
  compile: () =>
    sql`
      update "server" set desired = given.value ->> 3, generation = given.value ->> 2, updated_at = ${now}
      from json_each(${rows}) as given
      where "server".id = given.value ->> 0 and "server".generation = given.value ->> 1`.compile(q),
}))

/** A command as it is queued for its node. */
export interface NewCommand {
  readonly id: string
  readonly nodeId: string
  readonly serverId: string
  readonly generation: number
  readonly op: Schema['command']['op']
  readonly args: string
}

/** Queues commands for nodes. */
export async function insertCommands(q: Queries, commands: readonly NewCommand[], now: IsoTime): Promise<void> {
  const rows = JSON.stringify(
    commands.map(({ id, nodeId, serverId, generation, op, args }) => [id, nodeId, serverId, generation, op, args]),
  )
  await insertQueued(q, { rows, now })
}

const insertQueued = statement((q, { rows, now }: { rows: string; now: IsoTime }) => ({
  compile: () =>
    sql`
      insert into "command" (id, node_id, server_id, generation, op, args, state, noop, created_at)
      select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, 'queued', 0, ${now}
      from json_each(${rows}) order by key`.compile(q),
}))
