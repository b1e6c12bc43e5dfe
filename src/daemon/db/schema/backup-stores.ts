import type { Json, Stamps } from './columns.ts'

interface BackupStoreTable extends Stamps {
  id: string
  name: string
  kind: 'local' | 's3'
  settings: Json
  secret: string | null
}

/** Where backups may lie. */
export interface BackupStoresTables {
  backupStore: BackupStoreTable
}
