import { z } from 'zod'
import { createServerDatabase } from '../../../../../shared/api/databases.ts'
import { PanelError } from '../../../../../shared/kernel/errors.ts'
import { DatabaseHostId, newId } from '../../../../../shared/kernel/ids.ts'
import { recordFact } from '../../../../access/operation.ts'
import { parseJson } from '../../../../db/json.ts'
import type { Flag } from '../../../../db/schema/columns.ts'
import { beginDrop } from '../../../servers/databases/change.ts'
import { createDatabase } from '../../../servers/databases/create.ts'
import { findRow, findShownById } from '../../../servers/databases/database-rows.ts'
import { roomiestHost } from '../../../servers/databases/host-rows.ts'
import { databasePlace } from '../../../servers/databases/secrets.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { findStep } from '../rows.ts'
import { type StepContext, StepDelay, StepRefusal, stepAction } from './step.ts'

/** What a database is in the map that was made here for what one of the source holds; those that stay on their host are another kind. */
export const COPIED_DATABASE = 'database_copy'

/**
 * Makes a database for what is copied later, or records one that stays on its host: a row with its name, user and password, which the panel
 * does not manage. The password is read when the step runs and goes from the source into the vault; it stands in no plan.
 */
export const importDatabase = stepAction({
  input: z.object({
    serverSourceId: z.string(),
    source: z.looseObject({
      id: z.string(),
      name: z.string().min(1).max(191),
      username: z.string().min(1).max(191),
      remote: z.string().max(191),
      host: z.looseObject({ host: z.string(), port: z.int() }),
    }),
    copies: z.boolean().default(false),
    op: z.enum(['create', 'update']),
  }),
  run: async (context, { serverSourceId, source, copies, op }) => {
    const { deps, principal, sourceFp, sourceId, targetId } = context
    const before = await findMapped(deps.db.read, { sourceFp, sourceType: 'database', sourceId })
    if (before?.targetType === COPIED_DATABASE && op === 'update') {
      // Its name, user and password here are its own.
      const target = { type: COPIED_DATABASE, id: before.targetId, created: true, contentHash: contentHash(source) }
      return () => Promise.resolve({ kind: 'done', target })
    }
    if (copies && op === 'create') {
      const id = await madeAnew(context, { serverSourceId, name: source.name })
      const target = { type: COPIED_DATABASE, id, created: true, contentHash: contentHash(source) }
      return () => Promise.resolve({ kind: 'done', target })
    }
    const password = await passwordAtSource(context, { serverSourceId, databaseId: source.id })
    return async (tx) => {
      const mapped = await findMapped(tx.q, { sourceFp, sourceType: 'server', sourceId: serverSourceId })
      if (mapped === undefined) throw new StepRefusal('CONFLICT', 'Its server has not been imported')
      const hosts = await tx.q
        .selectFrom('databaseHost')
        .select(['id', 'host'])
        .where('port', '=', source.host.port)
        .execute()
      const host = hosts.find((one) => one.host.toLowerCase() === source.host.host.toLowerCase())
      if (host === undefined)
        throw new StepRefusal('ADMIN_DATABASE_HOST_NOT_FOUND', 'Its host is not a database host of this panel')
      const target = (id: string, { created, managed }: { readonly created: boolean; readonly managed: Flag }) => {
        const text = `it stays on ${host.host}, and the source goes on using it: deleting it or its server here leaves it there, until it is adopted (panel databases adopt)`
        return {
          kind: 'done',
          target: { type: 'database', id, created, contentHash: contentHash(source) },
          notes: { warnings: managed === 1 ? [] : [text] },
        } as const
      }
      const { name, username, remote } = source
      const id = op === 'update' && targetId !== null ? targetId : newId('db', deps.clock)
      const values = {
        name,
        username,
        remote,
        password: deps.vault.seal(databasePlace(id), password),
        updatedAt: tx.now,
      }
      if (id === targetId) {
        // What has been adopted since is the panel's own, with what was set here.
        const recorded = tx.q.updateTable('serverDatabase').set(values).where('id', '=', id).where('managed', '=', 0)
        const { numUpdatedRows } = await recorded.executeTakeFirstOrThrow()
        return target(id, { created: true, managed: numUpdatedRows === 0n ? 1 : 0 })
      }
      const there = await tx.q
        .selectFrom('serverDatabase')
        .select(['id', 'serverId', 'managed'])
        .where('hostId', '=', host.id)
        .where('name', '=', name)
        .executeTakeFirst()
      if (there !== undefined && there.serverId !== mapped.targetId) {
        throw new StepRefusal('CONFLICT', `Another server has the database ${name} on this host already`)
      }
      if (there !== undefined) return target(there.id, { created: false, managed: there.managed })
      await tx.q
        .insertInto('serverDatabase')
        .values({
          ...{ id, hostId: host.id, serverId: mapped.targetId, ...values, createdAt: tx.now },
          ...{ pendingPassword: null, state: 'ready', managed: 0, requestedBy: null, lastError: null },
        })
        .execute()
      const details = { databaseId: id, name, cause: 'migration' }
      const audit = { action: 'database.import', resource: 'server', resourceId: mapped.targetId, details }
      await recordFact(tx, { deps, principal }, { audit })
      return target(id, { created: true, managed: 0 })
    }
  },
  abandon: async ({ deps, principal, sourceFp, sourceId, jobId, stepId }) => {
    await deps.db.write(async (tx) => {
      const step = await findStep(tx.q, jobId, stepId)
      if (step == null || step.intent === null) return
      const { databaseId } = parseJson(Intent, step.intent)
      // What stands in the map goes with the rollback, or stays.
      if ((await findMapped(tx.q, { sourceFp, sourceType: 'database', sourceId }))?.targetId === databaseId) return
      const made = await findShownById(tx.q, databaseId)
      if (made !== undefined) await beginDrop(tx, deps.databases, made, principal)
    })
  },
})

/** The password of a database as the source shows it now. */
export async function passwordAtSource(
  { source: open, signal }: StepContext,
  { serverSourceId, databaseId }: { readonly serverSourceId: string; readonly databaseId: string },
): Promise<string> {
  const from = await open()
  const server = await from.server(serverSourceId, signal)
  if (server === undefined) throw new StepRefusal('SOURCE_CHANGED', 'The server is gone from the source')
  const password = (await from.databases(server, signal)).items.find(({ id }) => id === databaseId)?.password ?? null
  if (password === null)
    throw new StepRefusal('SOURCE_RIGHTS_MISSING', 'The keys of the source do not show its password')
  return password
}

/** A database here by a name like that of the source, made once however often that is tried; answers its id. */
async function madeAnew(
  { deps, principal, sourceFp, jobId, stepId }: StepContext,
  { serverSourceId, name }: { readonly serverSourceId: string; readonly name: string },
): Promise<string> {
  const { db, databases } = deps
  const mapped = await findMapped(db.read, { sourceFp, sourceType: 'server', sourceId: serverSourceId })
  if (mapped === undefined) throw new StepRefusal('CONFLICT', 'Its server has not been imported')
  const { databaseId: id } = await db.write(async (tx) => {
    const row = await findStep(tx.q, jobId, stepId)
    const intent = parseJson(Intent, row?.intent ?? JSON.stringify({ databaseId: newId('db', deps.clock) }))
    const step = tx.q.updateTable('migrationStep').set({ intent: JSON.stringify(intent) })
    await step.where('jobId', '=', jobId).where('id', '=', stepId).execute()
    return intent
  })
  const there = await findRow(db.read, id)
  if (there?.state === 'ready') return id
  // What was cut off while it was made is undone first, and then made anew.
  if (there !== undefined) throw new StepDelay('CONFLICT', 'What is left of an attempt before is still being removed')
  const host = await roomiestHost(db.read, 'mysql')
  if (host === undefined) {
    throw new StepRefusal('ADMIN_DATABASE_HOST_NOT_FOUND', 'No database host for MySQL of this panel has room')
  }
  const hostId = DatabaseHostId.parse(host.id)
  const of = { serverId: mapped.targetId, principal, id, isMovingIn: true }
  const named = createServerDatabase.body.safeParse({ hostId, name })
  try {
    if (named.success) return await createDatabase(databases, { ...of, body: named.data })
  } catch (error) {
    // Another one has that name.
    if (!(error instanceof PanelError) || error.code !== 'CONFLICT') throw error
  }
  return await createDatabase(databases, { ...of, body: { hostId, remote: '%' } })
}

const Intent = z.object({ databaseId: z.string() })
