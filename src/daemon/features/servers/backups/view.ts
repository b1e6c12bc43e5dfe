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

/** What of a backup somebody gets to see beside that it is there. */
export interface Sight {
  /** All files of the server, and so what could not be packed and what is damaged. */
  readonly files: boolean
  /** Databases of the server by name. */
  readonly databases: boolean
}

/** A backup for whoever does not see all of it: files and databases are not named, neither in sentences. */
export function shownTo({ files, databases }: Sight, row: ShownBackup): Backup {
  const all = toBackup(row)
  const backup = databases ? all : withoutDatabases(all)
  if (files) return backup
  const { error, damage } = backup
  const texts = { error: error === null ? null : 'It has failed', damage: damage === null ? null : 'It is damaged' }
  return { ...backup, ...texts, problems: [], ignored: [] }
}

function withoutDatabases(backup: Backup): Backup {
  const problems = backup.problems.filter(({ path, reason }) => path !== '' || !namesDatabase(reason))
  const problemCount = backup.problemCount - (backup.problems.length - problems.length)
  const error = backup.error === null ? null : withoutDatabase(backup.error)
  return { ...backup, databases: [], problems, problemCount, error }
}

/** A sentence for those who do not see databases. */
export function withoutDatabase(sentence: string): string {
  return namesDatabase(sentence) ? 'A database of the server could not be dumped or restored' : sentence
}

/** Sentences of dumps and of hosts begin with what they are about. */
function namesDatabase(sentence: string): boolean {
  return sentence.startsWith('The database ') || sentence.includes('the dump of ')
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
