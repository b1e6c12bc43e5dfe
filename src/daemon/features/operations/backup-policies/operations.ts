import * as api from '../../../../shared/api/backup-policies.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { operationsOver } from '../../../access/operation.ts'
import { type Tx, uniqueViolation } from '../../../db/db.ts'
import type { BackupDeps } from '../../servers/backups/deps.ts'
import { lookNow, nextOf, runNow } from './policy-job.ts'
import { findPolicy, type PolicyRow, serverIdsOf } from './rows.ts'
import { checkTimes } from './times.ts'
import { toPolicy } from './view.ts'

const operation = operationsOver<BackupDeps>()

export const GONE = 'There is no such backup policy'

type Fields = Input<typeof api.createBackupPolicy>['body']

export const createBackupPolicy = operation(api.createBackupPolicy, async ({ tx, deps, userId }, { body }) => {
  const id = newId('bpl', deps.clock)
  const row = { ...(await checked(tx, deps, body)), id, lastRunAt: null, createdAt: tx.now, updatedAt: tx.now }
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
    const after = await checked(tx, deps, { ...fieldsOf(before), ...given })
    const isMoved = after.cron !== before.cron || after.timeZone !== before.timeZone || after.enabled !== before.enabled
    const nextRunAt = isMoved ? nextOf(after, Date.parse(tx.now)) : before.nextRunAt
    await tx.q
      .updateTable('backupPolicy')
      .set({ ...after, nextRunAt, updatedAt: tx.now })
      .where('id', '=', policyId)
      .execute()
      .catch(refuseNamesake)
    await lookNow(tx, deps.jobs)
    const row = (await findPolicy(tx.q, policyId)) ?? missing()
    const answer = await toPolicy(tx.q, row, Date.parse(tx.now))
    if (Object.keys(given).length === 0) return { answer }
    return {
      answer,
      audit: { resourceId: policyId, details: { name: before.name, ...given } },
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
  async ({ tx, deps, fail }, { params: { policyId } }) => {
    const policy = (await findPolicy(tx.q, policyId)) ?? fail('BACKUP_POLICY_NOT_FOUND', GONE)
    const servers = await runNow(tx, deps.jobs, policy)
    return { answer: { servers }, audit: { resourceId: policyId, details: { name: policy.name, servers } } }
  },
)

/** The columns of what was asked for; throws where something that it names is not there. */
async function checked(
  tx: Tx,
  deps: BackupDeps,
  body: Fields,
): Promise<Omit<PolicyRow, 'id' | 'lastRunAt' | 'nextRunAt' | 'createdAt' | 'updatedAt'>> {
  const { target, locationId, nodeId, serverIds, storeId, enabled, databases, ignored, ...plain } = body
  checkTimes(body.cron, body.timeZone, Date.parse(tx.now))
  if (target === 'location') await mustBe(tx, 'location', locationId)
  if (target === 'node') await mustBe(tx, 'node', nodeId)
  if (target === 'servers') {
    if (serverIds.length === 0) throw fieldError('body.serverIds', 'must name at least one server')
    for (const id of serverIds) await mustBe(tx, 'server', id)
  }
  if (storeId !== null && (await deps.stores.find(tx.q, storeId)) === undefined) {
    throw new PanelError('BACKUP_STORE_NOT_FOUND', 'There is no such backup store')
  }
  return {
    ...plain,
    target,
    storeId,
    targetId: target === 'location' ? locationId : target === 'node' ? nodeId : null,
    serverIds: JSON.stringify(target === 'servers' ? serverIds : []),
    enabled: enabled ? 1 : 0,
    databases: databases ? 1 : 0,
    ignored: JSON.stringify(ignored),
  }
}

const MISSING = { location: 'LOCATION_NOT_FOUND', node: 'NODE_NOT_FOUND', server: 'SERVER_NOT_FOUND' } as const

async function mustBe(tx: Tx, kind: 'location' | 'node' | 'server', id: string | null): Promise<void> {
  if (id === null) throw fieldError(`body.${kind}Id`, `must name the ${kind} of the policy`)
  const found = await tx.q.selectFrom(kind).select('id').where('id', '=', id).executeTakeFirst()
  if (found === undefined) throw new PanelError(MISSING[kind], `There is no ${kind} ${id}`)
}

/** A policy as it would be asked for. */
function fieldsOf(row: PolicyRow): Fields {
  const { id: _, lastRunAt, nextRunAt, createdAt, updatedAt, targetId, ...fields } = row
  return {
    ...fields,
    ...(fields as unknown as Pick<Fields, 'storeId'>), // ids that were checked when they were written
    locationId: (row.target === 'location' ? targetId : null) as Fields['locationId'],
    nodeId: (row.target === 'node' ? targetId : null) as Fields['nodeId'],
    serverIds: serverIdsOf(row) as Fields['serverIds'],
    enabled: row.enabled === 1,
    databases: row.databases === 1,
    ignored: JSON.parse(row.ignored) as string[], // written by this module from a list of texts
  }
}

function refuseNamesake(error: unknown): never {
  if (uniqueViolation(error) === undefined) throw error
  throw new PanelError('CONFLICT', 'There is a backup policy of this name already; choose another name')
}

function missing(): never {
  throw new Error('a policy is gone within the transaction that wrote it')
}
