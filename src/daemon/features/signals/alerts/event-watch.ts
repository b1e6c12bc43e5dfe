import type { Bus, BusEvent } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import { openAbout } from './alert-rows.ts'
import { type Finding, type RaiseDeps, raise, resolveOpen, type Subject } from './raise.ts'
import { ruleHolds } from './rule-holds.ts'
import { enabledRules, type RuleRow } from './rule-rows.ts'

/**
 * Notices from now on what events report: crashes and failed backups. Alerts are written in the transaction of the event, so
 * that none is lost or doubled when the daemon dies.
 */
export function watchEvents(bus: Bus, deps: RaiseDeps): void {
  bus.enlist(async (tx, event) => {
    const { type, serverId, data } = event
    if (type === 'server_state_update' && serverId !== null) await onState(tx, deps, serverId, data)
    if (type === 'backup_complete' && serverId !== null) await onBackup(tx, deps, serverId, data)
    if (type === 'server_deleted' && serverId !== null) await forget(tx, deps, serverId)
    if (type === 'node_deleted') await forget(tx, deps, String(data['nodeId']))
    if (type === 'user_deleted') await forgetUnowned(tx)
  })
}

type Data = BusEvent['data']

/** States in which the last crash is a thing of the past. */
const OVER: ReadonlySet<unknown> = new Set(['running', 'stopped', 'installing', 'suspended', 'archived'])

async function onState(tx: Tx, deps: RaiseDeps, serverId: string, data: Data): Promise<void> {
  const count = Number(data['crashCount'])
  const known = await tx.q
    .selectFrom('alertCrashCount')
    .select('crashCount')
    .where('serverId', '=', serverId)
    .executeTakeFirst()
  const before = known?.crashCount ?? 0
  if (count !== before) await keepCount(tx, serverId, count)
  // One that was started again at once is reported as running: the count shows it, not the state.
  if (count > before) {
    await raiseAll(tx, deps, 'server_crashed', crashFinding(await serverSubject(tx, serverId), data))
  }
  if (!OVER.has(data['state'])) return
  for (const { id } of await openAbout(tx.q, serverId, 'server_crashed')) await resolveOpen(tx, deps, id, null)
}

async function onBackup(tx: Tx, deps: RaiseDeps, serverId: string, data: Data): Promise<void> {
  if (data['status'] !== 'failed') {
    for (const { id } of await openAbout(tx.q, serverId, 'backup_failed')) await resolveOpen(tx, deps, id, null)
    return
  }
  if (data['cancelled'] === true) return
  const subject = await serverSubject(tx, serverId)
  const { backupId, backupName, error } = data
  const reason = typeof error === 'string' ? `: ${error}` : ''
  await raiseAll(tx, deps, 'backup_failed', {
    subject,
    metric: '',
    severity: 'warning',
    title: `A backup of ${subject.name} has failed`,
    message: `The backup ${String(backupName)} of the server ${subject.name} has failed${reason}`,
    metadata: { backupId, backupName, error: error ?? null },
  })
}

/** What a crash is reported as; `data` has the fields of the state event. */
export function crashFinding(subject: Subject, data: Data): Finding {
  const { reason, exitCode, exitSignal, crashCount } = data
  const how = exitSignal ? ` by ${String(exitSignal)}` : exitCode === null ? '' : ` with exit code ${String(exitCode)}`
  const why = typeof reason === 'string' && reason !== '' ? ` ${reason}` : ''
  return {
    subject,
    metric: '',
    severity: 'critical',
    title: `The server ${subject.name} has crashed`,
    message: `The server ${subject.name} has ended${how}; crash ${String(crashCount)} in a row.${why}`,
    metadata: { reason, exitCode, exitSignal, crashCount },
  }
}

/**
 * Nothing is raised about a server whose node is in maintenance. A server that is still crashed when that ends is noticed by
 * the evaluator; a backup that failed meanwhile is not.
 */
async function raiseAll(tx: Tx, deps: RaiseDeps, type: RuleRow['type'], finding: Finding): Promise<void> {
  if (await isInMaintenance(tx, finding.subject.id)) return
  for (const rule of await enabledRules(tx.q, [type])) {
    if (rule.target !== 'global' && rule.targetId !== finding.subject.id) continue
    if (await ruleHolds(tx, rule)) await raise(tx, deps, rule, finding)
  }
}

async function isInMaintenance(tx: Tx, serverId: string): Promise<boolean> {
  const found = await tx.q
    .selectFrom('server')
    .innerJoin('node', 'node.id', 'server.nodeId')
    .select('node.maintenance')
    .where('server.id', '=', serverId)
    .executeTakeFirst()
  return found?.maintenance === 1
}

async function serverSubject(tx: Tx, id: string): Promise<Subject> {
  const row = await tx.q.selectFrom('server').select('name').where('id', '=', id).executeTakeFirst()
  return { kind: 'server', id, name: row?.name ?? id }
}

async function keepCount(tx: Tx, serverId: string, crashCount: number): Promise<void> {
  await tx.q
    .insertInto('alertCrashCount')
    .values({ serverId, crashCount })
    .onConflict((conflict) => conflict.column('serverId').doUpdateSet({ crashCount }))
    .execute()
}

/** Something was deleted: nothing about it is open any more, and its rules have nothing to look at. */
async function forget(tx: Tx, deps: RaiseDeps, subjectId: string): Promise<void> {
  for (const { id } of await openAbout(tx.q, subjectId)) await resolveOpen(tx, deps, id, null)
  await tx.q.deleteFrom('alertRule').where('targetId', '=', subjectId).execute()
}

/** Rules for servers go with the account of whoever made them; those of administrators stay. */
async function forgetUnowned(tx: Tx): Promise<void> {
  await tx.q.deleteFrom('alertRule').where('userId', 'is', null).where('target', '=', 'server').execute()
}
