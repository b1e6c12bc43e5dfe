import { z } from 'zod'
import { BackedUpDatabase, type Backup, type BackupStarted } from '../../../../shared/api/backups.ts'
import { parseJson } from '../../../db/json.ts'
import type { BackupRow, ShownBackup } from './rows.ts'

const Texts = z.array(z.string())
const Databases = z.array(BackedUpDatabase)
const Problems = z.array(z.object({ path: z.string(), reason: z.string() }))
const MIB = 1024 * 1024

/** A backup as the API answers it. */
export function toBackup(row: ShownBackup): Backup {
  const { counts, updatedAt, sha256, storeKind, id, serverId, nodeId, storeId, policyId, ...shown } = row
  // The columns hold ids that newId made or a scan of a store checked.
  const ids = { id, serverId, nodeId, storeId, policyId } as Pick<
    Backup,
    'id' | 'serverId' | 'nodeId' | 'storeId' | 'policyId'
  >
  return {
    ...shown,
    ...ids,
    orphaned: row.serverId === null,
    storageMode: storeKind,
    locked: row.locked === 1,
    ignored: ignoredOf(row),
    databases: databasesOf(row),
    problems: parseJson(Problems, row.problems),
    sizeMb: row.storedBytes === null ? null : mib(row.storedBytes),
    checksum: sha256,
  }
}

/** Bytes as MiB of two digits. */
export function mib(bytes: number): number {
  return Math.round((bytes / MIB) * 100) / 100
}

/** What was started on a backup. */
export function toStarted(
  { id, name, status }: Pick<BackupRow, 'id' | 'name' | 'status'>,
  jobId: string | null,
): BackupStarted {
  return { backupId: id as BackupStarted['backupId'], backupName: name, status, jobId }
}

export function ignoredOf({ ignored }: Pick<BackupRow, 'ignored'>): string[] {
  return parseJson(Texts, ignored)
}

export function databasesOf({ databases }: Pick<BackupRow, 'databases'>): BackedUpDatabase[] {
  return parseJson(Databases, databases)
}
