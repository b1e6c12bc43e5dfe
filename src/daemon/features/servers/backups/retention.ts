import { PANEL, recordFact } from '../../../access/operation.ts'
import { newestFirst } from '../../../core/newest-first.ts'
import type { Tx } from '../../../db/db.ts'
import { startDelete } from './delete-job.ts'
import { type BackupDeps, NOBODY } from './deps.ts'
import { type BackupRow, findShown } from './rows.ts'
import { type ServerBackupSettings, settingsOf } from './settings.ts'

const DAY_MS = 24 * 3600_000

/** How long backups are kept; 0: without end. */
export interface KeepRule {
  readonly count: number
  readonly days: number
}

/** What keep rules look at. */
type Aged = Pick<BackupRow, 'id' | 'label' | 'policyId' | 'counts' | 'createdAt'>

/**
 * The backups that no rule keeps any more, of those that are given newest first: each policy and each label with a rule of its own counts
 * for itself. What a policy has made that is gone is kept.
 */
export function outlived(
  backups: readonly Aged[],
  {
    nowMs,
    settings,
    policies,
  }: {
    readonly nowMs: number
    readonly settings: Pick<ServerBackupSettings, 'retentionCount' | 'retentionDays' | 'labels'>
    readonly policies: ReadonlyMap<string, KeepRule>
  },
): Aged[] {
  const counted = new Map<string, number>()
  return backups.filter(({ label, policyId, counts, createdAt }) => {
    if (policyId === null && counts === 0) return false
    const ofLabel = settings.labels.find((rule) => rule.label === label)
    const group = policyId ?? (ofLabel === undefined ? '' : `label ${ofLabel.label}`)
    const rule: KeepRule | undefined =
      policyId !== null
        ? policies.get(policyId)
        : { count: (ofLabel ?? settings).retentionCount, days: (ofLabel ?? settings).retentionDays }
    if (rule === undefined) return false
    const before = counted.get(group) ?? 0
    counted.set(group, before + 1)
    const tooMany = rule.count > 0 && before >= rule.count
    const tooOld = rule.days > 0 && nowMs - Date.parse(createdAt) > rule.days * DAY_MS
    return tooMany || tooOld
  })
}

/** The backups of a server that its rules, or those that are given in their place, no longer keep. Locked ones are never among them. */
export async function outlivedOf(
  q: Tx['q'],
  serverId: string,
  nowMs: number,
  instead: Partial<Pick<ServerBackupSettings, 'retentionCount' | 'retentionDays'>> = {},
): Promise<string[]> {
  const settings = { ...(await settingsOf(q, serverId)), ...instead }
  const backups = await q
    .selectFrom('backup')
    .select(['id', 'label', 'policyId', 'counts', 'createdAt'])
    .where('serverId', '=', serverId)
    .where('status', '=', 'completed')
    .where('locked', '=', 0)
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .execute()
  const ids = [...new Set(backups.flatMap(({ policyId }) => (policyId === null ? [] : [policyId])))]
  const rows =
    ids.length === 0
      ? []
      : await q.selectFrom('backupPolicy').select(['id', 'keepCount', 'keepDays']).where('id', 'in', ids).execute()
  const policies = new Map(rows.map(({ id, keepCount, keepDays }) => [id, { count: keepCount, days: keepDays }]))
  return outlived(newestFirst(backups, nowMs), { nowMs, settings, policies }).map(({ id }) => id)
}

/** Has deleted what the keep rules of a server no longer keep. */
export async function retire(tx: Tx, deps: BackupDeps, serverId: string): Promise<void> {
  for (const id of await outlivedOf(tx.q, serverId, Date.parse(tx.now))) {
    const backup = await findShown(tx.q, id)
    if (backup === undefined) continue
    await startDelete(tx, deps, backup, { by: NOBODY, cause: 'retention' })
    const details = { name: backup.name, serverId, reason: 'retention' }
    const audit = { action: 'backup.delete', resource: 'backup', resourceId: id, details }
    await recordFact(tx, { deps, principal: PANEL }, { audit })
  }
}
