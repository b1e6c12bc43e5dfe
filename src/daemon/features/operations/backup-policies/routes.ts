import * as api from '../../../../shared/api/backup-policies.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import type { BackupDeps } from '../../servers/backups/deps.ts'
import * as operations from './operations.ts'
import { findPolicy, listPolicies, standings } from './rows.ts'
import { findRun, listResults, listRuns, openRun } from './run-rows.ts'
import { toPolicy, toPolicyServers, toResult, toRuns } from './view.ts'

/** Backups that the host makes of many servers. */
export function backupPolicyRoutes(deps: BackupDeps): Route[] {
  const { db, clock, gateway: nodes } = deps
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
    operate(operations.cancelBackupPolicy, deps),
    route(api.listPolicyServers, async ({ params, query: { page, limit, state } }, { fail }) => {
      const policy = (await findPolicy(db.read, params.policyId)) ?? fail('BACKUP_POLICY_NOT_FOUND', operations.GONE)
      const run = await openRun(db.read, policy.id)
      const found = await standings(db.read, policy, run?.id)
      const all = toPolicyServers(found, { policy, run, nodes, nowMs: clock.nowMs() })
      const items = state === undefined ? all : all.filter((one) => one.state === state)
      return { items: items.slice((page - 1) * limit, page * limit), total: items.length }
    }),
    route(api.listPolicyRuns, async ({ params: { policyId }, query }, { fail }) => {
      if ((await findPolicy(db.read, policyId)) === undefined) fail('BACKUP_POLICY_NOT_FOUND', operations.GONE)
      const { rows, total } = await listRuns(db.read, { policyId, ...query })
      return { items: await toRuns(db.read, rows), total }
    }),
    route(api.getPolicyRun, async ({ params: { policyId, runId } }, { fail }) => {
      if ((await findPolicy(db.read, policyId)) === undefined) fail('BACKUP_POLICY_NOT_FOUND', operations.GONE)
      const run = await findRun(db.read, policyId, runId)
      const [answer] = run === undefined ? [] : await toRuns(db.read, [run])
      return answer ?? fail('BACKUP_POLICY_RUN_NOT_FOUND', operations.NO_RUN)
    }),
    route(api.listPolicyResults, async ({ params: { policyId, runId }, query }, { fail }) => {
      const policy = (await findPolicy(db.read, policyId)) ?? fail('BACKUP_POLICY_NOT_FOUND', operations.GONE)
      const run = (await findRun(db.read, policyId, runId)) ?? fail('BACKUP_POLICY_RUN_NOT_FOUND', operations.NO_RUN)
      const { rows, total } = await listResults(db.read, { runId: run.id, ...query })
      return { items: rows.map((row) => toResult(row, { policy, run, nodes })), total }
    }),
  ]
}
