import type { SelfBackup } from '../../../../shared/api/self-backups.ts'
import type { StoreRow } from '../stores/rows.ts'
import type { SelfBackupRow } from './rows.ts'

/** The backup as the API shows it. `address`: where a person finds its archive. */
export function present(row: SelfBackupRow, store: Pick<StoreRow, 'id' | 'name'>, address: string): SelfBackup {
  const { name, status, cause, bytes, sha256, panelVersion, schemaVersion, error, jobId, createdAt, completedAt } = row
  return {
    // The columns hold ids that newId or a migration made.
    id: row.id as SelfBackup['id'],
    store: { id: store.id as SelfBackup['store']['id'], name: store.name },
    includesKey: row.includesKey === 1,
    ...{
      name,
      address,
      status,
      cause,
      bytes,
      sha256,
      panelVersion,
      schemaVersion,
      error,
      jobId,
      createdAt,
      completedAt,
    },
  }
}
