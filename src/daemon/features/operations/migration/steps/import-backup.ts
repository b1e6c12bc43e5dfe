import { createHash } from 'node:crypto'
import { z } from 'zod'
import { newId } from '../../../../../shared/kernel/ids.ts'
import { isoTime } from '../../../../../shared/kernel/time.ts'
import { keepFiles, wipeFiles } from '../../../../../shared/protocol/migration.ts'
import { parseJson } from '../../../../db/json.ts'
import { withStore } from '../../../servers/backups/reach-store.ts'
import { insertBackup } from '../../../servers/backups/rows.ts'
import { findServerRow } from '../../../servers/servers/rows.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { type StepContext, StepRefusal, stepAction } from './step.ts'
import { ask, pulledFrom } from './transfer-files.ts'

const Source = z.looseObject({
  uuid: z.string(),
  name: z.string(),
  sha1: z.string().nullable(),
  bytes: z.number(),
  createdAt: z.string().nullable(),
  isLocked: z.boolean(),
})
const Intent = z.object({ backupId: z.string() })

/** Brings a stored backup: fetched of the source, unpacked aside on the node, and packed into the server's own store with its old date. */
export const importBackup = stepAction({
  input: z.object({
    serverSourceId: z.string(),
    nodeOrigin: z.string().nullable(),
    source: Source,
    op: z.enum(['create', 'update']),
  }),
  run: async (context, { serverSourceId, nodeOrigin, source }) => {
    const { deps, sourceFp, signal, jobId, stepId } = context
    const mapped = await findMapped(deps.db.read, { sourceFp, sourceType: 'server', sourceId: serverSourceId })
    const row = mapped === undefined ? undefined : await findServerRow(deps.db.read, mapped.targetId)
    if (row === undefined) throw new StepRefusal('SERVER_NOT_FOUND', 'Its server has been deleted here')
    const store = await deps.backups.stores.ofServer(deps.db.read, row.id)
    if (source.sha1 === null) return () => Promise.resolve({ kind: 'skipped', reason: 'no_checksum' })
    const from = await context.source()
    const server = await from.server(serverSourceId, signal)
    if (from.files === null || server === undefined)
      throw new StepRefusal('SOURCE_CHANGED', 'The server is gone from the source')
    const backupId = await idOf(context)
    const nodeStep = `${jobId}_${stepId}`
    const archive = { uuid: source.uuid, sha1: source.sha1, bytes: source.bytes }
    const here = { id: row.id, nodeId: row.nodeId, stepId: nodeStep }
    await pulledFrom(context, { files: from.files, server, archive, nodeOrigin }, here)
    const name = source.name.replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, 120) || 'backup'
    const createdAt = isoTime(Date.parse(source.createdAt ?? '') || deps.clock.nowMs())
    const about = {
      ...{ version: 1, name, label: null, createdAt, locked: source.isLocked, counts: true },
      ...{ serverId: row.id, serverName: row.name, serverUuid: row.uuid, templateName: row.templateName },
    }
    const grant = { nodeId: row.nodeId, ownerId: row.id, mode: 'write', signal } as const
    const key = createHash('sha256').update(nodeStep).digest('hex').slice(0, 32)
    const kept = await withStore(deps.backups, store.id, grant, (access) =>
      ask(context, row.nodeId, () =>
        deps.gateway.request(
          row.nodeId,
          keepFiles,
          {
            stepId: nodeStep,
            serverId: row.id,
            store: access,
            ownerId: row.id,
            backupId,
            key,
            compression: 'gzip',
            about,
          },
          { signal },
        ),
      ),
    )
    await ask(context, row.nodeId, () => deps.gateway.request(row.nodeId, wipeFiles, { stepId: nodeStep }))
    const { entries, bytes, storedBytes, sha256, problems, problemCount } = kept
    return async (tx) => {
      await insertBackup(tx, {
        ...{ id: backupId, serverId: row.id, ownerId: row.id, serverName: row.name, nodeId: row.nodeId },
        ...{ storeId: store.id, policyId: null, name, kind: 'archive', compression: 'gzip', label: null },
        ...{ locked: source.isLocked ? 1 : 0, counts: 1, status: 'completed', error: null, ignored: '[]' },
        ...{ databases: '[]', problems: JSON.stringify(problems), problemCount, entries, bytes, storedBytes, sha256 },
        ...{ jobId: null, createdBy: null, startedAt: createdAt, completedAt: createdAt, restoredAt: null },
        ...{ verifiedAt: null, damage: null, createdAt, updatedAt: tx.now },
      })
      return { kind: 'done', target: { type: 'backup', id: backupId, created: true, contentHash: contentHash(source) } }
    }
  },
  abandon: async ({ deps, sourceFp, jobId, stepId }, { serverSourceId }) => {
    const mapped = await findMapped(deps.db.read, { sourceFp, sourceType: 'server', sourceId: serverSourceId })
    const row = mapped === undefined ? undefined : await findServerRow(deps.db.read, mapped.targetId)
    if (row === undefined || !deps.gateway.isOnline(row.nodeId)) return
    await deps.gateway.request(row.nodeId, wipeFiles, { stepId: `${jobId}_${stepId}` })
  },
})

/** Written down before the store has anything, so that another attempt goes on with the same one. */
async function idOf({ deps, jobId, stepId }: StepContext): Promise<string> {
  return deps.db.write(async (tx) => {
    const { intent } = await tx.q
      .selectFrom('migrationStep')
      .select('intent')
      .where('jobId', '=', jobId)
      .where('id', '=', stepId)
      .executeTakeFirstOrThrow()
    if (intent !== null) return parseJson(Intent, intent).backupId
    const backupId = newId('bak', deps.clock)
    const set = { intent: JSON.stringify({ backupId }) }
    await tx.q.updateTable('migrationStep').set(set).where('jobId', '=', jobId).where('id', '=', stepId).execute()
    return backupId
  })
}
