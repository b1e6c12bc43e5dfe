import * as api from '../../../../shared/api/migration.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import { nodeUsage } from '../../fleet/nodes/rows.ts'
import type { MigrationDeps } from './deps.ts'
import * as operations from './operations.ts'
import { findJob, listJobs, listSteps } from './rows.ts'
import { accessOf } from './source-keys.ts'
import { testSource } from './test-source.ts'
import { toDetail, toJob, toStep } from './view.ts'

/** Servers that move in from another panel. */
export function migrationRoutes(deps: MigrationDeps): Route[] {
  const { db } = deps
  return [
    route(api.listTargetNodes, async () => {
      const nodes = await db.read
        .selectFrom('node')
        .innerJoin('location', 'location.id', 'node.locationId')
        .select([
          'node.id',
          'node.name',
          'node.hostname',
          'node.lastSeenAt',
          'node.maxMemoryMb',
          'location.name as locationName',
        ])
        .orderBy('node.name')
        .orderBy('node.id')
        .limit(1000)
        .execute()
      const usage = await nodeUsage(
        db.read,
        nodes.map(({ id }) => id),
      )
      return nodes.map((node) => {
        const { memoryMb: usedMemoryMb, total: serverCount } = usage(node.id)
        return { ...node, isOnline: deps.isOnline(node.id), usedMemoryMb, serverCount }
      })
    }),
    route(api.testMigration, async ({ body }, { signal }) => {
      const { access } = accessOf(body)
      return testSource(deps, { access, signal })
    }),
    operate(operations.startMigration, deps),
    route(api.listMigrations, async ({ query }) => {
      const { rows, total } = await listJobs(db.read, query)
      return { items: await Promise.all(rows.map((row) => toJob(db.read, row))), total }
    }),
    route(api.getMigration, async ({ params: { jobId } }, { fail }) => {
      const row = (await findJob(db.read, jobId)) ?? fail('MIGRATION_NOT_FOUND', operations.GONE)
      return toDetail(db.read, row)
    }),
    route(api.listMigrationSteps, async ({ params: { jobId }, query }, { fail }) => {
      if ((await findJob(db.read, jobId)) === undefined) fail('MIGRATION_NOT_FOUND', operations.GONE)
      const { rows, total } = await listSteps(db.read, { jobId, ...query })
      return { items: rows.map(toStep), total }
    }),
    operate(operations.pauseMigration, deps),
    operate(operations.resumeMigration, deps),
    operate(operations.cancelMigration, deps),
    operate(operations.retryMigrationStep, deps),
  ]
}
