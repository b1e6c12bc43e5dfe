import { z } from 'zod'
import { ShownFilePaths } from '../kernel/file-paths.ts'
import { defineRequest } from './define.ts'
import { FURTHEST_MS, TRANSFER_LIMITS } from './files.ts'

/** Limits of one request; bytes and milliseconds. */
export const FILE_LIMITS = {
  /** Entries of one page of a listing. */
  pageEntries: 10_000,
  /** Paths that one request names. */
  paths: 1000,
  /** Rows of one answer that is made by walking: the largest folders, hits, checksums. */
  rows: 5000,
  /** What an answer may have as JSON, so that it fits into a frame. */
  answerBytes: 600_000,
  /** What could not be done is listed up to this many; the count says how many there are. */
  problems: 100,
  /** A search looks for so long at most. */
  searchMs: 60_000,
  /** Long operations of one server at the same time. */
  atOnce: 4,
} as const

const area = { capability: 'files@2' } as const
const serverId = z.string()
const Bytes = z.int().min(0)
const Count = z.int().min(0)
const Mode = z.int().min(0).max(0o777)
/** Below the folder of the server, as `kernel/path-text.ts` writes bytes; `/` is that folder itself. */
const Path = z.string().min(1).max(4096)
/** A name or path that an agent answers. */
const Text = z.string().max(20_000)
const Paths = z.array(Path).min(1).max(FILE_LIMITS.paths)
/** Patterns, as .gitignore has them, of what whoever asks does not get: neither read nor changed, also not as a part of a tree. */
const Denied = z.array(z.string().max(1000)).max(1000).default([])
/**
 * What whoever asks is held to. An agent that does not know it would answer too much: it is sent to those alone that can `file-paths@1`.
 */
const FilePaths = ShownFilePaths.optional()
/** Names work that may be asked for again after a failure in the middle: what the first time has left is then removed. */
const Key = z.string().regex(/^[0-9a-f]{32}$/)
const Ticket = z.string().regex(/^[A-Za-z0-9_-]{43}$/)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** What an entry of a folder is. `size` of a link is that of its text; `allocated` is what it takes on the disk. */
export const EntryFacts = z.object({
  name: Text,
  kind: z.enum(['file', 'folder', 'link', 'other']).catch('other'),
  size: Bytes,
  allocated: Bytes,
  mode: z.int().min(0).max(0o7777),
  uid: Count,
  gid: Count,
  modifiedMs: z.number().min(-FURTHEST_MS).max(FURTHEST_MS),
  /** What a link says. */
  target: Text.nullable(),
})
export type EntryFacts = z.infer<typeof EntryFacts>

/** What was left out, or failed, and why. */
export const FileProblem = z.object({ path: Text, reason: z.string().max(300) })
export type FileProblem = z.infer<typeof FileProblem>

const Problems = { problems: z.array(FileProblem).max(FILE_LIMITS.problems), problemCount: Count }
const Walked = z.object({ entries: Count, bytes: Bytes })
const long = { progress: Walked, cancels: true, timeoutMs: TRANSFER_LIMITS.patienceMs } as const

/** The entries of a folder behind the name `after`, in the order of their bytes. `next`: the name to go on behind; `null`: none. */
export const listFolder = defineRequest({
  op: 'files.list',
  ...area,
  input: {
    serverId,
    path: Path,
    after: z.string().max(4096).nullable(),
    limit: z.int().min(1).max(FILE_LIMITS.pageEntries),
    filePaths: FilePaths,
  },
  result: z.object({
    entries: z.array(EntryFacts).max(FILE_LIMITS.pageEntries),
    /** Of the whole folder. */
    total: Count,
    next: Text.nullable(),
  }),
  cancels: true,
  progress: Walked,
  timeoutMs: TRANSFER_LIMITS.patienceMs,
})

/** One entry, whatever it is. */
export const describeEntry = defineRequest({
  op: 'files.describe',
  ...area,
  input: { serverId, path: Path },
  result: EntryFacts,
})

/** Makes a folder. With `parents` those above it as well, and one that is there is no failure. */
export const makeServerFolder = defineRequest({
  op: 'files.make_folder',
  ...area,
  input: { serverId, path: Path, parents: z.boolean() },
  result: z.object({ made: z.boolean() }),
})

/** Gives an entry another name or place. `replace`: also where there is a file or link already, which is then gone. */
export const renameEntry = defineRequest({
  op: 'files.rename',
  ...area,
  input: { serverId, from: Path, to: Path, replace: z.boolean(), denied: Denied, filePaths: FilePaths },
})

/** Makes a link whose text leads to a place below the server's folder. */
export const linkEntry = defineRequest({
  op: 'files.link',
  ...area,
  input: { serverId, path: Path, target: z.string().min(1).max(4096) },
})

/** Copies a file, a link or a tree; `to` appears when all of it is there. */
export const copyEntry = defineRequest({
  op: 'files.copy',
  ...area,
  input: {
    serverId,
    from: Path,
    to: Path,
    replace: z.boolean(),
    denied: Denied,
    filePaths: FilePaths,
    key: Key.optional(),
  },
  result: Walked.extend(Problems),
  ...long,
})

/** Removes entries, trees among them. */
export const deleteEntries = defineRequest({
  op: 'files.delete',
  ...area,
  input: { serverId, paths: Paths, denied: Denied, filePaths: FilePaths },
  result: z.object({ entries: Count, ...Problems }),
  ...long,
})

/** Sets the mode of files and folders. With `recursive` all below them, folders by `folderMode`. */
export const setModes = defineRequest({
  op: 'files.permissions',
  ...area,
  input: {
    serverId,
    paths: Paths,
    mode: Mode,
    recursive: z.boolean(),
    folderMode: Mode.nullable(),
    denied: Denied,
    filePaths: FilePaths,
  },
  result: z.object({ entries: Count, ...Problems }),
  ...long,
})

/** SHA-256 of files, and of all regular files below folders. */
export const sumFiles = defineRequest({
  op: 'files.checksums',
  ...area,
  input: { serverId, paths: z.array(Path).min(1).max(100), denied: Denied, filePaths: FilePaths },
  result: z.object({
    files: z.array(z.object({ path: Text, size: Bytes, sha256: Sha256 })).max(FILE_LIMITS.rows),
    /** There are more files than an answer has. */
    isCut: z.boolean(),
    ...Problems,
  }),
  ...long,
})

/** What folders take, up to `depth` below the path, the largest first. */
export const measureFolders = defineRequest({
  op: 'files.usage',
  ...area,
  input: { serverId, path: Path, depth: z.int().min(0).max(32), limit: z.int().min(1).max(1000), filePaths: FilePaths },
  result: Walked.extend({
    allocated: Bytes,
    folders: z.array(z.object({ path: Text, bytes: Bytes, allocated: Bytes, entries: Count })).max(1000),
  }),
  ...long,
})

/** Looks for entries by their names, and in regular files for a text or an expression. */
export const searchFiles = defineRequest({
  op: 'files.search',
  ...area,
  input: {
    serverId,
    path: Path,
    /** As shells have it, for the name alone. */
    name: z.string().min(1).max(255).nullable(),
    text: z.string().min(1).max(1000).nullable(),
    /** `text` is an expression of RE2. */
    isPattern: z.boolean(),
    ignoreCase: z.boolean(),
    kind: z.enum(['file', 'folder', 'link', 'other']).nullable(),
    limit: z.int().min(1).max(FILE_LIMITS.rows),
    maxFileBytes: Bytes,
    maxMs: z.int().min(1).max(FILE_LIMITS.searchMs),
    denied: Denied,
    filePaths: FilePaths,
  },
  result: z.object({
    hits: z
      .array(
        z.object({
          path: Text,
          kind: z.enum(['file', 'folder', 'link', 'other']).catch('other'),
          size: Bytes,
          modifiedMs: z.number().min(-FURTHEST_MS).max(FURTHEST_MS),
          /** The first line that has it. */
          line: Count.nullable(),
          text: z.string().max(2000).nullable(),
        }),
      )
      .max(FILE_LIMITS.rows),
    entries: Count,
    bytes: Bytes,
    /** What has ended it before all was looked at. */
    cut: z.enum(['hits', 'time', 'bytes']).nullable().catch('time'),
    /** Files that were not read: too large, not text, or closed. */
    unread: Count,
    /** The first of them, with the reason; of an agent that does not say it, none. */
    problems: z.array(FileProblem).max(FILE_LIMITS.problems).default([]),
  }),
  ...long,
})

const Packing = Walked.extend(Problems)

/** Packs files and trees into an archive; its name says which kind. `to` appears when it is whole. */
export const compressFiles = defineRequest({
  op: 'files.compress',
  ...area,
  input: {
    serverId,
    paths: Paths,
    to: Path,
    replace: z.boolean(),
    denied: Denied,
    filePaths: FilePaths,
    key: Key.optional(),
  },
  result: Packing.extend({ archiveBytes: Bytes }),
  ...long,
})

/** Unpacks an archive into a folder, which is made where there is none; nothing appears before all of it was read. */
export const extractArchive = defineRequest({
  op: 'files.extract',
  ...area,
  input: {
    serverId,
    path: Path,
    to: Path,
    replace: z.boolean(),
    denied: Denied,
    filePaths: FilePaths,
    key: Key.optional(),
  },
  result: Packing,
  ...long,
})

/** What is in an archive, from entry number `skip` on. */
export const listArchive = defineRequest({
  op: 'files.archive_list',
  ...area,
  input: { serverId, path: Path, skip: Count, limit: z.int().min(1).max(FILE_LIMITS.rows) },
  result: z.object({
    entries: z
      .array(
        z.object({
          name: Text,
          kind: z.enum(['file', 'folder', 'link', 'hard link', 'other']).catch('other'),
          size: Bytes,
          modifiedMs: z.number().min(-FURTHEST_MS).max(FURTHEST_MS),
        }),
      )
      .max(FILE_LIMITS.rows),
    isLast: z.boolean(),
  }),
  ...long,
})

/** Delivers a file, a link or a tree as a tar, for another server. */
export const sendTree = defineRequest({
  op: 'files.send_tree',
  ...area,
  input: { serverId, path: Path, denied: Denied, filePaths: FilePaths, ticket: Ticket },
  result: Packing.extend({ sha256: Sha256 }),
  ...long,
})

/** Fetches such a tar and unpacks it into a folder. */
export const receiveTree = defineRequest({
  op: 'files.receive_tree',
  ...area,
  input: {
    serverId,
    to: Path,
    replace: z.boolean(),
    denied: Denied,
    filePaths: FilePaths,
    key: Key.optional(),
    ticket: Ticket,
  },
  result: Packing,
  ...long,
})

/** Fetches a file from an address of the internet. Each address on the way has to be a public one, or one that the node allows. */
export const pullFile = defineRequest({
  op: 'files.pull',
  ...area,
  input: {
    serverId,
    url: z.string().min(1).max(4096),
    /** A folder; its name there is what the source says, or `name`. */
    to: Path,
    name: z.string().min(1).max(255).nullable(),
    replace: z.boolean(),
    maxBytes: Bytes,
    maxMs: z
      .int()
      .min(1)
      .max(24 * 3600_000),
    denied: Denied,
    filePaths: FilePaths,
    key: Key.optional(),
  },
  result: z.object({ path: Text, size: Bytes, sha256: Sha256, etag: z.string().max(100) }),
  ...long,
})
