import { z } from 'zod'
import { newId } from '../../../../../shared/kernel/ids.ts'
import { recordFact } from '../../../../access/operation.ts'
import { databasePlace } from '../../../servers/databases/secrets.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { StepRefusal, stepAction } from './step.ts'

/**
 * Takes over a database that stays on its host: a row with its name, user and password. The password is read when the step runs and goes
 * from the source into the vault; it stands in no plan.
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
    op: z.enum(['create', 'update']),
  }),
  run: async ({ deps, principal, sourceFp, targetId, source: open, signal }, { serverSourceId, source, op }) => {
    const from = await open()
    const server = await from.server(serverSourceId, signal)
    if (server === undefined) throw new StepRefusal('SOURCE_CHANGED', 'The server is gone from the source')
    const found = (await from.databases(server, signal)).items.find(({ id }) => id === source.id)
    const password = found?.password ?? null
    if (password === null)
      throw new StepRefusal('SOURCE_RIGHTS_MISSING', 'The keys of the source do not show its password')
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
      const target = (id: string, created: boolean) =>
        ({ kind: 'done', target: { type: 'database', id, created, contentHash: contentHash(source) } }) as const
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
        await tx.q.updateTable('serverDatabase').set(values).where('id', '=', id).execute()
        return target(id, true)
      }
      const there = await tx.q
        .selectFrom('serverDatabase')
        .select(['id', 'serverId'])
        .where('hostId', '=', host.id)
        .where('name', '=', name)
        .executeTakeFirst()
      if (there !== undefined && there.serverId !== mapped.targetId) {
        throw new StepRefusal('CONFLICT', `Another server has the database ${name} on this host already`)
      }
      if (there !== undefined) return target(there.id, false)
      await tx.q
        .insertInto('serverDatabase')
        .values({
          ...{ id, hostId: host.id, serverId: mapped.targetId, ...values, createdAt: tx.now },
          ...{ pendingPassword: null, state: 'ready', requestedBy: null, lastError: null },
        })
        .execute()
      const details = { databaseId: id, name, cause: 'migration' }
      const audit = { action: 'database.import', resource: 'server', resourceId: mapped.targetId, details }
      await recordFact(tx, { deps, principal }, { audit })
      return target(id, true)
    }
  },
})
