import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json, Stamps } from './columns.ts'

interface BackupStoreTable extends Stamps {
  id: string
  name: string
  kind: 'local' | 's3'
  /** All but the secret, by kind. */
  settings: Json
  /** Sealed; of `s3`. */
  secret: string | null
}

interface SelfBackupTable {
  id: string
  /** Of its archive in the store. */
  name: string
  storeId: string
  status: 'pending' | 'completed' | 'failed'
  cause: 'manual' | 'schedule'
  includesKey: Flag
  /** Of the archive. */
  bytes: number | null
  sha256: string | null
  panelVersion: string | null
  schemaVersion: number | null
  /** Why it has failed. */
  error: string | null
  jobId: string | null
  createdAt: IsoTime
  completedAt: IsoTime | null
}

/** Where backups lie, and those of the panel itself. */
export interface BackupStoresTables {
  backupStore: BackupStoreTable
  selfBackup: SelfBackupTable
}
