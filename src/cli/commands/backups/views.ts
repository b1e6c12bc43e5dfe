import type * as api from '../../../shared/api/backups.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'

/** Backups of one server. */
export const BACKUPS = view<api.Backup>([
  column('NAME', (row) => row.name),
  column('STATUS', (row) => ({ status: row.damage === null ? row.status : 'damaged' })),
  column('SIZE', (row) => sizeOf(row.bytes)),
  column('STORED', (row) => sizeOf(row.storedBytes)),
  column('KIND', (row) => row.kind),
  column('STORE', (row) => row.storeName),
  column('LABEL', (row) => row.label),
  column('LOCKED', (row) => row.locked),
  column('CREATED', (row) => ({ time: row.createdAt })),
  column('ID', (row) => row.id),
  ...further(),
])

/** Backups of several servers. */
export const ALL_BACKUPS: View<api.Backup> = {
  ...BACKUPS,
  columns: [column('SERVER', (row) => row.serverName), ...BACKUPS.columns],
}

function further() {
  return [
    wide<api.Backup>('COMPRESSION', (row) => row.compression),
    wide<api.Backup>('NODE', (row) => row.nodeName),
    wide<api.Backup>('ENTRIES', (row) => row.entries),
    wide<api.Backup>('PROBLEMS', (row) => row.problemCount),
    wide<api.Backup>('DATABASES', (row) => row.databases.map(({ name }) => name).join(', ')),
    wide<api.Backup>('POLICY', (row) => row.policyId),
    wide<api.Backup>('COMPLETED', (row) => ({ time: row.completedAt })),
    wide<api.Backup>('VERIFIED', (row) => ({ time: row.verifiedAt })),
    wide<api.Backup>('RESTORED', (row) => ({ time: row.restoredAt })),
    wide<api.Backup>('SHA256', (row) => row.checksum),
    wide<api.Backup>('ERROR', (row) => row.damage ?? row.error),
  ]
}

/** What a backup holds. */
export const ENTRIES: View<api.BackupEntry> = {
  id: (row) => row.path,
  name: (row) => row.path,
  columns: [
    column('MODE', (row) => row.mode.toString(8).padStart(3, '0')),
    column('SIZE', (row) => (row.kind === 'file' ? byteSize(row.size) : null)),
    column('MODIFIED', (row) => ({ time: row.modified })),
    column('PATH', (row) => (row.target === null ? row.path : `${row.path} -> ${row.target}`)),
    wide('KIND', (row) => row.kind),
    wide('SHA256', (row) => row.sha256),
  ],
}

/** What was started. */
export const STARTED: View<api.BackupStarted> = {
  id: (row) => row.backupId,
  name: (row) => row.backupName,
  columns: [
    column('NAME', (row) => row.backupName),
    column('STATUS', (row) => ({ status: row.status })),
    column('JOB', (row) => row.jobId),
    column('ID', (row) => row.backupId),
  ],
}

/** How the backups of a server are made and kept. */
export const SETTINGS: View<api.BackupSettings> = {
  id: () => '',
  name: () => '',
  columns: [
    column('STORE', (row) => `${row.effectiveStoreName}${row.storeId === null ? ' (by default)' : ''}`),
    column('KIND', (row) => row.kind),
    column('COMPRESSION', (row) => row.compression),
    column('KEEP', (row) => (row.retentionCount === 0 ? 'all' : row.retentionCount)),
    column('KEEP DAYS', (row) => (row.retentionDays === 0 ? 'for ever' : row.retentionDays)),
    column('LABELS', (row) => row.labels.map(labelText).join(', ')),
    column('IGNORED', (row) => row.ignored.join(', ')),
    column('QUIESCE', (row) => row.quiesceCommands.map(({ command }) => command).join('; ')),
    column('RESUME', (row) => row.resumeCommands.map(({ command }) => command).join('; ')),
    column('DATABASES', (row) => row.databases),
    column('USED', (row) => ({ mib: row.usedMb })),
    column('LIMIT', (row) => (row.backupAllocationMb === null ? 'none' : { mib: row.backupAllocationMb })),
  ],
}

/** What a look through a store has found. */
export const ADDED: View<ReturnType<typeof api.scanBackups.response.parse>['added'][number]> = {
  id: (row) => row.backupId,
  name: (row) => row.name,
  columns: [
    column('SERVER', (row) => row.serverName),
    column('NAME', (row) => row.name),
    column('STORED', (row) => byteSize(row.storedBytes)),
    column('ORPHANED', (row) => row.orphaned),
    column('CREATED', (row) => ({ time: row.createdAt })),
    column('ID', (row) => row.backupId),
  ],
}

function sizeOf(bytes: number | null): string | null {
  return bytes === null ? null : byteSize(bytes)
}

function labelText({ label, retentionCount, retentionDays }: api.LabelRule): string {
  return `${label}=${retentionCount}${retentionDays === 0 ? '' : `/${retentionDays}d`}`
}
