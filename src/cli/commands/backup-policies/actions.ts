import * as api from '../../../shared/api/backup-policies.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'
import { call, deleteAction, subjectOf, viewAction } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'

const VIEW = view<api.BackupPolicy>([
  column('NAME', (row) => row.name),
  column('OF', selectionOf),
  column('CRON', (row) => row.cron),
  column('ENABLED', (row) => row.enabled),
  column('NEXT RUN', (row) => ({ time: row.nextRunAt })),
  column('SERVERS', (row) => row.counts.servers),
  column('DUE', (row) => row.counts.due),
  column('FAILED', (row) => row.counts.failed),
  column('OVERDUE', (row) => row.counts.overdue),
  column('ID', (row) => row.id),
  wide('TIME ZONE', (row) => row.timeZone),
  wide('LAST RUN', (row) => ({ time: row.lastRunAt })),
  wide('KIND', (row) => row.kind),
  wide('COMPRESSION', (row) => row.compression),
  wide('STORE', (row) => row.storeId),
  wide('LABEL', (row) => row.label),
  wide('IGNORED', (row) => row.ignored.join(', ')),
  wide('DATABASES', (row) => row.databases),
  wide('KEEP', (row) => row.keepCount),
  wide('KEEP DAYS', (row) => row.keepDays),
  wide('PER NODE', (row) => row.perNode),
  wide('QUOTA', (row) => ({ mib: row.allocationMb })),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])

const RUNS: View<api.PolicyRun> = {
  id: (row) => row.id,
  name: (row) => row.id,
  columns: [
    column('STARTED', (row) => ({ time: row.startedAt })),
    column('CAUSE', (row) => row.cause),
    column('STATUS', (row) => ({ status: row.status })),
    column('SERVERS', (row) => row.counts.servers),
    column('WAITING', (row) => row.counts.waiting),
    column('RUNNING', (row) => row.counts.running),
    column('COMPLETED', (row) => row.counts.completed),
    column('FAILED', (row) => row.counts.failed),
    column('SKIPPED', (row) => row.counts.skipped),
    column('ID', (row) => row.id),
    wide('DUE', (row) => ({ time: row.dueAt })),
    wide('ENDED', (row) => ({ time: row.endedAt })),
    wide('STARTED BY', (row) => row.startedBy),
  ],
}

const RESULTS: View<api.PolicyResult> = {
  id: (row) => row.serverId,
  name: (row) => row.serverName,
  columns: [
    column('SERVER', (row) => row.serverName),
    column('NODE', (row) => row.nodeName),
    column('STATE', (row) => ({ status: row.state })),
    column('ENDED', (row) => ({ time: row.endedAt })),
    column('REASON', (row) => row.reason),
    column('BACKUP', (row) => row.backupId),
    wide('STARTED', (row) => ({ time: row.startedAt })),
    wide('SERVER ID', (row) => row.serverId),
  ],
}

const SERVERS: View<api.PolicyServer> = {
  id: (row) => row.serverId,
  name: (row) => row.serverName,
  columns: [
    column('SERVER', (row) => row.serverName),
    column('NODE', (row) => row.nodeName),
    column('STATE', (row) => ({ status: row.state })),
    column('DUE', (row) => ({ time: row.dueAt })),
    column('LAST SUCCESS', (row) => ({ time: row.lastSuccessAt })),
    column('REASON', (row) => row.reason),
    wide('LAST FAILURE', (row) => ({ time: row.lastFailureAt })),
    wide('LAST BACKUP', (row) => row.lastBackupId),
    wide('SERVER ID', (row) => row.serverId),
  ],
}

const SUBJECT = { ref: 'backupPolicy', param: 'policyId', word: 'policy' } as const
const LOOK_MS = 1000

export const listPolicies = listAction(api.listBackupPolicies, VIEW)
export const viewPolicy = viewAction(api.getBackupPolicy, SUBJECT, VIEW)
export const deletePolicy = deleteAction(api.deleteBackupPolicy, SUBJECT, 'backup policy')
export const listServers = listAction(api.listPolicyServers, SERVERS, async (run) => ({ params: await paramsOf(run) }))
export const listRuns = listAction(api.listPolicyRuns, RUNS, async (run) => ({ params: await paramsOf(run) }))

export const createPolicy: Action = async (run) => {
  const body = await bodyOf(run)
  if (run.args.flag('paused')) body['enabled'] = false
  await run.out.item(await call(run, api.createBackupPolicy, { params: {}, body }), VIEW)
}

export const editPolicy: Action = async (run) => {
  const params = await paramsOf(run)
  const body = await bodyOf(run)
  if (run.args.choice('store') === false) body['storeId'] = null
  if (run.args.choice('quota') === false) body['allocationMb'] = null
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel backup-policies edit --help')
  await run.out.item(await call(run, api.updateBackupPolicy, { params, body }), VIEW)
}

export const pausePolicy: Action = (run) => setEnabled(run, false)
export const resumePolicy: Action = (run) => setEnabled(run, true)

export const runPolicy: Action = async (run) => {
  const policy = await subjectOf(run, SUBJECT)
  const params = { policyId: policy.id }
  const begun = await call(run, api.runBackupPolicy, { params })
  const timeoutMs = run.args.duration('timeout')
  if (!run.args.flag('wait') && timeoutMs === undefined) {
    await run.out.item(begun, RUNS)
    if (!run.out.machine) run.notice(`what becomes of it: panel backup-policies results ${policy.name}`)
    return 0
  }
  const ended = await waitFor(run, begun, timeoutMs)
  await run.out.item(ended, RUNS)
  if (ended.status === 'completed') return 0
  const { failed, servers } = ended.counts
  throw new CliFailure('OPERATION_FAILED', `the run is ${ended.status}: ${failed} of ${servers} servers have failed`, {
    hint: `panel backup-policies results ${policy.name} ${ended.id}`,
  })
}

export const cancelPolicy: Action = async (run) => {
  const { id: policyId, name } = await subjectOf(run, SUBJECT)
  await run.prompt.confirm(`Cancel the run of ${name} and the backups that it makes?`)
  await run.out.item(await call(run, api.cancelBackupPolicy, { params: { policyId } }), RUNS)
}

export const listResults: Action = async (run) => {
  const { id: policyId, name } = await subjectOf(run, SUBJECT)
  const runId = run.args.word('run') ?? (await lastRun(run, policyId, name))
  const params = { policyId, runId }
  if (!run.out.machine) {
    const { status, startedAt } = await call(run, api.getPolicyRun, { params })
    run.notice(`run ${runId} of ${startedAt}: ${status}`)
  }
  await listAction(api.listPolicyResults, RESULTS, async () => ({ params }))(run)
}

async function lastRun(run: Run, policyId: string, name: string): Promise<string> {
  const [last] = await call(run, api.listPolicyRuns, { params: { policyId }, query: { limit: 1 } })
  if (last !== undefined) return last.id
  throw new CliFailure('NOT_FOUND', `${name} has not run yet`, { hint: `panel backup-policies run ${name}` })
}

async function waitFor(run: Run, begun: api.PolicyRun, timeoutMs = Number.POSITIVE_INFINITY): Promise<api.PolicyRun> {
  const { policyId, id: runId } = begun
  const started = run.clock.monotonicMs()
  let said = ''
  for (;;) {
    const now = await call(run, api.getPolicyRun, { params: { policyId, runId } })
    if (now.endedAt !== null) return now
    const { servers, waiting, running, failed } = now.counts
    const text = `${servers - waiting - running} of ${servers} servers done, ${running} under way, ${failed} failed`
    if (text !== said) run.notice(text)
    said = text
    const passed = run.clock.monotonicMs() - started
    if (passed >= timeoutMs) {
      const hint = `panel backup-policies results ${policyId} ${runId}`
      throw new CliFailure('TIMEOUT', `the run has not ended within ${Math.round(passed / 1000)} s: ${text}`, { hint })
    }
    await run.clock.sleep(Math.min(LOOK_MS, timeoutMs - passed), run.signal)
    run.signal.throwIfAborted()
  }
}

async function setEnabled(run: Run, enabled: boolean): Promise<void> {
  const params = await paramsOf(run)
  await run.out.item(await call(run, api.updateBackupPolicy, { params, body: { enabled } }), VIEW)
}

async function paramsOf(run: Run): Promise<{ policyId: string }> {
  return { policyId: (await subjectOf(run, SUBJECT)).id }
}

/** The options as a body; one that says which servers takes the place of what the policy says. */
async function bodyOf(run: Run): Promise<Record<string, unknown>> {
  const body = await fieldsOf(run)
  const { args } = run
  const given = [
    ...(args.flag('all') ? ['all'] : []),
    ...(args.text('location') === undefined ? [] : ['location']),
    ...(args.text('node') === undefined ? [] : ['node']),
    ...(args.list('server').length === 0 ? [] : ['servers']),
  ]
  if (given.length > 1) throw usage('--all, --location, --node and --server exclude each other')
  return given.length === 0 ? body : { ...body, target: given[0] }
}

function selectionOf({ target, locationId, nodeId, serverIds }: api.BackupPolicy): string {
  if (target === 'servers') return `${serverIds.length} servers`
  return locationId ?? nodeId ?? 'all'
}
