import { z } from 'zod'
import { defineRequest } from './define.ts'
import { FILE_LIMITS, FileProblem } from './file-operations.ts'
import { FURTHEST_MS, TRANSFER_LIMITS } from './files.ts'

/** Where an agent asks its daemon for what it needs of an object store, at the ticket of its work (ADR 58). */
export const STORE_PATH = '/api/agent/stores'

/** Limits of one request; bytes and counts. */
export const BACKUP_LIMITS = {
  /** Patterns of one ignore list. */
  ignored: 1000,
  /** Further files that are packed beside a server's own: dumps of its databases. */
  extras: 100,
  /** Rows of one page of a manifest, and of a list of what a store holds. */
  rows: 1000,
  /** What an answer may have as JSON, so that it fits into a frame. */
  answerBytes: FILE_LIMITS.answerBytes,
  /** What one request to the store of a ticket asks for at most. */
  storeOperations: 100,
} as const

const area = { capability: 'backups@1' } as const
const Id = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/)
const Bytes = z.int().min(0)
const Count = z.int().min(0)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const Ticket = z.string().regex(/^[A-Za-z0-9_-]{43}$/)
const Text = z.string().max(20_000)
/** Below the server's folder, as `kernel/path-text.ts` writes bytes; `/` is that folder itself. */
const Path = z.string().min(1).max(4096)
/** Names an attempt: what an earlier one of the same key has left is removed first. */
const Key = z.string().regex(/^[0-9a-f]{32}$/)
const TimeMs = z.number().min(-FURTHEST_MS).max(FURTHEST_MS)
const Problems = { problems: z.array(FileProblem).max(FILE_LIMITS.problems), problemCount: Count }

/** `archive`: one compressed tar that any program reads. `incremental`: pieces of which each is stored once. */
export const BackupKind = z.enum(['archive', 'incremental'])
export type BackupKind = z.infer<typeof BackupKind>

/** How an archive is compressed. `zstd` needs the program on the node; increments are always compressed by the agent itself. */
export const Compression = z.enum(['gzip', 'zstd', 'none'])
export type Compression = z.infer<typeof Compression>

/**
 * Where backups lie. `local`: a folder of the node, the default one or one that its `agent.yaml` names. `s3`: the agent never has the
 * credentials of the store; it asks at the ticket for signed requests, which the daemon gives for one server's keys alone.
 */
export const StoreAccess = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('local'), storeId: Id, folder: z.string().max(64).nullable() }),
  z.object({ kind: z.literal('s3'), storeId: Id, ticket: Ticket }),
])
export type StoreAccess = z.infer<typeof StoreAccess>

/** One backup in a store. `ownerId` is the server that it is of, which may be gone, or another than the one it is restored to. */
const Stored = { store: StoreAccess, ownerId: Id, backupId: Id, kind: BackupKind }

const Moving = z.object({ entries: Count, bytes: Bytes, totalBytes: Bytes.nullable() })
const long = { progress: Moving, cancels: true, timeoutMs: TRANSFER_LIMITS.patienceMs } as const

/** Whether a node can use a store now: writes, reads and removes a small object. */
export const probeStore = defineRequest({
  op: 'backups.probe',
  ...area,
  input: { store: StoreAccess },
  result: z.object({ freeBytes: Bytes.nullable() }),
  timeoutMs: TRANSFER_LIMITS.patienceMs,
  cancels: true,
})

/** Packs a server's folder. A backup that is not whole is not there: what was written is removed, or by the next attempt of its key. */
export const createBackup = defineRequest({
  op: 'backups.create',
  ...area,
  input: {
    serverId: z.string(),
    ...Stored,
    key: Key,
    compression: Compression,
    /** Patterns as .gitignore has them; those of the server's own `.panelignore` are read by the agent and added. */
    ignored: z.array(z.string().max(1000)).max(BACKUP_LIMITS.ignored),
    /** All of the folder, whatever its `.panelignore` names. Agents without backups-whole@1 do not know it. */
    whole: z.boolean().default(false),
    /** Fetched at their tickets one after the other, and kept beside the server's files under `databases/<name>`. */
    extras: z
      .array(z.object({ name: z.string().regex(/^[A-Za-z0-9._-]{1,200}$/), ticket: Ticket }))
      .max(BACKUP_LIMITS.extras),
    /** What the manifest says of the backup itself, so that a store alone says whose it is. At most 16 KiB as JSON. */
    about: z.record(z.string(), z.unknown()),
    /** What the store may take in by this backup; null: no bound. */
    maxStoredBytes: Bytes.nullable(),
  },
  result: z.object({
    entries: Count,
    /** What the files have. */
    bytes: Bytes,
    /** What an archive has itself, which is what is sent of it as it lies; what the store has taken in for an increment. */
    storedBytes: Bytes,
    /** Of the archive, or of the manifest of an increment. */
    sha256: Sha256,
    /** Files that changed while they were packed, and what was left out. */
    ...Problems,
  }),
  ...long,
})

/**
 * Puts a backup, or the paths of it that are named, into a server's folder. All of it: unpacked aside, then exchanged with the folder that
 * is there in one step; the server must not run. Paths: each is unpacked aside and moved to its place.
 */
export const restoreBackup = defineRequest({
  op: 'backups.restore',
  ...area,
  input: {
    /** Into which server. */
    serverId: z.string(),
    ...Stored,
    key: Key,
    paths: z.array(Path).min(1).max(FILE_LIMITS.paths).nullable(),
    /** With `paths`: also where something is already. */
    replace: z.boolean(),
    /** With all of it: files that the backup does not have stay where they were. */
    keepOthers: z.boolean(),
    denied: z.array(z.string().max(1000)).max(1000).default([]),
  },
  result: z.object({ entries: Count, bytes: Bytes, ...Problems }),
  ...long,
})

/** As `backups.restore`, from what `backups.deliver` of another node sends as a tar, through the daemon. */
export const receiveBackup = defineRequest({
  op: 'backups.receive',
  ...area,
  input: {
    serverId: z.string(),
    key: Key,
    ticket: Ticket,
    paths: z.array(Path).min(1).max(FILE_LIMITS.paths).nullable(),
    replace: z.boolean(),
    keepOthers: z.boolean(),
    denied: z.array(z.string().max(1000)).max(1000).default([]),
  },
  result: z.object({ entries: Count, bytes: Bytes, ...Problems }),
  ...long,
})

/** What a download of a backup is: its bytes as they lie in the store, when that is an archive. */
export const describeBackup = defineRequest({
  op: 'backups.describe',
  ...area,
  input: { ...Stored },
  result: z.object({
    /** Of `content: 'archive'`; null where it is made while it is sent. */
    size: Bytes.nullable(),
    compression: Compression,
    entries: Count,
    bytes: Bytes,
    sha256: Sha256,
    about: z.record(z.string(), z.unknown()),
    /** How much lies beside the server's files; older agents do not say it. */
    extras: Count.optional(),
  }),
})

/**
 * Delivers at a ticket. `archive`: a tar of all or of one path, compressed as `compression` says, with the names that its entries have from the
 * server's folder on. Without a path what lies beside the server's files comes first, under `databases/`; with `/` it is left out, as
 * `backups.receive` needs it. All of an archive in its own compression is sent as it lies, and `offset` and `length` name a part of that.
 * `file`: the bytes of one regular file. `extra`: a file beside the server's own, `path` is its name.
 */
export const deliverBackup = defineRequest({
  op: 'backups.deliver',
  ...area,
  input: {
    ...Stored,
    ticket: Ticket,
    content: z.enum(['archive', 'file', 'extra']),
    path: z.string().max(4096).nullable(),
    compression: Compression,
    offset: Bytes,
    length: Bytes.nullable(),
    /** Patterns of what is left out of an `archive`, which then is never sent as it lies. */
    denied: z.array(z.string().max(1000)).max(1000).default([]),
  },
  result: z.object({ sha256: Sha256, bytes: Bytes }),
  ...long,
})

/** An entry of a manifest. */
export const BackupEntry = z.object({
  path: Text,
  kind: z.enum(['file', 'folder', 'link']),
  size: Bytes,
  mode: z.int().min(0).max(0o777),
  modifiedMs: TimeMs,
  sha256: Sha256.nullable(),
  target: Text.nullable(),
})
export type BackupEntry = z.infer<typeof BackupEntry>

/** A page of what a backup holds in one folder, sorted by name; with `recursive` of all below it. */
export const listBackupEntries = defineRequest({
  op: 'backups.entries',
  ...area,
  input: {
    ...Stored,
    path: Path,
    recursive: z.boolean(),
    after: z.string().max(20_000).nullable(),
    limit: z.int().min(1).max(BACKUP_LIMITS.rows),
  },
  result: z.object({
    entries: z.array(BackupEntry).max(BACKUP_LIMITS.rows),
    next: Text.nullable(),
    extras: z.array(z.object({ name: z.string().max(200), size: Bytes })).max(BACKUP_LIMITS.extras),
  }),
  timeoutMs: TRANSFER_LIMITS.patienceMs,
  cancels: true,
})

/** Reads backups of one server and compares them with their hashes. `deep`: every byte; else that every part is there with its size. */
export const verifyBackups = defineRequest({
  op: 'backups.verify',
  ...area,
  input: {
    store: StoreAccess,
    ownerId: Id,
    backups: z
      .array(z.object({ backupId: Id, kind: BackupKind }))
      .min(1)
      .max(1000),
    deep: z.boolean(),
  },
  result: z.object({
    bytes: Bytes,
    damaged: z
      .array(z.object({ backupId: Id, reason: z.string().max(300), paths: z.array(Text).max(100), pathCount: Count }))
      .max(1000),
  }),
  ...long,
})

/** Removes a backup; pieces that others use stay. One that is not there is no failure. */
export const deleteBackup = defineRequest({
  op: 'backups.delete',
  ...area,
  input: { ...Stored },
  result: z.object({ freedBytes: Bytes }),
  ...long,
})

/**
 * Removes what no backup of the server needs: pieces, and what attempts that were cut off have left. A backup that is whole always stays,
 * also one that the daemon does not know; `keep`: those of which nothing is removed even when they are not whole yet.
 */
export const pruneBackups = defineRequest({
  op: 'backups.prune',
  ...area,
  input: { store: StoreAccess, ownerId: Id, keep: z.array(Id).max(10_000), dryRun: z.boolean() },
  result: z.object({ freedBytes: Bytes, storedBytes: Bytes }),
  ...long,
})

/**
 * What a store holds, as its manifests say. `ownerId`: of one server alone; with null the ticket of an object store is for the servers of
 * all of it: keys begin with the server that they are of.
 */
export const listStored = defineRequest({
  op: 'backups.stored',
  ...area,
  input: {
    store: StoreAccess,
    ownerId: Id.nullable(),
    after: z.string().max(200).nullable(),
    limit: z.int().min(1).max(BACKUP_LIMITS.rows),
  },
  result: z.object({
    backups: z
      .array(
        z.object({
          ownerId: Id,
          backupId: Id,
          kind: BackupKind,
          compression: Compression,
          createdMs: TimeMs,
          entries: Count,
          bytes: Bytes,
          storedBytes: Bytes,
          sha256: Sha256,
          about: z.record(z.string(), z.unknown()),
        }),
      )
      .max(BACKUP_LIMITS.rows),
    next: z.string().max(200).nullable(),
  }),
  timeoutMs: TRANSFER_LIMITS.patienceMs,
  cancels: true,
})

/** A key of an object below what the ticket is for; no `..`, no empty part. */
const ObjectKey = z.string().regex(/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}){0,7}$/)
const UploadId = z.string().min(1).max(1024)

/**
 * What an agent asks of an object store at its ticket. `put`, `get` and `part` are answered by a signed request that it makes itself; the
 * rest is done by the daemon. Keys are relative to the prefix of the ticket: one server of one store.
 */
export const StoreOperation = z.discriminatedUnion('op', [
  z.object({ op: z.literal('put'), key: ObjectKey, bytes: Bytes }),
  z.object({ op: z.literal('get'), key: ObjectKey }),
  z.object({ op: z.literal('head'), key: ObjectKey }),
  z.object({ op: z.literal('delete'), key: ObjectKey }),
  z.object({ op: z.literal('list'), prefix: z.string().max(200), after: z.string().max(1024).nullable() }),
  z.object({ op: z.literal('begin'), key: ObjectKey }),
  z.object({
    op: z.literal('part'),
    key: ObjectKey,
    uploadId: UploadId,
    number: z.int().min(1).max(10_000),
    bytes: Bytes,
  }),
  z.object({
    op: z.literal('complete'),
    key: ObjectKey,
    uploadId: UploadId,
    parts: z
      .array(z.object({ number: z.int().min(1).max(10_000), etag: z.string().min(1).max(200) }))
      .min(1)
      .max(10_000),
  }),
  z.object({ op: z.literal('abort'), key: ObjectKey, uploadId: UploadId }),
  /** Ends uploads that were begun below the prefix and never completed; the agent knows that nobody writes there. */
  z.object({ op: z.literal('sweep') }),
])
export type StoreOperation = z.infer<typeof StoreOperation>

/** Body of a request at {@link STORE_PATH}. */
export const StoreRequest = z.object({ operations: z.array(StoreOperation).min(1).max(BACKUP_LIMITS.storeOperations) })

/** One answer for each operation, in their order. Fields that an operation does not have are absent. */
export const StoreAnswer = z.object({
  answers: z.array(
    z.object({
      /** Of `put`, `get`, `part`: the request to make, good for a quarter of an hour. */
      request: z.object({ url: z.string().max(8192), headers: z.record(z.string(), z.string()) }).optional(),
      /** Of `head`: null where there is no such object. */
      bytes: Bytes.nullable().optional(),
      uploadId: UploadId.optional(),
      objects: z
        .array(z.object({ key: z.string().max(1024), bytes: Bytes }))
        .max(1000)
        .optional(),
      /** Of `list`: where it goes on. */
      next: z.string().max(1024).nullable().optional(),
    }),
  ),
})
export type StoreAnswer = z.infer<typeof StoreAnswer>
