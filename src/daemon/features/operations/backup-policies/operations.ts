import { sql } from 'kysely'
import * as api from '../../../../shared/api/backup-policies.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import { operationsOver } from '../../../access/operation.ts'
import { nextTime } from '../../../core/cron.ts'
import { type Tx, uniqueViolation } from '../../../db/db.ts'
import type { BackupDeps } from '../../servers/backups/deps.ts'
import { lookNow } from './policy-job.ts'
import { findPolicy, ignoredOf, type PolicyRow, serverIdsOf } from './rows.ts'
import { findRun, openRun } from './run-rows.ts'
import { cancelRun, startRun } from './runs.ts'
import { checkTimes } from './times.ts'
import { toPolicy, toRuns } from './view.ts'

const operation = operationsOver<BackupDeps>()

export const GONE = 'There is no such backup policy'
export const NO_RUN = 'There is no such run of this backup policy; the last 30 are kept'

/** All that can be said of a policy. */
type Fields = Input<typeof api.createBackupPolicy>['body'] & { readonly timeZone: string }

export const createBackupPolicy = operation(api.createBackupPolicy, async ({ tx, deps, userId }, { body }) => {
  const id = newId('bpl', deps.clock)
  const timeZone = body.timeZone ?? deps.settings.get('panel.timezone')
  const row = {
    ...(await checked(tx, deps, { ...body, timeZone })),
    id,
    lastRunAt: null,
    createdAt: tx.now,
    updatedAt: tx.now,
  }
  const nextRunAt = nextOf(row, Date.parse(tx.now))
  await tx.q
    .insertInto('backupPolicy')
    .values({ ...row, nextRunAt })
    .execute()
    .catch(refuseNamesake)
  await lookNow(tx, deps.jobs)
  const made = (await findPolicy(tx.q, id)) ?? missing()
  return {
    answer: await toPolicy(tx.q, made, Date.parse(tx.now)),
    audit: { resourceId: id, details: { ...body } },
    events: [{ type: 'backup_policy_created', data: { policyId: id, policyName: body.name, createdBy: userId } }],
  }
})

export const updateBackupPolicy = operation(
  api.updateBackupPolicy,
  async ({ tx, deps, userId, fail }, { params: { policyId }, body }) => {
    const before = (await findPolicy(tx.q, policyId)) ?? fail('BACKUP_POLICY_NOT_FOUND', GONE)
    const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined))
    const after = await checked(tx, deps, { ...fieldsOf(before), ...given }, new Set(Object.keys(given)))
    const isMoved = after.cron !== before.cron || after.timeZone !== before.timeZone || after.enabled !== before.enabled
    const nextRunAt = isMoved ? nextOf(after, Date.parse(tx.now)) : before.nextRunAt
    const now = { ...before, ...after, nextRunAt }
    const details = changes(fieldsOf(before), fieldsOf(now))
    if (details === undefined) return { answer: await toPolicy(tx.q, before, Date.parse(tx.now)) }
    await tx.q
      .updateTable('backupPolicy')
      .set({ ...after, nextRunAt, updatedAt: tx.now })
      .where('id', '=', policyId)
      .execute()
      .catch(refuseNamesake)
    await lookNow(tx, deps.jobs)
    const row = (await findPolicy(tx.q, policyId)) ?? missing()
    return {
      answer: await toPolicy(tx.q, row, Date.parse(tx.now)),
      audit: { resourceId: policyId, details },
      events: [{ type: 'backup_policy_updated', data: { policyId, policyName: row.name, updatedBy: userId } }],
    }
  },
)

export const deleteBackupPolicy = operation(
  api.deleteBackupPolicy,
  async ({ tx, userId, fail }, { params: { policyId } }) => {
    const { name } = (await findPolicy(tx.q, policyId)) ?? fail('BACKUP_POLICY_NOT_FOUND', GONE)
    await tx.q.deleteFrom('backupPolicy').where('id', '=', policyId).execute()
    return {
      answer: null,
      audit: { resourceId: policyId, details: { name } },
      events: [{ type: 'backup_policy_deleted', data: { policyId, policyName: name, deletedBy: userId } }],
    }
  },
)

export const runBackupPolicy = operation(
  api.runBackupPolicy,
  async ({ tx, deps, userId, fail }, { params: { policyId } }) => {
    const policy = (await findPolicy(tx.q, policyId)) ?? fail('BACKUP_POLICY_NOT_FOUND', GONE)
    const run = await startRun(tx, deps, policy, { cause: 'manual', dueAt: tx.now, startedBy: userId })
    await lookNow(tx, deps.jobs)
    const [answer = missing()] = await toRuns(tx.q, [run])
    const details = { name: policy.name, runId: run.id, servers: answer.counts.servers, cause: 'manual' }
    return { answer, audit: { resourceId: policyId, details } }
  },
)

export const cancelBackupPolicy = operation(
  api.cancelBackupPolicy,
  async ({ tx, deps, fail }, { params: { policyId } }) => {
    const policy = (await findPolicy(tx.q, policyId)) ?? fail('BACKUP_POLICY_NOT_FOUND', GONE)
    const run = (await openRun(tx.q, policyId)) ?? fail('CONFLICT', `No run of ${policy.name} is under way`)
    await cancelRun(tx, deps, policy, run)
    const after = (await findRun(tx.q, policyId, run.id)) ?? missing()
    const [answer = missing()] = await toRuns(tx.q, [after])
    return { answer, audit: { resourceId: policyId, details: { name: policy.name, runId: run.id } } }
  },
)

/**
 * The columns of what was asked for. Throws where something that it names is not there, of an edit where it is named anew: a server
 * that was deleted since holds up no other change.
 */
async function checked(
  tx: Tx,
  deps: Pick<BackupDeps, 'stores'>,
  body: Fields,
  given: ReadonlySet<string> = new Set(Object.keys(body)),
): Promise<Omit<PolicyRow, 'id' | 'lastRunAt' | 'nextRunAt' | 'createdAt' | 'updatedAt'>> {
  const { target, locationId, nodeId, serverIds, storeId, enabled, databases, ignored, ...plain } = body
  checkTimes(body, Date.parse(tx.now))
  const isNew = (...names: readonly string[]): boolean => names.some((name) => given.has(name))
  if (target === 'location' && isNew('target', 'locationId')) await mustBe(tx, 'location', locationId)
  if (target === 'node' && isNew('target', 'nodeId')) await mustBe(tx, 'node', nodeId)
  if (target === 'servers' && isNew('target', 'serverIds')) await mustBeServers(tx, serverIds)
  if (storeId !== null && isNew('storeId') && (await deps.stores.find(tx.q, storeId)) === undefined) {
    throw new PanelError('BACKUP_STORE_NOT_FOUND', 'There is no such backup store')
  }
  return {
    ...plain,
    target,
    storeId,
    targetId: target === 'location' ? locationId : target === 'node' ? nodeId : null,
    serverIds: JSON.stringify(target === 'servers' ? [...new Set(serverIds)] : []),
    enabled: enabled ? 1 : 0,
    databases: databases ? 1 : 0,
    ignored: JSON.stringify(ignored),
  }
}

const MISSING = { location: 'LOCATION_NOT_FOUND', node: 'NODE_NOT_FOUND' } as const

async function mustBe(tx: Tx, kind: 'location' | 'node', id: string | null): Promise<void> {
  if (id === null) throw fieldError(`body.${kind}Id`, `must name the ${kind} of the policy`)
  const found = await tx.q.selectFrom(kind).select('id').where('id', '=', id).executeTakeFirst()
  if (found === undefined) throw new PanelError(MISSING[kind], `There is no ${kind} ${id}`)
}

async function mustBeServers(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) throw fieldError('body.serverIds', 'must name at least one server')
  const rows = await tx.q
    .selectFrom('server')
    .select('id')
    .where(sql<boolean>`id in (select value from json_each(${JSON.stringify(ids)}))`)
    .execute()
  const known = new Set(rows.map(({ id }) => id))
  const unknown = ids.find((id) => !known.has(id))
  if (unknown !== undefined) throw new PanelError('SERVER_NOT_FOUND', `There is no server ${unknown}`)
}

/** A policy as it would be asked for. */
function fieldsOf(row: PolicyRow): Fields {
  const { id: _, storeId, lastRunAt, nextRunAt, createdAt, updatedAt, targetId, ...fields } = row
  return {
    ...fields,
    // Ids that were checked when they were written.
    storeId: storeId as Fields['storeId'],
    locationId: (row.target === 'location' ? targetId : null) as Fields['locationId'],
    nodeId: (row.target === 'node' ? targetId : null) as Fields['nodeId'],
    serverIds: serverIdsOf(row) as Fields['serverIds'],
    enabled: row.enabled === 1,
    databases: row.databases === 1,
    ignored: ignoredOf(row),
  }
}

/** The next time of a policy that is not paused. */
function nextOf(row: Pick<PolicyRow, 'enabled' | 'cron' | 'timeZone'>, nowMs: number): IsoTime | null {
  return row.enabled === 1 ? nextTime(row, nowMs) : null
}

function refuseNamesake(error: unknown): never {
  if (uniqueViolation(error) === undefined) throw error
  throw new PanelError('CONFLICT', 'There is a backup policy of this name already; choose another name')
}

function missing(): never {
  throw new Error('a policy is gone within the transaction that wrote it')
}
