import type { BackupStore } from '../../../../shared/api/backup-stores.ts'
import { type CountedStore, LOCAL_STORE, settingsOf } from './rows.ts'

/** The store as the API shows it, never its secret. `defaultId`: the store of what says nothing else. */
export function present(row: CountedStore, defaultId: string): BackupStore {
  const settings = settingsOf(row)
  const s3 = settings.kind === 's3' ? settings : undefined
  return {
    // The column holds ids that newId or a migration made.
    id: row.id as BackupStore['id'],
    name: row.name,
    kind: row.kind,
    folder: settings.kind === 'local' ? settings.folder : null,
    endpoint: s3?.endpoint ?? null,
    region: s3?.region ?? null,
    bucket: s3?.bucket ?? null,
    prefix: s3?.prefix ?? null,
    pathStyle: s3?.pathStyle ?? null,
    accessKeyId: s3?.accessKeyId ?? null,
    hasSecret: row.secret !== null,
    isBuiltIn: row.id === LOCAL_STORE,
    isDefault: row.id === defaultId,
    backupCount: Number(row.serverBackups) + Number(row.selfBackups),
    defaultOf: { locations: Number(row.locations), nodes: Number(row.nodes), servers: Number(row.servers) },
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  }
}
