import * as api from '../../../../shared/api/migration.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { operationsOver, type WorkOver } from '../../../access/operation.ts'
import { type Tx, uniqueViolation } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { administratorRoles } from '../../accounts/users/administrator-roles.ts'
import { ensureMaySetRoles, ensureRoles } from '../../accounts/users/new-user.ts'
import { changeJob, changeStep } from './change.ts'
import type { MigrationDeps, SourceAccess } from './deps.ts'
import { dispatch } from './dispatch.ts'
import { isAlready } from './job-states.ts'
import { MigrationConfig } from './migration-config.ts'
import { MAKE_PLAN } from './plan-job.ts'
import { findJob, findOpenJob, findStep, type MigrationRow } from './rows.ts'
import { accessOf, openAccess, sealAccess } from './source-keys.ts'
import { NEED_LOST } from './step-states.ts'
import { toJob, toStep } from './view.ts'

const operation = operationsOver<MigrationDeps>()

export const GONE = 'There is no such migration'

export const startMigration = operation(api.startMigration, async (work, { body }) => {
  const { tx, deps, userId, fail } = work
  const id = newId('mig', deps.clock)
  const before = body.verifyOf === undefined ? undefined : await findJob(tx.q, body.verifyOf)
  if (body.verifyOf !== undefined && before === undefined) fail('MIGRATION_NOT_FOUND', GONE)
  const { access, sourceUrl } = accessOf(body)
  const { dryRun, planHash, allowDrift, verifyOf } = body
  const isNamed = Object.keys(body.nodeMappings).length + Object.keys(body.serverMappings).length > 0
  // What is compared is what was brought, unless somebody wants less of it.
  const asked = before === undefined || isNamed ? body : parseJson(MigrationConfig, before.config)
  const { scope, serverMappings, phases, options } = asked
  const nodeMappings = access.kind === 'directory' ? ofDirectory(access, asked) : asked.nodeMappings
  const needed = scope === 'server' ? serverMappings : { ...nodeMappings, ...serverMappings }
  if (Object.keys(needed).length === 0) {
    throw fieldError(scope === 'server' ? 'body.serverMappings' : 'body.nodeMappings', 'must name at least one')
  }
  await refuseNodes(tx, deps, Object.values(needed))
  // Whoever may give these roles by hand may have a source name who gets them.
  if (options.grantAdmin) {
    const roles = await administratorRoles(tx)
    ensureMaySetRoles(work.holder, roles)
    await ensureRoles(tx, work.holder, roles)
  }
  // Sealing comes before the first row: without a key nothing is begun.
  const keys = sealAccess(deps.vault, id, access)
  await refuseOther(tx, { allowPaused: body.allowPaused })
  const config: MigrationConfig = {
    ...{ scope, nodeMappings, serverMappings, dryRun, phases, options, allowDrift },
    verifyOf: verifyOf ?? null,
    planHash: planHash ?? null,
  }
  const none = {
    requested: null,
    outcome: null,
    sourceKind: null,
    sourceVersion: null,
    sourceFp: null,
    keysUntil: null,
  }
  const empty = { plan: null, planHash: null, report: null, currentPhase: null, error: null, errorCode: null }
  const times = { createdAt: tx.now, updatedAt: tx.now, startedAt: null, completedAt: null }
  await tx.q
    .insertInto('migrationJob')
    .values({
      ...{ id, status: 'pending', sourceUrl, config: JSON.stringify(config), keys, createdBy: userId },
      ...{ ...none, ...empty, ...times },
    })
    .execute()
    .catch(async (error: unknown) => {
      if (uniqueViolation(error) === undefined) throw error
      await refuseOther(tx, { allowPaused: true })
    })
  await makePlan(work, { id, sourceUrl })
  const details = { sourceUrl, scope, nodeMappings, serverMappings, dryRun, phases }
  return {
    answer: { jobId: id },
    audit: { resourceId: id, details },
    events: [{ type: 'migration_started', data: { jobId: id, sourceUrl, startedBy: userId } }],
  }
})

export const pauseMigration = operation(api.pauseMigration, async ({ tx, deps, fail }, { params: { jobId } }) => {
  const row = (await findJob(tx.q, jobId)) ?? fail('MIGRATION_NOT_FOUND', GONE)
  if (isAlready(row, 'pause')) return { answer: await toJob(tx.q, row) }
  const changed = await changeJob(tx, deps, { jobId, event: 'pause' })
  if (changed === undefined)
    return fail('MIGRATION_INVALID_STATE', `It is ${row.status}`, { currentStatus: row.status })
  tx.onCommit(() => deps.running.interrupt(jobId))
  await dispatch(tx, deps, jobId)
  return { answer: await toJob(tx.q, await fresh(tx, jobId)), audit: { resourceId: jobId } }
})

export const resumeMigration = operation(api.resumeMigration, async (work, { params: { jobId }, body }) => {
  const { tx, deps, fail } = work
  const row = (await findJob(tx.q, jobId)) ?? fail('MIGRATION_NOT_FOUND', GONE)
  if (row.status !== 'paused' && row.status !== 'failed') {
    fail('VALIDATION_ERROR', `Only a migration that is paused or has failed goes on; this one is ${row.status}`, {
      currentStatus: row.status,
    })
  }
  const { nodeMappings, serverMappings } = parseJson(MigrationConfig, row.config)
  await refuseNodes(tx, deps, [...Object.values(nodeMappings), ...Object.values(serverMappings)])
  await refuseOther(tx, { allowPaused: false, exceptId: jobId })
  const keys = renewed(deps, row, body)
  if (keys === null) fail('VALIDATION_ERROR', 'The keys of the source are no longer kept: give them again to go on')
  const changed = await changeJob(tx, deps, { jobId, event: 'resume', set: { keys } })
  if (changed === undefined) return fail('VALIDATION_ERROR', `It is ${row.status}`, { currentStatus: row.status })
  if (row.status === 'failed' || body.retryFailed) await retryFailed(tx, deps, jobId)
  if (changed.status === 'pending') await makePlan(work, changed)
  else await dispatch(tx, deps, jobId)
  return { answer: await toJob(tx.q, await fresh(tx, jobId)), audit: { resourceId: jobId } }
})

export const cancelMigration = operation(
  api.cancelMigration,
  async ({ tx, deps, fail }, { params: { jobId }, body }) => {
    const row = (await findJob(tx.q, jobId)) ?? fail('MIGRATION_NOT_FOUND', GONE)
    if (isAlready(row, 'cancel')) return { answer: await toJob(tx.q, row) }
    const set = { rollback: body.rollback ? 1 : 0 } as const
    const changed = await changeJob(tx, deps, { jobId, event: 'cancel', set })
    if (changed === undefined)
      return fail('MIGRATION_INVALID_STATE', `It is ${row.status}`, { currentStatus: row.status })
    tx.onCommit(() => deps.running.interrupt(jobId))
    await dispatch(tx, deps, jobId)
    const audit = { resourceId: jobId, details: { rollback: body.rollback } }
    return { answer: await toJob(tx.q, await fresh(tx, jobId)), audit }
  },
)

export const retryMigrationStep = operation(
  api.retryMigrationStep,
  async ({ tx, deps, fail }, { params: { jobId, stepId } }) => {
    const row = (await findJob(tx.q, jobId)) ?? fail('MIGRATION_NOT_FOUND', GONE)
    const step = (await findStep(tx.q, jobId, stepId)) ?? fail('MIGRATION_STEP_NOT_FOUND', 'It has no such step')
    if (step.status !== 'failed' || step.retryable === 0) {
      fail(
        'MIGRATION_STEP_NOT_RETRYABLE',
        'Only a step that has failed, and that another attempt may help, is tried again',
      )
    }
    if (row.keys === null)
      fail('MIGRATION_STEP_NOT_RETRYABLE', 'The keys of the source are no longer kept: start it again')
    openAccess(deps.vault, row)
    await refuseOther(tx, { allowPaused: false, exceptId: jobId })
    const changed = await changeJob(tx, deps, { jobId, event: 'retry_step' })
    if (changed === undefined) {
      fail(
        'MIGRATION_STEP_NOT_RETRYABLE',
        `A step is tried again of a migration that does not run; it is ${row.status}`,
      )
    }
    await retryWithDependants(tx, deps, { jobId, stepId })
    await dispatch(tx, deps, jobId)
    const after = (await findStep(tx.q, jobId, stepId)) ?? fail('MIGRATION_STEP_NOT_FOUND', 'It has no such step')
    return { answer: toStep(after), audit: { resourceId: jobId, details: { stepId, action: step.action } } }
  },
)

/** Folders are copied by the node that they lie on, to itself. */
function ofDirectory(
  { nodeId }: Extract<SourceAccess, { kind: 'directory' }>,
  { nodeMappings, serverMappings, scope }: Pick<MigrationConfig, 'nodeMappings' | 'serverMappings' | 'scope'>,
): Readonly<Record<string, string>> {
  const elsewhere = (map: Readonly<Record<string, string>>): boolean => Object.values(map).some((id) => id !== nodeId)
  const why = 'must be the node on which the folder lies, which copies it'
  if (elsewhere(nodeMappings)) throw fieldError('body.nodeMappings', why)
  if (elsewhere(serverMappings)) throw fieldError('body.serverMappings', why)
  return scope === 'server' ? nodeMappings : { [nodeId]: nodeId }
}

/** Offline nodes come first: who names one of each hears of that one. */
async function refuseNodes(tx: Tx, deps: Pick<MigrationDeps, 'isOnline'>, ids: readonly string[]): Promise<void> {
  const wanted = [...new Set(ids)]
  const nodes = await tx.q.selectFrom('node').select(['id', 'name']).where('id', 'in', wanted).execute()
  const offlineNodes = nodes.filter(({ id }) => !deps.isOnline(id))
  if (offlineNodes.length > 0) {
    const names = offlineNodes.map(({ name }) => name).join(', ')
    throw new PanelError('MIGRATION_TARGET_NODES_OFFLINE', `These nodes are offline: ${names}`, {
      meta: { offlineNodes },
    })
  }
  const known = new Set(nodes.map(({ id }) => id))
  const missing = wanted.filter((id) => !known.has(id))
  if (missing.length === 0) return
  throw new PanelError('MIGRATION_TARGET_NODES_NOT_FOUND', `There are no such nodes: ${missing.join(', ')}`, {
    meta: { missing },
  })
}

async function refuseOther(tx: Tx, of: { readonly allowPaused: boolean; readonly exceptId?: string }): Promise<void> {
  const other = await findOpenJob(tx.q, of)
  if (other === undefined) return
  const word = other.status === 'paused' ? 'is paused' : 'is under way'
  throw new PanelError('MIGRATION_IN_PROGRESS', `The migration ${other.id} ${word}`, { meta: { jobId: other.id } })
}

async function makePlan(
  { tx, deps, caller }: Pick<WorkOver<MigrationDeps>, 'tx' | 'deps' | 'caller'>,
  { id: jobId, sourceUrl }: Pick<MigrationRow, 'id' | 'sourceUrl'>,
): Promise<void> {
  const job = { input: { jobId, sourceUrl }, cause: `migration ${jobId}`, onBehalfOf: caller }
  await deps.jobs.queue.add(tx, MAKE_PLAN, { ...job, key: `${MAKE_PLAN.kind} ${jobId}` })
}

/** The keys that it goes on with: new ones, or those that are kept. */
function renewed(
  { vault }: MigrationDeps,
  row: MigrationRow,
  { key, clientApiKey }: { key?: string | undefined; clientApiKey?: string | undefined },
): string | null {
  if (key === undefined && clientApiKey === undefined) return row.keys
  const before = row.keys === null ? undefined : openAccess(vault, row)
  if (before?.kind === 'directory') throw fieldError('body.key', 'means nothing to a directory')
  const known = key ?? before?.key
  if (known === undefined) throw fieldError('body.key', 'is required')
  return sealAccess(vault, row.id, {
    kind: 'panel',
    url: row.sourceUrl,
    key: known,
    clientApiKey: clientApiKey ?? before?.clientApiKey ?? null,
    insecure: before?.insecure ?? false,
  })
}

async function retryFailed(tx: Tx, deps: MigrationDeps, jobId: string): Promise<void> {
  const failed = await tx.q
    .selectFrom('migrationStep')
    .select('id')
    .where('jobId', '=', jobId)
    .where('status', '=', 'failed')
    .where('retryable', '=', 1)
    .orderBy('seq')
    .execute()
  for (const { id: stepId } of failed) await retryWithDependants(tx, deps, { jobId, stepId })
}

/** Those that were skipped for its sake wait for it again, and those that were for theirs. */
async function retryWithDependants(
  tx: Tx,
  deps: MigrationDeps,
  { jobId, stepId }: { readonly jobId: string; readonly stepId: string },
): Promise<void> {
  const step = await findStep(tx.q, jobId, stepId)
  if (step?.status !== 'pending' && (await changeStep(tx, deps, { jobId, stepId, event: 'retry' })) === undefined)
    return
  const dependants = await tx.q
    .selectFrom('migrationStep')
    .select('id')
    .where('jobId', '=', jobId)
    .where('status', '=', 'skipped')
    .where('reason', '=', `${NEED_LOST}${stepId}`)
    .execute()
  for (const { id } of dependants) await retryWithDependants(tx, deps, { jobId, stepId: id })
  // What puts the source back, and what adds up, follows anew.
  const followers = await tx.q
    .selectFrom('migrationStepNeed')
    .select('stepId')
    .where('jobId', '=', jobId)
    .where('needsId', '=', stepId)
    .where('metBy', '=', 'end')
    .execute()
  for (const { stepId: id } of followers) {
    if ((await changeStep(tx, deps, { jobId, stepId: id, event: 'repeat' })) === undefined) continue
    await retryWithDependants(tx, deps, { jobId, stepId: id })
  }
}

async function fresh(tx: Tx, jobId: string): Promise<MigrationRow> {
  const row = await findJob(tx.q, jobId)
  if (row === undefined) throw new Error(`migration ${jobId} is gone within the transaction that changed it`)
  return row
}
