import { z } from 'zod'
import { defineExactEndpoint, NoData, StreamAnswer } from '../kernel/contract.ts'
import { BackupStoreId, SelfBackupId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { CronLine } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'

/** `pending`: it is being made. Only a `completed` one is a backup. */
export const SelfBackupStatus = z.enum(['pending', 'completed', 'failed'])

/** A backup of the panel itself: its database with all settings, and its credential key where that was asked for. */
export const SelfBackup = z.object({
  id: SelfBackupId,
  /** Of the archive in its store. */
  name: z.string(),
  /** Where a person finds the archive without the panel: a path of the daemon's machine, or endpoint, bucket and key. */
  address: z.string(),
  status: SelfBackupStatus,
  cause: z.enum(['manual', 'schedule']),
  store: z.object({ id: BackupStoreId, name: z.string() }),
  /** Whether the credential key is in it, sealed by a passphrase. */
  includesKey: z.boolean(),
  /** Of the archive. */
  bytes: z.int().nullable(),
  sha256: z.string().nullable(),
  panelVersion: z.string().nullable(),
  schemaVersion: z.int().nullable(),
  /** Why it has failed. */
  error: z.string().nullable(),
  jobId: z.string().nullable(),
  createdAt: IsoTime,
  completedAt: IsoTime.nullable(),
})
export type SelfBackup = z.infer<typeof SelfBackup>

/** What seals the credential key; stored nowhere. */
const Passphrase = z.string().min(12, 'must have at least 12 characters').max(1000)

const params = { selfBackupId: SelfBackupId }

export const listSelfBackups = defineExactEndpoint({
  id: 'self_backups.list',
  tag: 'Admin',
  summary: 'List backups of the panel itself, newest first',
  method: 'GET',
  path: '/api/self-backups',
  access: { panel: 'admin.read' },
  query: pageQuery().extend({ status: SelfBackupStatus.optional() }),
  response: z.array(SelfBackup),
  paged: true,
})

export const getSelfBackup = defineExactEndpoint({
  id: 'self_backups.get',
  tag: 'Admin',
  summary: 'Show a backup of the panel itself',
  method: 'GET',
  path: '/api/self-backups/:selfBackupId',
  access: { panel: 'admin.read' },
  params,
  response: SelfBackup,
  errors: ['SELF_BACKUP_NOT_FOUND'],
})

/** Whoever has one has all accounts, sealed secrets and, with its passphrase, the credential key: that takes every right there is. */
export const createSelfBackup = defineExactEndpoint({
  id: 'self_backups.create',
  tag: 'Admin',
  summary: 'Back the panel itself up, while it goes on',
  method: 'POST',
  path: '/api/self-backups',
  access: { panel: '*' },
  /** Without `storeId`: to the store of the schedule, else the default store. With `passphrase` the credential key is in it, sealed. */
  body: z.object({ storeId: BackupStoreId.optional(), passphrase: Passphrase.optional() }).default({}),
  response: z.object({ backup: SelfBackup, jobId: z.string() }),
  status: 202,
  errors: ['BACKUP_STORE_NOT_FOUND', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'self_backup.create' },
})

export const deleteSelfBackup = defineExactEndpoint({
  id: 'self_backups.delete',
  tag: 'Admin',
  summary: 'Delete a backup of the panel itself, in its store as well',
  method: 'DELETE',
  path: '/api/self-backups/:selfBackupId',
  access: { panel: '*' },
  params,
  response: NoData,
  errors: [
    'SELF_BACKUP_NOT_FOUND',
    'SELF_BACKUP_NOT_READY',
    'BACKUP_STORE_FAILED',
    'CREDENTIAL_ENCRYPTION_KEY_MISSING',
  ],
  audit: { action: 'self_backup.delete' },
  long: true,
})

/** How a check went; a backup that is damaged is an answer, not a failure of the request. */
export const SelfBackupCheck = z.object({
  ok: z.boolean(),
  /** What is wrong, in a sentence. */
  problem: z.string().nullable(),
})
export type SelfBackupCheck = z.infer<typeof SelfBackupCheck>

export const verifySelfBackup = defineExactEndpoint({
  id: 'self_backups.verify',
  tag: 'Admin',
  summary: 'Read a backup of the panel itself through: hashes, and the database in it',
  method: 'POST',
  path: '/api/self-backups/:selfBackupId/verify',
  access: { panel: 'admin.write' },
  params,
  response: SelfBackupCheck,
  errors: [
    'SELF_BACKUP_NOT_FOUND',
    'SELF_BACKUP_NOT_READY',
    'BACKUP_STORE_FAILED',
    'CREDENTIAL_ENCRYPTION_KEY_MISSING',
  ],
  audit: { none: 'reads a backup and changes nothing' },
  long: true,
})

export const downloadSelfBackup = defineExactEndpoint({
  id: 'self_backups.download',
  tag: 'Admin',
  summary: 'Download a backup of the panel itself',
  method: 'GET',
  path: '/api/self-backups/:selfBackupId/download',
  access: { panel: '*' },
  params,
  answers: 'stream',
  response: StreamAnswer,
  errors: [
    'SELF_BACKUP_NOT_FOUND',
    'SELF_BACKUP_NOT_READY',
    'BACKUP_STORE_FAILED',
    'CREDENTIAL_ENCRYPTION_KEY_MISSING',
    'ETAG_MISMATCH',
    'RANGE_NOT_SATISFIABLE',
  ],
  audit: { action: 'self_backup.download' },
})

/** When the panel backs itself up by itself. */
export const SelfBackupSchedule = z.object({
  /** Five fields, in the time zone of the panel; `null`: never. */
  cron: z.string().nullable(),
  /** `null`: the default store. */
  storeId: BackupStoreId.nullable(),
  /** How many of the schedule's own are kept. */
  keep: z.int(),
  includesKey: z.boolean(),
  nextAt: IsoTime.nullable(),
})
export type SelfBackupSchedule = z.infer<typeof SelfBackupSchedule>

export const getSelfBackupSchedule = defineExactEndpoint({
  id: 'self_backups.schedule',
  tag: 'Admin',
  summary: 'Show when the panel backs itself up',
  method: 'GET',
  path: '/api/self-backups/schedule',
  access: { panel: 'admin.read' },
  response: SelfBackupSchedule,
})

export const setSelfBackupSchedule = defineExactEndpoint({
  id: 'self_backups.set_schedule',
  tag: 'Admin',
  summary: 'Say when the panel backs itself up, where to, and how many are kept',
  method: 'PUT',
  path: '/api/self-backups/schedule',
  access: { panel: '*' },
  /** What is absent stays. `passphrase` null: the credential key is no longer part of them. */
  body: z.object({
    cron: CronLine.nullish(),
    storeId: BackupStoreId.nullish(),
    keep: z.int().min(1).max(1000).optional(),
    passphrase: Passphrase.nullish(),
  }),
  response: SelfBackupSchedule,
  errors: ['BACKUP_STORE_NOT_FOUND', 'CREDENTIAL_ENCRYPTION_KEY_MISSING', 'SETTING_LOCKED'],
  audit: { action: 'self_backup.set_schedule' },
})
