import { sql } from 'kysely'
import type { DesiredState } from '../../../../shared/kernel/server-life.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { ShellName } from '../../../../shared/protocol/server-spec.ts'
import type { Queries } from '../../../db/db.ts'
import type { Schema } from '../../../db/schema.ts'
import { statement } from '../../../db/statement.ts'
import type { ServerRow } from './rows.ts'

/** The newest order of a server that says what is wanted of it. */
export interface NewestOrder {
  readonly op: string
  readonly state: Schema['command']['state']
}

/** What an order needs of its server, and no more: orders are many, and a whole row with its template is large. */
export interface OrderRow
  extends Pick<
    ServerRow,
    | 'id' | 'nodeId' | 'nodeName' | 'runtime' | 'desired' | 'generation' | 'suspendedAt' | 'suspensionReason' | 'deletingAt'
    | 'archivedAt' | 'activity' | 'power' | 'crashed' | 'failed' | 'startupCommand' | 'startupName'
  > /* biome-ignore format: columns */ {
  /** What its template says of the line that it is started by. */
  readonly launch: LaunchTemplate
  readonly newest: NewestOrder | undefined
}

/** The fields of a template that make the line of a server. */
export interface LaunchTemplate {
  readonly startup: string
  readonly startupCommands: readonly { readonly name: string; readonly command: string }[]
  readonly shell?: ShellName
}

const orderRow = statement((q, { id }: { id: string }) =>
  q
    .selectFrom('server')
    .innerJoin('template', 'template.id', 'server.templateId')
    .innerJoin('node', 'node.id', 'server.nodeId')
    .select([
      'server.id', 'server.nodeId', 'node.name as nodeName', 'server.runtime', 'server.desired', 'server.generation',
      'server.suspendedAt', 'server.suspensionReason', 'server.deletingAt', 'server.archivedAt', 'server.activity',
      'server.power', 'server.crashed', 'server.failed', 'server.startupCommand', 'server.startupName',
    ]) // biome-ignore format: columns
    .select([
      sql<string>`json_extract(coalesce(server.pinned_template, template.definition), '$.startup', '$.startupCommands', '$.shell')`.as(
        'launch',
      ),
      sql<string | null>`(
        select json_array(command.op, command.state) from command
        where command.node_id = server.node_id and command.server_id = server.id
          and command.op in ('start', 'stop', 'restart', 'kill', 'install', 'rebuild')
        order by command.generation desc limit 1
      )`.as('newest'),
    ])
    .where('server.id', '=', id),
)

/** The server with this id, as orders need it. */
export async function findOrderRow(q: Queries, id: string): Promise<OrderRow | undefined> {
  const [row] = await orderRow(q, { id })
  if (row === undefined) return undefined
  // Both were made by this statement, from what the contract of templates had parsed, and from a column of this type.
  const [startup, startupCommands, shell] = JSON.parse(row.launch) as [
    string,
    OrderRow['launch']['startupCommands'],
    ShellName | null,
  ]
  const newest = row.newest === null ? undefined : (JSON.parse(row.newest) as [string, NewestOrder['state']])
  return {
    ...row,
    launch: { startup, startupCommands: startupCommands ?? [], ...(shell === null ? {} : { shell }) },
    newest: newest && { op: newest[0], state: newest[1] },
  }
}

/** Raises the generation of a server and says what is wanted of it. */
export const writeIntent = statement(
  (q, intent: { id: string; before: number; generation: number; desired: DesiredState; now: IsoTime }) =>
    q
      .updateTable('server')
      .set({ desired: intent.desired, generation: intent.generation, updatedAt: intent.now })
      .where('id', '=', intent.id)
      .where('generation', '=', intent.before),
)

/** Queues a command for a node. */
export const insertCommand = statement(
  (
    q,
    row: {
      id: string
      nodeId: string
      serverId: string
      generation: number
      op: Schema['command']['op']
      args: string
      now: IsoTime
    },
  ) =>
    q.insertInto('command').values({
      id: row.id,
      nodeId: row.nodeId,
      serverId: row.serverId,
      generation: row.generation,
      op: row.op,
      args: row.args,
      state: 'queued',
      error: null,
      noop: 0,
      createdAt: row.now,
      acceptedAt: null,
      endedAt: null,
    }),
)
