import type { Tx } from '../../../db/db.ts'
import { stepId } from './plan/content-hash.ts'
import type { PlannedStep } from './plan/draft.ts'
import type { MigrationRow } from './rows.ts'
import { insertSteps } from './rows.ts'
import { DATABASE_CONTENT } from './steps/copy-database.ts'
import { COPIED_DATABASE } from './steps/import-database.ts'

/** What is removed first: nothing goes before what hangs on it. */
const ORDER = ['schedule', 'access', 'database', 'server', 'user', 'template', 'nest', 'location'] as const

/**
 * Plans the removal of what a migration has made, and of nothing that it has found: steps of their own, one after the other, that go on
 * after a crash as others do. Answers whether there are any; once they stand there they are not planned again.
 */
export async function planRollback(tx: Tx, { id: jobId, sourceFp }: MigrationRow): Promise<boolean> {
  const before = await tx.q
    .selectFrom('migrationStep')
    .select((of) => of.fn.max('seq').as('last'))
    .select((of) => of.fn.countAll<number>().filterWhere('action', 'like', 'rollback_%').as('planned'))
    .where('jobId', '=', jobId)
    .executeTakeFirst()
  if (before === undefined || Number(before.planned) > 0) return false
  const made = await tx.q
    .selectFrom('migrationMap')
    .selectAll()
    .where('jobId', '=', jobId)
    .where('created', '=', 1)
    .orderBy('id', 'desc')
    .execute()
  const servers = new Set(made.flatMap(({ targetType, targetId }) => (targetType === 'server' ? [targetId] : [])))
  const schedules = await tx.q.selectFrom('schedule').select(['id', 'serverId']).execute()
  const databases = await tx.q.selectFrom('serverDatabase').select(['id', 'serverId']).execute()
  const serverOf = new Map([...schedules, ...databases].map(({ id, serverId }) => [id, serverId]))
  const steps: PlannedStep[] = []
  for (const type of ORDER) {
    for (const { id, sourceType, sourceId, targetType, targetId } of made) {
      if (removedAs({ sourceType, targetType }) !== type) continue
      // It goes with its server.
      if (servers.has(type === 'access' ? (targetId.split('/')[0] ?? '') : (serverOf.get(targetId) ?? ''))) continue
      const action = `rollback_${type}`
      const last = steps.at(-1)
      steps.push({
        ...{ id: stepId(sourceFp ?? '', action, sourceType, sourceId), phase: 'finish', action },
        ...{ name: `${type} ${targetId}`, sourceType: 'rollback', sourceId: `${sourceType} ${sourceId}`, targetId },
        ...{ skipped: null, needs: [], follows: last === undefined ? [] : [last.id], input: { mapId: id, targetId } },
      })
    }
  }
  await insertSteps(tx, jobId, steps, Number(before.last ?? 0))
  return steps.length > 0
}

/** A copied database is removed as one; what it holds is no thing of its own then. */
function removedAs({ sourceType, targetType }: { readonly sourceType: string; readonly targetType: string }) {
  if (sourceType === DATABASE_CONTENT) return undefined
  return targetType === COPIED_DATABASE ? 'database' : targetType
}
