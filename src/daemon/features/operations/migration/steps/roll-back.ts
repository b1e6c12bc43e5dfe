import { z } from 'zod'
import { PanelError } from '../../../../../shared/kernel/errors.ts'
import { recordFact } from '../../../../access/operation.ts'
import type { Tx } from '../../../../db/db.ts'
import { deleteUser } from '../../../accounts/users/deletion-operations.ts'
import { deleteNest } from '../../../catalog/templates/nest-operations.ts'
import { deleteTemplate } from '../../../catalog/templates/operations.ts'
import { deleteLocation } from '../../../fleet/locations/operations.ts'
import { beginDrop, forgetUnmanaged } from '../../../servers/databases/change.ts'
import { findShownById } from '../../../servers/databases/database-rows.ts'
import { deleteTask } from '../../../servers/schedules/operations.ts'
import { remove } from '../../../servers/servers/remove.ts'
import { unsuspend } from '../../../servers/servers/suspend.ts'
import { call } from './call.ts'
import { DATABASE_CONTENT } from './copy-database.ts'
import { COPIED_DATABASE } from './import-database.ts'
import { panelWork } from './panel-work.ts'
import { wasStarted } from './place-files.ts'
import { type StepContext, StepDelay, StepRefusal, type StepResult, stepAction } from './step.ts'

const input = z.object({ mapId: z.string(), targetId: z.string() })

const GONE_MS = 120_000
const LOOK_MS = 100

/** Why something stays that a migration has made: somebody has it by now. */
const KEPT = new Set([
  'LOCATION_IN_USE',
  'TEMPLATE_IN_USE',
  'NEST_IN_USE',
  'USER_OWNS_SERVERS',
  'LAST_ADMIN',
  'CONFLICT',
])

/** Removes a server with its files, unless somebody has started it here. */
export const rollbackServer = stepAction({
  input,
  run: async (context, { mapId, targetId: serverId }) => {
    const { deps, principal, signal } = context
    const { db, clock } = deps
    const map = await db.read.selectFrom('migrationMap').select('createdAt').where('id', '=', mapId).executeTakeFirst()
    if (map !== undefined && (await wasStarted(context, serverId, map.createdAt))) return kept('started')
    const isThere = async (): Promise<boolean> =>
      (await db.read.selectFrom('server').select('id').where('id', '=', serverId).executeTakeFirst()) !== undefined
    let adopted: string[] = []
    if (await isThere()) {
      await db.write(async (tx) => {
        const row = await tx.q
          .selectFrom('server')
          .select(['suspendedAt', 'deletingAt'])
          .where('id', '=', serverId)
          .executeTakeFirst()
        if (row === undefined || row.deletingAt !== null) return
        adopted = await releaseRecorded(tx, serverId)
        if (row.suspendedAt !== null) await unsuspend(panelWork(tx, deps), { serverId })
        const done = await remove(panelWork(tx, deps), { serverId, force: false, keepFiles: false })
        const audit = done.audit && { ...done.audit, action: 'server.delete', resource: 'server' }
        await recordFact(tx, { deps, principal }, { audit, events: done.events ?? [] })
      })
    }
    for (const untilMs = clock.monotonicMs() + GONE_MS; await isThere(); ) {
      if (clock.monotonicMs() > untilMs) throw new StepDelay('AGENT_TIMEOUT', 'The node has not removed the server yet')
      await clock.sleep(LOOK_MS, signal)
      signal.throwIfAborted()
    }
    const warnings = adopted.map((name) => `the database ${name} was adopted here, and stays on its host`)
    return async (tx) => ({ ...(await forgotten(tx, mapId)), notes: { warnings } })
  },
})

/** A rollback drops no database that no migration has made, also none that was adopted since: answers the names of these. */
async function releaseRecorded(tx: Tx, serverId: string): Promise<string[]> {
  const recorded = tx.q
    .selectFrom('migrationMap')
    .select('targetId')
    .where('sourceType', '=', 'database')
    .where('targetType', '=', 'database')
  const released = tx.q.updateTable('serverDatabase').set({ managed: 0 }).where('serverId', '=', serverId)
  const rows = await released.where('managed', '=', 1).where('id', 'in', recorded).returning('name').execute()
  return rows.map(({ name }) => name)
}

/** Removes a copy from its host, unless its server was started with it, and forgets what was recorded, unless it was adopted. */
export const rollbackDatabase = stepAction({
  input,
  run: async (context, { mapId, targetId }) => {
    const { deps, principal } = context
    const { read } = deps.db
    const map = await read.selectFrom('migrationMap').selectAll().where('id', '=', mapId).executeTakeFirst()
    const row = await findShownById(read, targetId)
    if (map !== undefined && row !== undefined) {
      const isCopy = map.targetType === COPIED_DATABASE
      if (!isCopy && row.managed === 1) return kept('adopted')
      if (isCopy && (await wasStarted(context, row.serverId ?? '', map.createdAt))) return kept('started')
    }
    return async (tx) => {
      const found = await findShownById(tx.q, targetId)
      if (found?.managed === 0) await forgetUnmanaged(tx, deps.databases, found, principal)
      else if (found !== undefined) await beginDrop(tx, deps.databases, found, principal)
      const content = tx.q.deleteFrom('migrationMap').where('sourceType', '=', DATABASE_CONTENT)
      await content.where('targetId', '=', targetId).execute()
      return forgotten(tx, mapId)
    }
  },
})

export const rollbackAccess = stepAction({
  input,
  run: async (_context, { mapId, targetId }) => {
    const [serverId = '', userId = ''] = targetId.split('/')
    return async (tx) => {
      await tx.q.deleteFrom('serverAccess').where('serverId', '=', serverId).where('userId', '=', userId).execute()
      return forgotten(tx, mapId)
    }
  },
})

/** Removes a person who has never been here. */
export const rollbackUser = stepAction({
  input,
  run: async (context, { mapId, targetId: userId }) => {
    const user = await context.deps.db.read
      .selectFrom('user')
      .select(['passwordHash', 'lastSuccessfulLogin'])
      .where('id', '=', userId)
      .executeTakeFirst()
    if (user !== undefined && (user.passwordHash !== null || user.lastSuccessfulLogin !== null)) return kept('used')
    return removing(context, mapId, async (tx) => {
      const { deps, principal } = context
      if (user !== undefined) await call(tx, deleteUser, { deps, principal, params: { userId }, body: {} })
    })
  },
})

export const rollbackSchedule = stepAction({
  input,
  run: async (context, { mapId, targetId: taskId }) => {
    const { deps, principal } = context
    return removing(context, mapId, async (tx) => {
      const row = await tx.q.selectFrom('schedule').select('serverId').where('id', '=', taskId).executeTakeFirst()
      if (row === undefined) return
      await call(tx, deleteTask, { deps, principal, params: { serverId: row.serverId, taskId } })
    })
  },
})

export const rollbackTemplate = stepAction({
  input,
  run: async (context, { mapId, targetId: templateId }) => {
    const { deps, principal } = context
    return removing(context, mapId, (tx) => call(tx, deleteTemplate, { deps, principal, params: { templateId } }))
  },
})

export const rollbackNest = stepAction({
  input,
  run: async (context, { mapId, targetId: nestId }) => {
    const { deps, principal } = context
    const used = await deps.db.read.selectFrom('template').select('id').where('nestId', '=', nestId).executeTakeFirst()
    if (used !== undefined) return kept('in_use')
    return removing(context, mapId, (tx) => call(tx, deleteNest, { deps, principal, params: { nestId } }))
  },
})

export const rollbackLocation = stepAction({
  input,
  run: async (context, { mapId, targetId: locationId }) => {
    const { deps, principal } = context
    return removing(context, mapId, (tx) => call(tx, deleteLocation, { deps, principal, params: { locationId } }))
  },
})

/** Looks first whether it would be refused, so that a refusal is an answer and undoes nothing else. */
async function removing(
  { deps }: StepContext,
  mapId: string,
  work: (tx: Tx) => Promise<unknown>,
): Promise<(tx: Tx) => Promise<StepResult>> {
  try {
    await deps.db.write(async (tx) => {
      await work(tx)
      await tx.q.deleteFrom('migrationMap').where('id', '=', mapId).execute()
    })
    return () => Promise.resolve({ kind: 'done' })
  } catch (error) {
    if (error instanceof StepRefusal || !(error instanceof PanelError)) throw error
    if (KEPT.has(error.code)) return kept('in_use', error.message)
    if (error.code.endsWith('_NOT_FOUND')) return (tx) => forgotten(tx, mapId)
    throw error
  }
}

function kept(reason: string, text?: string): () => Promise<StepResult> {
  return () =>
    Promise.resolve({ kind: 'skipped', reason, ...(text === undefined ? {} : { notes: { warnings: [text] } }) })
}

async function forgotten(tx: Tx, mapId: string): Promise<StepResult> {
  await tx.q.deleteFrom('migrationMap').where('id', '=', mapId).execute()
  return { kind: 'done' }
}
