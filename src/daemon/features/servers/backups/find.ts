import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Queries } from '../../../db/db.ts'
import { findShown, type ShownBackup } from './rows.ts'

/** The backup of this server; throws BACKUP_NOT_FOUND. */
export async function backupOf(q: Queries, serverId: string, backupId: string): Promise<ShownBackup> {
  const backup = await findShown(q, backupId, serverId)
  if (backup === undefined) throw new PanelError('BACKUP_NOT_FOUND', 'There is no such backup')
  return backup
}

/** Refuses a backup that is not whole, or about which something is under way. */
export function refuseUnready({ status, name }: Pick<ShownBackup, 'status' | 'name'>): void {
  if (status === 'completed') return
  const said = status.replace('_', ' ')
  throw new PanelError('BACKUP_NOT_READY', `The backup ${name} is ${said}`, { meta: { currentStatus: status } })
}
