import { z } from 'zod'
import { createBackup, StoreAccess } from './backups.ts'
import { defineRequest } from './define.ts'
import { FILE_LIMITS, FileProblem } from './file-operations.ts'
import { TRANSFER_LIMITS } from './files.ts'

/** Limits of moves between panels; bytes, counts and milliseconds. */
export const MIGRATION_LIMITS = {
  /** Entries of one server. */
  entries: 1_000_000,
  /** How long one server's files may take to come. */
  mostMs: 7 * 24 * 3600_000,
  /** What lies ready, or was put in its place, is known by its step for so long. */
  keptMs: 7 * 24 * 3600_000,
  /** Slower than this nobody waits for. */
  leastBytesPerSecond: 16 * 1024,
  /** Rows of one page of a folder with servers, and of differences that a check names. */
  rows: 100,
  /** What one `panel-server.yaml` may have. */
  manifestBytes: 64 * 1024,
} as const

/** The name of the file that says what server a folder has. */
export const MANIFEST_FILE = 'panel-server.yaml'

const area = { capability: 'migration@1' } as const
const Bytes = z.int().min(0)
const Count = z.int().min(0)
const Sha1 = z.string().regex(/^[0-9a-f]{40}$/)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const Ticket = z.string().regex(/^[A-Za-z0-9_-]{43}$/)
const Text = z.string().max(20_000)
/** An absolute path of the node, which must be a folder that its `agent.yaml` allows, or lie below one. */
const NodePath = z.string().min(1).max(4096)
/** The step of a job. Work is started, asked for, gone on with and removed by it, whatever has ended in between. */
const StepId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/)
const Problems = { problems: z.array(FileProblem).max(FILE_LIMITS.problems), problemCount: Count }

/**
 * Where the files of a server come from. `url`: the node asks the source's node once, without credentials; scheme, host and port must be
 * among `origins`, and no redirect is followed. Private addresses are asked where the node's `agent.yaml` allows them. `ticket`: the same
 * archive through the daemon, for nodes that do not reach the source. `directory`: a folder of the node itself.
 */
export const FilesSource = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('url'),
    url: z.string().min(1).max(8192),
    /** Such as `https://node.example.com:8080`. */
    origins: z.array(z.string().min(1).max(300)).min(1).max(20),
    /** Certificates of the source are not checked. */
    insecure: z.boolean(),
  }),
  z.object({ kind: z.literal('ticket'), ticket: Ticket }),
  z.object({ kind: z.literal('directory'), path: NodePath, folder: z.string().min(1).max(255) }),
])
export type FilesSource = z.infer<typeof FilesSource>

/** What has come, and lies ready beside the server's folder. */
export const PulledFiles = z.object({
  /** Files, folders and links. */
  entries: Count,
  files: Count,
  /** What the files have. */
  bytes: Bytes,
  /** Of the list of all files: lines `<sha256>  ./<path>`, sorted by the bytes of the paths; so the same files have the same. */
  manifestSha256: Sha256,
  /** Of the archive as it came; null of a folder. */
  archiveBytes: Bytes.nullable(),
  archiveSha1: Sha1.nullable(),
  /** What was left out, and why: devices, links that lead out. */
  ...Problems,
})
export type PulledFiles = z.infer<typeof PulledFiles>

const Coming = z.object({ entries: Count, bytes: Bytes, archiveBytes: Bytes, totalBytes: Bytes.nullable() })
const long = { progress: Coming, cancels: true, timeoutMs: TRANSFER_LIMITS.patienceMs } as const

/**
 * Fetches a server's files and unpacks them beside its folder, where nobody reaches them. Work that is under way for this step is gone on
 * with, and what lies ready is answered again: the source is asked once. It does not end with the connection; its caller's cancel ends only
 * the waiting, and `migration.wipe` the work. Errors: PATH_INVALID (`url`, `path`): the node may not ask there, take another way;
 * INTERRUPTED, TIMEOUT: the source or the way to it, ask again with a fresh URL; CHECKSUM: other bytes than expected; ARCHIVE_UNSUPPORTED:
 * the archive is hostile or none, nothing to repeat; NO_SPACE. After an error nothing of it is left.
 */
export const pullFiles = defineRequest({
  op: 'migration.pull',
  ...area,
  input: {
    stepId: StepId,
    serverId: z.string(),
    source: FilesSource,
    /** Of the archive; null: not known. */
    expectBytes: Bytes.nullable(),
    expectSha1: Sha1.nullable(),
    /** What may be unpacked at most; the disk limit of the server and the room of the node hold as well. */
    most: z.object({
      entries: z.int().min(1).max(MIGRATION_LIMITS.entries),
      bytes: z.int().min(1),
      ms: z.int().min(1).max(MIGRATION_LIMITS.mostMs),
    }),
    /** How fast an archive may come, by whichever way; absent: as fast as it does. */
    bytesPerSecond: z.int().min(MIGRATION_LIMITS.leastBytesPerSecond).optional(),
  },
  result: PulledFiles,
  ...long,
})

/** How far a step is. `none`: the node knows nothing of it, or an agent was ended in the middle: what was there is removed, begin anew. */
export const askFiles = defineRequest({
  op: 'migration.ask',
  ...area,
  input: { stepId: StepId },
  result: z.object({
    state: z.enum(['none', 'pulling', 'ready', 'placed']),
    progress: Coming.nullable(),
    /** Of `ready` and `placed`. */
    pulled: PulledFiles.nullable(),
  }),
})

/**
 * Compares what lies ready, or was put in its place, with the list that was made while it was unpacked. `full` reads every byte again,
 * `sample` one file of twenty, at least a hundred of them; both count all of it. Errors: NOT_FOUND: nothing of this step is there.
 */
export const verifyFiles = defineRequest({
  op: 'migration.verify',
  ...area,
  input: { stepId: StepId, mode: z.enum(['full', 'sample']) },
  result: z.object({
    files: Count,
    /** Files that were read. */
    read: Count,
    bytes: Bytes,
    differences: z.array(FileProblem).max(MIGRATION_LIMITS.rows),
    differenceCount: Count,
  }),
  progress: z.object({ entries: Count, bytes: Bytes }),
  cancels: true,
  timeoutMs: TRANSFER_LIMITS.patienceMs,
})

/**
 * Puts what lies ready into the place of the server's folder, in one step that an agent which is ended in between finishes; the server must
 * not run. Asked again for a step that is in its place, it answers and does nothing. `existing` says what happens to files that the server
 * has: `fail` leaves all as it is with CONFLICT_STATE, `replace` removes them, `merge` keeps what has not come. Errors: NOT_FOUND.
 */
export const placeFiles = defineRequest({
  op: 'migration.place',
  ...area,
  input: { stepId: StepId, serverId: z.string(), existing: z.enum(['fail', 'replace', 'merge']) },
  result: z.object({ placed: z.boolean() }),
  progress: z.object({ entries: Count, bytes: Bytes }),
  cancels: true,
  timeoutMs: TRANSFER_LIMITS.patienceMs,
})

/**
 * Makes a backup of what lies ready of a step, as `backups.create` makes one of a server's folder: a backup that was made elsewhere comes so.
 * What lies ready stays. Errors: NOT_FOUND: nothing of this step is there.
 */
export const keepFiles = defineRequest({
  op: 'migration.keep',
  ...area,
  input: {
    stepId: StepId,
    serverId: z.string(),
    store: StoreAccess,
    ownerId: createBackup.input.shape.ownerId,
    backupId: createBackup.input.shape.backupId,
    key: createBackup.input.shape.key,
    compression: createBackup.input.shape.compression,
    about: createBackup.input.shape.about,
  },
  result: createBackup.result,
  progress: createBackup.progress,
  cancels: true,
  timeoutMs: TRANSFER_LIMITS.patienceMs,
})

/** Ends the work of a step and removes what it has left aside; files that are in their place stay. A step that is not known is no failure. */
export const wipeFiles = defineRequest({
  op: 'migration.wipe',
  ...area,
  input: { stepId: StepId },
  result: z.object({ wiped: z.boolean() }),
  progress: z.object({ entries: Count, bytes: Bytes }),
  timeoutMs: TRANSFER_LIMITS.patienceMs,
})

const Name = z.string().min(1).max(191)
const Port = z.int().min(1).max(65_535)

/** What a `panel-server.yaml` says of the server in its folder; sizes in MiB, of which 0 is no limit. */
export const ServerManifest = z.strictObject({
  name: Name,
  /** Name or id of a template of the panel. */
  template: Name,
  /** E-mail address or user name of an account of the panel; absent: whoever moves it. */
  owner: z.string().min(1).max(254).optional(),
  description: z.string().max(2000).optional(),
  limits: z.strictObject({
    memoryMb: z.int().min(0),
    diskMb: z.int().min(0),
    /** Cores; 0 is no limit. */
    cpu: z.number().min(0).max(1024).optional(),
    swapMb: z.int().min(-1).optional(),
  }),
  /** The first one is the server's main port. */
  ports: z.array(Port).min(1).max(100),
  /** Values of the template's variables. */
  variables: z
    .record(
      z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,99}$/),
      z.union([z.string().max(10_000), z.number(), z.boolean()]),
    )
    .default({}),
})
export type ServerManifest = z.infer<typeof ServerManifest>

/** A page of the servers in a folder of the node, by name: each sub-folder with what its `panel-server.yaml` says, or why it is none. */
export const listDirectory = defineRequest({
  op: 'migration.list',
  ...area,
  input: { path: NodePath, after: z.string().max(4096).nullable(), limit: z.int().min(1).max(MIGRATION_LIMITS.rows) },
  result: z.object({
    servers: z
      .array(
        z.object({
          folder: Text,
          manifest: ServerManifest.nullable(),
          /** Why it cannot come; null when it can. */
          problem: z.string().max(1000).nullable(),
          /** What its files have; null when there is a problem. */
          bytes: Bytes.nullable(),
          files: Count.nullable(),
          /**
           * Names the state of its files by their paths, sizes, modes and times of change, without reading them: as long as it is the same,
           * there is nothing to bring anew.
           */
          fingerprint: Sha256.nullable().optional(),
        }),
      )
      .max(MIGRATION_LIMITS.rows),
    next: Text.nullable(),
  }),
  progress: z.object({ entries: Count, bytes: Bytes }),
  cancels: true,
  timeoutMs: TRANSFER_LIMITS.patienceMs,
})
