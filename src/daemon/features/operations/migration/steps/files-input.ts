import { z } from 'zod'
import { parseJson } from '../../../../db/json.ts'
import { findMapped } from '../map.ts'
import { stepId } from '../plan/content-hash.ts'
import type { SourceServer } from '../source/model.ts'
import type { Source, SourceFiles } from '../source/source.ts'
import { type StepContext, StepRefusal } from './step.ts'

/** What the steps of a server's files are planned with. */
export const FilesInput = z.object({
  serverSourceId: z.string(),
  /** Where archives of its node are asked for; `null`: its node is not among those that the source shows. */
  nodeOrigin: z.string().nullable(),
})
export type FilesInput = z.infer<typeof FilesInput>

/** A server of the source as it is now, with what can be done with its files. */
export interface ServerThere {
  readonly source: Source
  readonly files: SourceFiles
  readonly server: SourceServer
}

/** Looks at the server on the source. */
export async function serverThere({ source: open, sourceId, signal }: StepContext): Promise<ServerThere> {
  const source = await open()
  const { files } = source
  if (files === null) throw new StepRefusal('INTERNAL_ERROR', 'The files of this source are not behind an API')
  const server = await source.server(sourceId, signal)
  if (server === undefined) throw new StepRefusal('SOURCE_CHANGED', 'The server is gone from the source')
  return { source, files, server }
}

/** The server that it has become here. */
export async function serverHere({ deps, sourceFp, sourceId }: StepContext): Promise<{ id: string; nodeId: string }> {
  const mapped = await findMapped(deps.db.read, { sourceFp, sourceType: 'server', sourceId })
  const row =
    mapped === undefined
      ? undefined
      : await deps.db.read
          .selectFrom('server')
          .select(['id', 'nodeId'])
          .where('id', '=', mapped.targetId)
          .executeTakeFirst()
  if (row === undefined) throw new StepRefusal('SERVER_NOT_FOUND', 'Its server has been deleted here')
  return row
}

/** What another step of the same server's files has written down; `undefined`: it is not done. */
export async function notesOf<T>(
  { deps, jobId, sourceFp, sourceId }: StepContext,
  action: string,
  schema: z.ZodType<T>,
): Promise<{ readonly status: string; readonly reason: string | null; readonly notes: T | undefined } | undefined> {
  const row = await deps.db.read
    .selectFrom('migrationStep')
    .select(['status', 'reason', 'result'])
    .where('jobId', '=', jobId)
    .where('id', '=', stepId(sourceFp, action, 'files', sourceId))
    .executeTakeFirst()
  if (row === undefined) return undefined
  const { status, reason } = row
  return { status, reason, notes: row.result === null ? undefined : parseJson(schema, row.result) }
}

/** By what the node knows the work of this server: the same in all attempts of one migration, and in no other one. */
export function nodeStepId({ jobId, sourceFp, sourceId }: StepContext): string {
  return `${jobId}_${stepId(sourceFp, 'transfer_files', 'files', sourceId)}`
}
