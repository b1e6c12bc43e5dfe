import { z } from 'zod'
import { defineExactEndpoint, StreamAnswer } from '../kernel/contract.ts'
import { BackupId, BackupPolicyId, BackupStoreId, DatabaseId, NodeId, ServerId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'
import { BackupKind, Compression } from '../protocol/backups.ts'
import { DatabaseEngine } from './database-hosts.ts'

/** A backup is whole from `completed` on; `restoring` and `deleting` go back to it when that fails. */
export const BackupStatus = z.enum(['pending', 'in_progress', 'completed', 'failed', 'restoring', 'deleting'])
export type BackupStatus = z.infer<typeof BackupStatus>

/** A database that is kept with a backup. `left`: what of it is not, by name. */
export const BackedUpDatabase = z.object({
  name: z.string(),
  engine: DatabaseEngine,
  /** `null` of a backup that was found in its store: nothing there says it. */
  tables: z.int().nullable(),
  rows: z.int().nullable(),
  left: z.array(z.string()),
})
export type BackedUpDatabase = z.infer<typeof BackedUpDatabase>

const Problem = z.object({ path: z.string(), reason: z.string() })

/** A backup of a server. */
export const Backup = z.object({
  id: BackupId,
  /** `null`: its server is gone; see `orphaned`. */
  serverId: ServerId.nullable(),
  /** The id of the server that it was made of. */
  ownerId: z.string(),
  serverName: z.string(),
  orphaned: z.boolean(),
  nodeId: NodeId.nullable(),
  nodeName: z.string().nullable(),
  storeId: BackupStoreId,
  storeName: z.string(),
  /** The kind of its store. */
  storageMode: z.enum(['local', 's3']),
  name: z.string(),
  kind: BackupKind,
  compression: Compression,
  label: z.string().nullable(),
  locked: z.boolean(),
  status: BackupStatus,
  /** Why it has failed, or why the last restore or deletion has. */
  error: z.string().nullable(),
  ignored: z.array(z.string()),
  databases: z.array(BackedUpDatabase),
  /** What was left out or has changed while it was packed, the first 100. */
  problems: z.array(Problem),
  problemCount: z.int(),
  entries: z.int().nullable(),
  /** What the files have. */
  bytes: z.int().nullable(),
  /** What the store has taken in for it. */
  storedBytes: z.int().nullable(),
  sizeMb: z.number().nullable(),
  checksum: z.string().nullable(),
  policyId: BackupPolicyId.nullable(),
  jobId: z.string().nullable(),
  createdBy: z.string().nullable(),
  createdAt: IsoTime,
  startedAt: IsoTime.nullable(),
  completedAt: IsoTime.nullable(),
  restoredAt: IsoTime.nullable(),
  verifiedAt: IsoTime.nullable(),
  /** What the last verification has found; `null`: nothing. */
  damage: z.string().nullable(),
})
export type Backup = z.infer<typeof Backup>

/** Work on a backup that has been started. */
export const BackupStarted = z.object({
  backupId: BackupId,
  backupName: z.string(),
  status: BackupStatus,
  /** `null`: there was nothing left to do. */
  jobId: z.string().nullable(),
})
export type BackupStarted = z.infer<typeof BackupStarted>

/** A pattern as .gitignore has them. */
export const IgnorePattern = z
  .string()
  .min(1)
  .max(1000)
  .regex(/^[^\0\n\r]+$/, 'must be one line')
export const IgnoreList = z.array(IgnorePattern).max(500)

/** What is not in the set `A-Za-z0-9._-` becomes `_`: the name is also that of a file. */
export const BackupName = z
  .string()
  .trim()
  .min(1)
  .max(120)
  .transform((name) => name.replace(/[^A-Za-z0-9._-]/g, '_'))

export const BackupLabel = z
  .string()
  .trim()
  .regex(/^[a-z0-9][a-z0-9._-]{0,39}$/, 'must be 1 to 40 small letters, digits, ., _ or -')

const EntryPath = z.string().min(1).max(4096)
const params = { serverId: ServerId }
const one = { serverId: ServerId, backupId: BackupId }

const nodeErrors = ['NODE_OFFLINE', 'AGENT_TIMEOUT', 'AGENT_ERROR', 'AGENT_VERSION', 'RATE_LIMITED'] as const
const storeErrors = ['BACKUP_STORE_FAILED', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'] as const
const found = ['SERVER_NOT_FOUND', 'BACKUP_NOT_FOUND'] as const
const writing = ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'BACKUP_NOT_FOUND'] as const

const statusFilter = { status: BackupStatus.optional(), label: z.string().max(40).optional() }

export const listBackups = defineExactEndpoint({
  id: 'backups.list',
  tag: 'Servers',
  summary: 'List the backups of a server, newest first',
  method: 'GET',
  path: '/api/servers/:serverId/backups',
  access: { server: ['backup.read'] },
  params,
  query: pageQuery().extend(statusFilter),
  response: z.array(Backup),
  paged: true,
  errors: ['SERVER_NOT_FOUND'],
})

/** What is not given is as the server's backup settings say. Ignored patterns are added to those of the settings. */
export const createBackup = defineExactEndpoint({
  id: 'backups.create',
  tag: 'Servers',
  summary: 'Make a backup of a server',
  method: 'POST',
  path: '/api/servers/:serverId/backups',
  access: { server: ['backup.create'] },
  params,
  body: z
    .object({
      name: BackupName,
      kind: BackupKind,
      compression: Compression,
      ignored: IgnoreList,
      label: BackupLabel,
      locked: z.boolean(),
      storeId: BackupStoreId,
      databases: z.boolean(),
    })
    .partial()
    .default({}),
  response: BackupStarted,
  status: 202,
  errors: [
    'SERVER_NOT_FOUND',
    'SERVER_SUSPENDED',
    'SERVER_INVALID_STATE',
    'BACKUP_DISABLED',
    'BACKUP_QUOTA_EXCEEDED',
    'BACKUP_STORE_NOT_FOUND',
    'CONFLICT',
    ...nodeErrors,
  ],
  audit: { action: 'backup.create' },
})

export const getBackup = defineExactEndpoint({
  id: 'backups.get',
  tag: 'Servers',
  summary: 'Show a backup of a server',
  method: 'GET',
  path: '/api/servers/:serverId/backups/:backupId',
  access: { server: ['backup.read'] },
  params: one,
  response: Backup,
  errors: found,
})

/** A backup that a policy has made is locked and unlocked by whoever holds `admin.write`. */
export const updateBackup = defineExactEndpoint({
  id: 'backups.update',
  tag: 'Servers',
  summary: 'Rename, label, lock or unlock a backup',
  method: 'PATCH',
  path: '/api/servers/:serverId/backups/:backupId',
  access: { server: ['backup.create'] },
  params: one,
  body: z.object({ name: BackupName, label: BackupLabel.nullable(), locked: z.boolean() }).partial(),
  response: Backup,
  errors: [...writing, 'PERMISSION_DENIED'],
  audit: { action: 'backup.update' },
})

/** One that a policy has made is deleted by whoever holds `admin.write` as well. */
export const deleteBackup = defineExactEndpoint({
  id: 'backups.delete',
  tag: 'Servers',
  summary: 'Delete a backup of a server',
  method: 'DELETE',
  path: '/api/servers/:serverId/backups/:backupId',
  access: { server: ['backup.delete'] },
  params: one,
  response: BackupStarted,
  status: 202,
  errors: [...writing, 'PERMISSION_DENIED', 'BACKUP_LOCKED', 'BACKUP_NOT_READY'],
  audit: { action: 'backup.delete' },
})

/**
 * All of it: the server must be stopped, and its folder is exchanged in one step; with `keepOthers` (`truncate: false`) files that the backup
 * does not have stay. `paths`: these alone, also while it runs. Databases: all tables of a database of the same name are replaced, or of
 * the one that `databaseMap` names for it; that takes `database.read` on both servers as well.
 */
export const restoreBackup = defineExactEndpoint({
  id: 'backups.restore',
  tag: 'Servers',
  summary: 'Restore a backup, to its server or another one',
  method: 'POST',
  path: '/api/servers/:serverId/backups/:backupId/restore',
  access: { server: ['backup.restore'] },
  params: one,
  body: z
    .object({
      paths: z.array(EntryPath).min(1).max(1000).optional(),
      /** With `paths`: also where something is already. */
      replace: z.boolean().default(true),
      keepOthers: z.boolean().default(false),
      toServerId: ServerId.optional(),
      /** Makes a backup of what is there before it is replaced. */
      preBackup: z.boolean().default(false),
      /** Whether files are restored; false: the databases alone. */
      files: z.boolean().default(true),
      databases: z.boolean().default(false),
      databaseMap: z.record(z.string().max(64), DatabaseId).optional(),
      /** Also into databases that the panel does not manage: what the panel that they come from has in them is replaced. */
      forceDatabases: z.boolean().default(false),
      /** The opposite of `keepOthers`, by the name that other panels have. */
      truncate: z.boolean().optional(),
    })
    .prefault({}),
  response: BackupStarted,
  status: 202,
  errors: [
    ...writing,
    'PERMISSION_DENIED',
    'SERVER_MUST_BE_STOPPED',
    'SERVER_INVALID_STATE',
    'BACKUP_NOT_READY',
    'BACKUP_DISABLED',
    'BACKUP_QUOTA_EXCEEDED',
    'DATABASE_NOT_FOUND',
    'DATABASE_NOT_MANAGED',
    'CONFLICT',
    ...nodeErrors,
  ],
  audit: { action: 'backup.restore' },
})

/** An archive as it lies in the store, where its own compression or none is asked for: then it has ranges. Else it is made while it is sent. */
export const downloadBackup = defineExactEndpoint({
  id: 'backups.download',
  tag: 'Servers',
  summary: 'Download a backup as a tar archive',
  method: 'GET',
  path: '/api/servers/:serverId/backups/:backupId/download',
  access: { server: ['backup.read'] },
  params: one,
  query: z.object({ compression: Compression.optional(), path: EntryPath.optional() }),
  answers: 'stream',
  response: StreamAnswer,
  errors: [
    ...found,
    'BACKUP_NOT_READY',
    'FILE_NOT_FOUND',
    'FILE_PATH_INVALID',
    'PERMISSION_DENIED',
    'ETAG_MISMATCH',
    'RANGE_NOT_SATISFIABLE',
    'CONFLICT',
    ...storeErrors,
    ...nodeErrors,
  ],
  audit: { action: 'backup.download' },
})

/** An entry of a backup. */
export const BackupEntry = z.object({
  path: z.string(),
  kind: z.enum(['file', 'folder', 'link']),
  size: z.int(),
  mode: z.int(),
  modified: z.string(),
  sha256: z.string().nullable(),
  target: z.string().nullable(),
})
export type BackupEntry = z.infer<typeof BackupEntry>

/** Reads the manifest, and nothing of the files. `next` is what `after` is for the following page. */
export const listBackupEntries = defineExactEndpoint({
  id: 'backups.entries',
  tag: 'Servers',
  summary: 'List what a backup holds',
  method: 'GET',
  path: '/api/servers/:serverId/backups/:backupId/entries',
  access: { server: ['backup.read'] },
  params: one,
  query: z.object({
    path: EntryPath.default('/'),
    recursive: QueryBoolean.default(false),
    after: z.string().max(20_000).optional(),
    limit: z.coerce.number().int().min(1).max(10_000).default(1000),
  }),
  response: z.object({
    entries: z.array(BackupEntry),
    next: z.string().nullable(),
    /** Dumps of databases beside the files. */
    databases: z.array(z.object({ name: z.string(), size: z.int() })),
  }),
  errors: [
    ...found,
    'BACKUP_NOT_READY',
    'FILE_NOT_FOUND',
    'FILE_PATH_INVALID',
    'PERMISSION_DENIED',
    ...storeErrors,
    ...nodeErrors,
  ],
})

export const readBackupFile = defineExactEndpoint({
  id: 'backups.file',
  tag: 'Servers',
  summary: 'Download one file, or the dump of one database, out of a backup',
  method: 'GET',
  path: '/api/servers/:serverId/backups/:backupId/file',
  access: { server: ['backup.read'] },
  params: one,
  query: z.object({ path: EntryPath.optional(), database: z.string().min(1).max(190).optional() }),
  answers: 'stream',
  response: StreamAnswer,
  errors: [
    ...found,
    'BACKUP_NOT_READY',
    'FILE_NOT_FOUND',
    'FILE_PATH_INVALID',
    'PERMISSION_DENIED',
    'CONFLICT',
    'ETAG_MISMATCH',
    'RANGE_NOT_SATISFIABLE',
    ...storeErrors,
    ...nodeErrors,
  ],
  audit: { action: 'backup.download' },
})

/** `deep`: reads every byte; else that all parts are there with their sizes. What it finds stands in `damage` of the backup. */
export const verifyBackup = defineExactEndpoint({
  id: 'backups.verify',
  tag: 'Servers',
  summary: 'Compare a backup with its hashes',
  method: 'POST',
  path: '/api/servers/:serverId/backups/:backupId/verify',
  access: { server: ['backup.read'] },
  params: one,
  body: z.object({ deep: z.boolean().default(true) }).prefault({}),
  response: BackupStarted,
  status: 202,
  errors: [...found, 'BACKUP_NOT_READY'],
  audit: { action: 'backup.verify' },
})

/** What is given is as if the settings said it; what locked backups hold stays. */
export const pruneBackups = defineExactEndpoint({
  id: 'backups.prune',
  tag: 'Servers',
  summary: 'Delete the backups of a server that its keep rules no longer keep',
  method: 'POST',
  path: '/api/servers/:serverId/backups/prune',
  access: { server: ['backup.delete'] },
  params,
  body: z
    .object({
      dryRun: z.boolean().default(false),
      retentionCount: z.int().min(0).max(1000).optional(),
      retentionDays: z.int().min(0).max(3650).optional(),
      /** Also removes what cut-off attempts have left in the store, and pieces that no backup needs. */
      orphans: z.boolean().default(false),
    })
    .prefault({}),
  response: z.object({ backups: z.array(Backup), jobIds: z.array(z.string()) }),
  status: 202,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED'],
  audit: { action: 'backup.prune' },
})

/** Beside the backups of all servers those of servers that are gone. */
export const listAllBackups = defineExactEndpoint({
  id: 'backups.list_all',
  tag: 'Admin',
  summary: 'List the backups of all servers, newest first',
  method: 'GET',
  path: '/api/backups',
  access: { panel: 'backup.read' },
  query: pageQuery().extend({
    ...statusFilter,
    serverId: ServerId.optional(),
    ownerId: z.string().max(64).optional(),
    nodeId: NodeId.optional(),
    storeId: BackupStoreId.optional(),
    policyId: BackupPolicyId.optional(),
    /** Only those whose server is gone, or only the others. */
    orphaned: QueryBoolean.optional(),
    damaged: QueryBoolean.optional(),
    search: z.string().max(100).optional(),
  }),
  response: z.array(Backup),
  paged: true,
})

export const getAnyBackup = defineExactEndpoint({
  id: 'backups.get_any',
  tag: 'Admin',
  summary: 'Show a backup, also one whose server is gone',
  method: 'GET',
  path: '/api/backups/:backupId',
  access: { panel: 'backup.read' },
  params: { backupId: BackupId },
  response: Backup,
  errors: ['BACKUP_NOT_FOUND'],
})

/** `force`: forgets it at once, whatever lies in the store; for stores and nodes that do not come back. */
export const deleteAnyBackup = defineExactEndpoint({
  id: 'backups.delete_any',
  tag: 'Admin',
  summary: 'Delete a backup, also one whose server is gone',
  method: 'DELETE',
  path: '/api/backups/:backupId',
  access: { panel: 'admin.write' },
  params: { backupId: BackupId },
  query: z.object({ force: QueryBoolean.default(false) }),
  response: BackupStarted,
  status: 202,
  errors: ['BACKUP_NOT_FOUND', 'BACKUP_LOCKED', 'BACKUP_NOT_READY', 'CONFLICT'],
  audit: { action: 'backup.delete' },
})

export const reattachBackup = defineExactEndpoint({
  id: 'backups.reattach',
  tag: 'Admin',
  summary: 'Give a backup whose server is gone to another server',
  method: 'POST',
  path: '/api/backups/:backupId/reattach',
  access: { panel: 'admin.write' },
  params: { backupId: BackupId },
  body: z.object({ serverId: ServerId }),
  response: Backup,
  errors: ['BACKUP_NOT_FOUND', 'SERVER_NOT_FOUND', 'BACKUP_NOT_READY', 'CONFLICT'],
  audit: { action: 'backup.reattach' },
})

/** A local store is read on one node. What was unknown is listed from then on, and belongs to its server where that is there. */
export const scanBackups = defineExactEndpoint({
  id: 'backups.scan',
  tag: 'Admin',
  summary: 'Look for backups in a store that the panel does not know',
  method: 'POST',
  path: '/api/backups/scan',
  access: { panel: 'admin.write' },
  body: z.object({ storeId: BackupStoreId, nodeId: NodeId.optional(), dryRun: z.boolean().default(false) }),
  response: z.object({
    found: z.int(),
    added: z.array(
      z.object({
        backupId: BackupId,
        ownerId: z.string(),
        serverName: z.string(),
        name: z.string(),
        createdAt: IsoTime,
        storedBytes: z.int(),
        orphaned: z.boolean(),
      }),
    ),
    /** Backups that the panel knows to lie there and that do not. */
    missing: z.array(z.object({ backupId: BackupId, name: z.string(), serverName: z.string() })),
  }),
  errors: ['BACKUP_STORE_NOT_FOUND', 'NODE_NOT_FOUND', 'FILE_NOT_FOUND', ...storeErrors, ...nodeErrors],
  long: true,
  audit: { action: 'backup.scan' },
})

/** One console command, and what is waited for behind it: a line that the expression (RE2) finds, for at most so long. */
export const BackupCommand = z.object({
  command: z
    .string()
    .min(1)
    .max(1000)
    .regex(/^[^\0\n\r]+$/, 'must be one line'),
  waitFor: z.string().min(1).max(500).nullable().default(null),
  waitSeconds: z.int().min(0).max(300).default(0),
})
export type BackupCommand = z.infer<typeof BackupCommand>

/** How long backups of a label are kept; 0: without end. */
export const LabelRule = z.object({
  label: BackupLabel,
  retentionCount: z.int().min(0).max(1000).default(0),
  retentionDays: z.int().min(0).max(3650).default(0),
})
export type LabelRule = z.infer<typeof LabelRule>

/** How the backups of a server are made and kept. */
export const BackupSettings = z.object({
  /** `null`: the store of the node, its location, or the panel. */
  storeId: BackupStoreId.nullable(),
  /** Where backups go now. */
  effectiveStoreId: BackupStoreId,
  effectiveStoreName: z.string(),
  storageMode: z.enum(['local', 's3']),
  kind: BackupKind,
  compression: Compression,
  /** 0: as many as there are. */
  retentionCount: z.int(),
  /** 0: for ever. */
  retentionDays: z.int(),
  labels: z.array(LabelRule),
  ignored: z.array(z.string()),
  /** Before a backup of a running server, in their order. */
  quiesceCommands: z.array(BackupCommand),
  /** After it, also when it has failed. */
  resumeCommands: z.array(BackupCommand),
  databases: z.boolean(),
  /** What its own backups may take in the store; `null`: no bound, 0: no backups. */
  backupAllocationMb: z.int().nullable(),
  usedMb: z.number(),
})
export type BackupSettings = z.infer<typeof BackupSettings>

export const getBackupSettings = defineExactEndpoint({
  id: 'backup_settings.get',
  tag: 'Servers',
  summary: 'Show how the backups of a server are made and kept',
  method: 'GET',
  path: '/api/servers/:serverId/backup-settings',
  access: { server: ['backup.read'] },
  params,
  response: BackupSettings,
  errors: ['SERVER_NOT_FOUND'],
})

/** `backupAllocationMb` takes admin.write; other quiesce or resume commands take console.write on the server. */
export const updateBackupSettings = defineExactEndpoint({
  id: 'backup_settings.update',
  tag: 'Servers',
  summary: 'Change how the backups of a server are made and kept',
  method: 'PATCH',
  path: '/api/servers/:serverId/backup-settings',
  access: { server: ['server.update'] },
  params,
  body: z
    .object({
      storeId: BackupStoreId.nullable(),
      kind: BackupKind,
      compression: Compression,
      retentionCount: z.int().min(0).max(1000),
      retentionDays: z.int().min(0).max(3650),
      labels: z.array(LabelRule).max(50),
      ignored: IgnoreList,
      quiesceCommands: z.array(BackupCommand).max(10),
      resumeCommands: z.array(BackupCommand).max(10),
      databases: z.boolean(),
      backupAllocationMb: z.int().min(0).max(1_000_000_000).nullable(),
    })
    .partial(),
  response: BackupSettings,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'BACKUP_STORE_NOT_FOUND', 'PERMISSION_DENIED'],
  audit: { action: 'server.backup_settings_update' },
})
