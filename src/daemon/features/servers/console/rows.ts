import { sql } from 'kysely'
import type { Queries } from '../../../db/db.ts'
import { readTogether } from '../../../db/read-together.ts'
import { jsonStatement } from '../../../db/statement.ts'
import type { ServerRow } from '../servers/rows.ts'
import type { LifeRow } from '../servers/view.ts'

/** What typing a command needs of a server: commands are many, and a whole row with its template is large. */
export type TypingRow = LifeRow &
  Pick<ServerRow, 'id' | 'nodeId' | 'nodeName' | 'suspensionReason'> & {
    /** The kind of the template's console; templates that were stored before there were kinds have none. */
    readonly consoleKind: string | null
  }

const typingRows = jsonStatement(
  (q, { ids }: { ids: string }) =>
    q
    .selectFrom('server')
    .innerJoin('template', 'template.id', 'server.templateId')
    .innerJoin('node', 'node.id', 'server.nodeId')
    .select([
      'server.id', 'server.nodeId', 'node.name as nodeName', 'server.suspendedAt', 'server.suspensionReason',
      'server.deletingAt', 'server.archivedAt', 'server.activity', 'server.power', 'server.crashed', 'server.failed',
    ]) // biome-ignore format: columns
      .select(
        sql<string | null>`json_extract(coalesce(server.pinned_template, template.definition), '$.console.kind')`.as(
          'consoleKind',
        ),
      )
      .where('server.id', 'in', sql<string>`(select value from json_each(${ids}))`),
  { keepsTo: ({ ids }) => ({ table: 'server', ids: JSON.parse(ids) as string[] }) }, // made of such in read-together.ts
)

/** The server with this id; `undefined`: there is none. */
export const findTypingRow: (q: Queries, id: string) => Promise<TypingRow | undefined> = readTogether(
  typingRows,
  'server',
  { kept: true },
)
