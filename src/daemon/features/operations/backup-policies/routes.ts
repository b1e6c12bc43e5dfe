import * as api from '../../../../shared/api/backup-policies.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import type { BackupDeps } from '../../servers/backups/deps.ts'
import * as operations from './operations.ts'
import { findPolicy, listPolicies, standings } from './rows.ts'
import { toPolicy, toPolicyServer } from './view.ts'

/** Backups that the host makes of many servers. */
export function backupPolicyRoutes(deps: BackupDeps): Route[] {
  const { db, clock } = deps
  return [
    route(api.listBackupPolicies, async ({ query }) => {
      const { rows, total } = await listPolicies(db.read, query)
      return { items: await Promise.all(rows.map((row) => toPolicy(db.read, row, clock.nowMs()))), total }
    }),
    route(api.getBackupPolicy, async ({ params }, { fail }) => {
      const row = (await findPolicy(db.read, params.policyId)) ?? fail('BACKUP_POLICY_NOT_FOUND', operations.GONE)
      return await toPolicy(db.read, row, clock.nowMs())
    }),
    operate(operations.createBackupPolicy, deps),
    operate(operations.updateBackupPolicy, deps),
    operate(operations.deleteBackupPolicy, deps),
    operate(operations.runBackupPolicy, deps),
    route(api.listPolicyServers, async ({ params, query: { page, limit, state } }, { fail }) => {
      const policy = (await findPolicy(db.read, params.policyId)) ?? fail('BACKUP_POLICY_NOT_FOUND', operations.GONE)
      const all = (await standings(db.read, policy)).map((one) => toPolicyServer(one, policy, clock.nowMs()))
      const found = state === undefined ? all : all.filter((one) => one.state === state)
      return { items: found.slice((page - 1) * limit, page * limit), total: found.length }
    }),
  ]
}
