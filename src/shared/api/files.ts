import { z } from 'zod'
import { ByteStream, defineEndpoint, defineExactEndpoint, NoData, StreamAnswer, Upload } from '../kernel/contract.ts'
import { ServerId } from '../kernel/ids.ts'

const params = { serverId: ServerId }
const FilePath = z.string().min(1).max(4096)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 of 64 hex digits')

/** 10 MiB of text, as JSON may write it. */
const TEXT_BODY_BYTES = 64 * 1024 * 1024

/** Beyond the limit of uploads that the settings name. */
const ANY_SIZE = 2 ** 50

const nodeErrors = ['NODE_OFFLINE', 'AGENT_TIMEOUT', 'AGENT_ERROR', 'AGENT_VERSION', 'RATE_LIMITED'] as const
const fileErrors = [
  'SERVER_NOT_FOUND',
  'SERVER_SUSPENDED',
  'FILE_NOT_FOUND',
  'FILE_PATH_INVALID',
  'PERMISSION_DENIED',
  ...nodeErrors,
] as const

/** A name or path that may hold bytes that are no UTF-8: see `kernel/path-text.ts`. */
const Text = z.string()
const Mode = z.int().min(0).max(0o777)

/** "755" as people write it, or the number. */
const ModeInput = z.union([
  Mode,
  z
    .string()
    .regex(/^0?[0-7]{3}$/, 'must be three octal digits such as 755')
    .transform((text) => Number.parseInt(text, 8)),
])

/** An entry of a folder. `allocated`: what it takes on the disk; `target`: what a link says. */
export const FileEntry = z.object({
  name: Text,
  path: Text,
  kind: z.enum(['file', 'folder', 'link', 'other']),
  isDirectory: z.boolean(),
  size: z.int(),
  allocated: z.int(),
  mode: z.int(),
  uid: z.int(),
  gid: z.int(),
  modified: z.string(),
  target: Text.nullable(),
})
export type FileEntry = z.infer<typeof FileEntry>

/** What an operation on many files has left out, the first 100 by their names. */
const Problems = {
  problems: z.array(z.object({ path: Text, reason: z.string() })),
  problemCount: z.int(),
}

/** A file of a server, once it has been written. */
export const WrittenFile = z.object({
  path: z.string(),
  size: z.int(),
  sha256: z.string(),
  etag: z.string(),
  modifiedAt: z.string(),
})
export type WrittenFile = z.infer<typeof WrittenFile>

/**
 * With `upload`, a SHA-256, it answers no bytes and the header Upload-Offset: how much of an interrupted upload of that file is
 * there.
 */
export const readFile = defineExactEndpoint({
  id: 'files.read',
  tag: 'Servers',
  summary: 'Read a file of a server, or a range of it',
  method: 'GET',
  path: '/api/servers/:serverId/files/content',
  access: { server: ['file.read'] },
  params,
  query: z.object({ path: FilePath, upload: Sha256.optional() }),
  answers: 'stream',
  response: StreamAnswer,
  errors: [...fileErrors, 'CONFLICT', 'ETAG_MISMATCH', 'RANGE_NOT_SATISFIABLE'],
})

/**
 * The file is replaced when all of it has arrived. With `sha256` it has to have that hash, and an interrupted upload can be gone on
 * with: `offset` is what the header Upload-Offset of HEAD with `upload` says, and the body is the rest. If-Match and
 * If-None-Match: * refuse to replace another file than the one that is meant.
 */
export const writeFile = defineExactEndpoint({
  id: 'files.write',
  tag: 'Servers',
  summary: 'Write a file of a server',
  method: 'PUT',
  path: '/api/servers/:serverId/files/content',
  access: { server: ['file.write'] },
  params,
  query: z.object({
    path: FilePath,
    sha256: Sha256.optional(),
    offset: z.coerce.number().int().min(0).max(ANY_SIZE).optional(),
  }),
  accepts: 'stream',
  body: ByteStream,
  bodyLimit: ANY_SIZE,
  response: WrittenFile,
  errors: [...fileErrors, 'CONFLICT', 'ETAG_MISMATCH', 'PAYLOAD_TOO_LARGE', 'INSUFFICIENT_SPACE'],
  audit: { action: 'server.file_write' },
})

/** The same as `files.read`, by the name that other panels have. */
export const downloadFile = defineExactEndpoint({
  id: 'files.download',
  tag: 'Servers',
  summary: 'Download a file of a server',
  method: 'GET',
  path: '/api/servers/:serverId/files/download',
  access: { server: ['file.read'] },
  params,
  query: z.object({ path: FilePath }),
  answers: 'stream',
  response: StreamAnswer,
  errors: [...fileErrors, 'CONFLICT', 'ETAG_MISMATCH', 'RANGE_NOT_SATISFIABLE'],
})

/**
 * A page of a folder, in the order of the bytes of its names. `next` is what `after` is for the following page; `null`: there is none.
 * A folder may change between two pages.
 */
export const listFiles = defineExactEndpoint({
  id: 'files.list',
  tag: 'Servers',
  summary: 'List a folder of a server',
  method: 'GET',
  path: '/api/servers/:serverId/files',
  access: { server: ['file.read'] },
  params,
  query: z.object({
    path: FilePath.default('/'),
    after: z.string().max(4096).optional(),
    limit: z.coerce.number().int().min(1).max(10_000).default(1000),
  }),
  response: z.object({
    path: Text,
    files: z.array(FileEntry),
    /** Entries of the whole folder. */
    total: z.int(),
    next: Text.nullable(),
  }),
  errors: fileErrors,
})

export const statFile = defineExactEndpoint({
  id: 'files.stat',
  tag: 'Servers',
  summary: 'Show one file, folder or link of a server',
  method: 'GET',
  path: '/api/servers/:serverId/files/stat',
  access: { server: ['file.read'] },
  params,
  query: z.object({ path: FilePath }),
  response: FileEntry,
  errors: fileErrors,
})

const changeErrors = [...fileErrors, 'CONFLICT', 'INSUFFICIENT_SPACE'] as const

/** With `parents` folders above are made as well, and a folder that is there is no failure. */
export const createFile = defineExactEndpoint({
  id: 'files.create',
  tag: 'Servers',
  summary: 'Make a folder, or a file that is not there yet',
  method: 'POST',
  path: '/api/servers/:serverId/files/create',
  access: { server: ['file.write'] },
  params,
  body: z.object({
    path: FilePath,
    isDirectory: z.boolean(),
    content: z.string().optional(),
    parents: z.boolean().default(false),
  }),
  bodyLimit: TEXT_BODY_BYTES,
  response: z.object({ path: Text, created: z.boolean() }),
  errors: [...changeErrors, 'PAYLOAD_TOO_LARGE'],
  audit: { action: 'server.file_create' },
})

/** A text of at most 10 MiB, in UTF-8; larger files and bytes go by `files.write`. If-Match holds as it does there. */
export const writeText = defineExactEndpoint({
  id: 'files.write_text',
  tag: 'Servers',
  summary: 'Write a text into a file of a server',
  method: 'POST',
  path: '/api/servers/:serverId/files/write',
  access: { server: ['file.write'] },
  params,
  body: z.object({ path: FilePath, content: z.string() }),
  bodyLimit: TEXT_BODY_BYTES,
  response: WrittenFile,
  errors: [...changeErrors, 'ETAG_MISMATCH', 'PAYLOAD_TOO_LARGE'],
  audit: { action: 'server.file_write' },
})

/** `path` is the folder, in the query or in a field of the form before the file, whose name the form says. */
export const uploadFile = defineExactEndpoint({
  id: 'files.upload',
  tag: 'Servers',
  summary: 'Upload a file by a form',
  method: 'POST',
  path: '/api/servers/:serverId/files/upload',
  access: { server: ['file.write'] },
  params,
  query: z.object({ path: FilePath.optional() }),
  accepts: 'multipart',
  body: Upload,
  bodyLimit: ANY_SIZE,
  response: WrittenFile,
  errors: [...changeErrors, 'PAYLOAD_TOO_LARGE'],
  audit: { action: 'server.file_write' },
})

/** Within one server. `replace`: also where there is a file or link, which is then gone; a folder is never replaced. */
export const renameFile = defineExactEndpoint({
  id: 'files.rename',
  tag: 'Servers',
  summary: 'Rename or move a file or folder of a server',
  method: 'POST',
  path: '/api/servers/:serverId/files/rename',
  access: { server: ['file.write'] },
  params,
  body: z.object({ from: FilePath, to: FilePath, replace: z.boolean().default(false) }),
  response: NoData,
  errors: changeErrors,
  audit: { action: 'server.file_rename' },
})

/**
 * `to` appears when all of it is there; what fails, or is cancelled by going away, leaves nothing. What is no file, folder or link is left
 * out and named.
 */
export const copyFile = defineExactEndpoint({
  id: 'files.copy',
  tag: 'Servers',
  summary: 'Copy a file or folder within a server',
  method: 'POST',
  path: '/api/servers/:serverId/files/copy',
  access: { server: ['file.write'] },
  params,
  body: z.object({ from: FilePath, to: FilePath, replace: z.boolean().default(false) }),
  response: z.object({ entries: z.int(), bytes: z.int(), ...Problems }),
  errors: changeErrors,
  audit: { action: 'server.file_copy' },
  long: true,
})

/**
 * Modes of reading, writing and executing; the bits that change the user, and the sticky bit, are taken away. With `recursive`
 * folders below get `folderMode`: by default `mode`, and whoever may read may enter.
 */
export const setFilePermissions = defineExactEndpoint({
  id: 'files.permissions',
  tag: 'Servers',
  summary: 'Set the mode of a file or folder of a server',
  method: 'POST',
  path: '/api/servers/:serverId/files/permissions',
  access: { server: ['file.write'] },
  params,
  body: z.object({
    path: FilePath,
    mode: ModeInput,
    recursive: z.boolean().default(false),
    folderMode: ModeInput.optional(),
  }),
  response: z.object({ entries: z.int(), ...Problems }),
  errors: changeErrors,
  audit: { action: 'server.file_permissions' },
  long: true,
})

/** `target` is the text of the link: relative, and to a place below the folder of the server. */
export const linkFile = defineExactEndpoint({
  id: 'files.link',
  tag: 'Servers',
  summary: 'Make a symbolic link in the folder of a server',
  method: 'POST',
  path: '/api/servers/:serverId/files/link',
  access: { server: ['file.write'] },
  params,
  body: z.object({ path: FilePath, target: z.string().min(1).max(4096) }),
  response: NoData,
  errors: changeErrors,
  audit: { action: 'server.file_link' },
})

export const deleteFile = defineExactEndpoint({
  id: 'files.delete',
  tag: 'Servers',
  summary: 'Delete a file, or a folder with all that is in it',
  method: 'DELETE',
  path: '/api/servers/:serverId/files/delete',
  access: { server: ['file.write'] },
  params,
  query: z.object({ path: FilePath }),
  response: z.object({ entries: z.int() }),
  errors: changeErrors,
  audit: { action: 'server.file_delete' },
  long: true,
})

/** One after the other; what cannot be deleted is named, and the others are deleted. */
export const deleteFiles = defineExactEndpoint({
  id: 'files.delete_many',
  tag: 'Servers',
  summary: 'Delete several files and folders of a server',
  method: 'POST',
  path: '/api/servers/:serverId/files/delete',
  access: { server: ['file.write'] },
  params,
  body: z.object({ paths: z.array(FilePath).min(1).max(1000) }),
  response: z.object({ entries: z.int(), ...Problems }),
  errors: changeErrors,
  audit: { action: 'server.file_delete' },
  long: true,
})

const Done = z.object({ entries: z.int(), bytes: z.int(), ...Problems })

const Compress = z.object({
  paths: z.array(FilePath).min(1).max(1000),
  archiveName: FilePath,
  replace: z.boolean().default(false),
})

/**
 * The end of `archiveName` says which kind: .tar, .tar.gz, .tgz, .tar.xz, .tar.zst or .zip. A name without a slash lies in the folder
 * that all of the paths lie in. The archive appears when it is whole.
 */
export const compressFiles = defineExactEndpoint({
  id: 'files.compress',
  tag: 'Servers',
  summary: 'Pack files and folders of a server into an archive',
  method: 'POST',
  path: '/api/servers/:serverId/files/compress',
  access: { server: ['file.write'] },
  params,
  body: Compress,
  response: Done.extend({ archivePath: Text, size: z.int() }),
  errors: [...changeErrors, 'FILE_ARCHIVE_UNSUPPORTED'],
  audit: { action: 'server.file_compress' },
  long: true,
})

const Decompress = z.object({
  archivePath: FilePath,
  targetPath: FilePath.default('/'),
  replace: z.boolean().default(true),
})

/**
 * Which kind of archive it is stands in its first bytes. Entries appear when all of it was read; what fails before that changes nothing.
 * Entries that would lie outside end it; links out of the server's folder, devices and the like are left out and named.
 */
export const decompressFile = defineExactEndpoint({
  id: 'files.decompress',
  tag: 'Servers',
  summary: 'Unpack an archive of a server',
  method: 'POST',
  path: '/api/servers/:serverId/files/decompress',
  access: { server: ['file.write'] },
  params,
  body: Decompress,
  response: Done,
  errors: [...changeErrors, 'FILE_ARCHIVE_UNSUPPORTED'],
  audit: { action: 'server.file_decompress' },
  long: true,
})

export const ArchiveEntry = z.object({
  name: Text,
  kind: z.enum(['file', 'folder', 'link', 'hard link', 'other']),
  isDirectory: z.boolean(),
  size: z.int(),
  modified: z.string(),
})
export type ArchiveEntry = z.infer<typeof ArchiveEntry>

/** In the order of the archive, from entry number `skip` on; fewer than `limit`: there are no more. */
export const listArchive = defineExactEndpoint({
  id: 'files.archive_contents',
  tag: 'Servers',
  summary: 'List what is in an archive of a server',
  method: 'POST',
  path: '/api/servers/:serverId/files/archive-contents',
  access: { server: ['file.read'] },
  params,
  body: z.object({
    archivePath: FilePath,
    skip: z.int().min(0).default(0),
    limit: z.int().min(1).max(20_000).default(5000),
  }),
  response: z.array(ArchiveEntry),
  errors: [...fileErrors, 'CONFLICT', 'FILE_ARCHIVE_UNSUPPORTED'],
  audit: { none: 'reads what is in an archive' },
  long: true,
})

const Pull = z.object({
  url: z
    .string()
    .max(4096)
    .refine(
      (text) => URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol),
      'must be a URL of http or https',
    ),
  /** A folder of the server. */
  path: FilePath.default('/'),
  /** What it is called there; by default what the source says. */
  name: z.string().min(1).max(255).optional(),
  replace: z.boolean().default(false),
})

/** The node itself asks; addresses that are no public ones are refused, at each redirect again. */
export const pullFile = defineExactEndpoint({
  id: 'files.pull',
  tag: 'Servers',
  summary: 'Fetch a file from a URL into a folder of a server',
  method: 'POST',
  path: '/api/servers/:serverId/files/pull',
  access: { server: ['file.write'] },
  params,
  body: Pull,
  response: z.object({ path: Text, size: z.int(), sha256: z.string() }),
  errors: changeErrors,
  audit: { action: 'server.file_pull' },
  long: true,
})

/** Work on files that may take long, as jobs have it. */
export const FileWork = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('copy'), from: FilePath, to: FilePath, replace: z.boolean().default(false) }),
  z.object({ kind: z.literal('delete'), paths: z.array(FilePath).min(1).max(1000) }),
  Compress.extend({ kind: z.literal('compress') }),
  Decompress.extend({ kind: z.literal('decompress') }),
  Pull.extend({ kind: z.literal('pull') }),
  /** Under its own name into a folder of another server, from node to node. */
  z.object({
    kind: z.literal('copy_to_server'),
    from: FilePath,
    toServerId: ServerId,
    to: FilePath.default('/'),
    replace: z.boolean().default(false),
  }),
])
export type FileWork = z.infer<typeof FileWork>

/** The same work as by the other endpoints, which goes on when the caller leaves, and after a restart of daemon or agent. */
export const startFileJob = defineExactEndpoint({
  id: 'files.start_job',
  tag: 'Servers',
  summary: 'Start work on files of a server as a job',
  method: 'POST',
  path: '/api/servers/:serverId/files/jobs',
  access: { server: ['file.write'] },
  params,
  body: z.object({ work: FileWork }),
  response: z.object({ jobId: z.string() }),
  status: 202,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'PERMISSION_DENIED', 'FILE_ARCHIVE_UNSUPPORTED', 'RATE_LIMITED'],
  audit: { none: 'the job leaves the row of what it does' },
})

/** Of files, and of all regular files below folders: at most 5,000, and `isCut` says that there are more. */
export const sumFiles = defineExactEndpoint({
  id: 'files.checksums',
  tag: 'Servers',
  summary: 'Show SHA-256 checksums of files of a server',
  method: 'POST',
  path: '/api/servers/:serverId/files/checksums',
  access: { server: ['file.read'] },
  params,
  body: z.object({ paths: z.array(FilePath).min(1).max(100) }),
  response: z.object({
    files: z.array(z.object({ path: Text, size: z.int(), sha256: z.string() })),
    isCut: z.boolean(),
    ...Problems,
  }),
  errors: [...fileErrors, 'CONFLICT'],
  audit: { none: 'reads files and changes nothing' },
  long: true,
})

export const FolderUsage = z.object({ path: Text, bytes: z.int(), allocated: z.int(), entries: z.int() })
export type FolderUsage = z.infer<typeof FolderUsage>

/** `folders`: the largest ones up to `depth` below, each with all that is in it. */
export const measureFiles = defineExactEndpoint({
  id: 'files.usage',
  tag: 'Servers',
  summary: 'Show the largest folders of a server',
  method: 'GET',
  path: '/api/servers/:serverId/files/usage',
  access: { server: ['file.read'] },
  params,
  query: z.object({
    path: FilePath.default('/'),
    depth: z.coerce.number().int().min(0).max(32).default(1),
    limit: z.coerce.number().int().min(1).max(1000).default(50),
  }),
  response: FolderUsage.extend({ folders: z.array(FolderUsage) }),
  errors: [...fileErrors, 'CONFLICT'],
  long: true,
})

/** A hit of a search; `line` and `text` are of the first line that has what was looked for. */
export const FileHit = z.object({
  path: Text,
  kind: z.enum(['file', 'folder', 'link', 'other']),
  size: z.int(),
  modified: z.string(),
  line: z.int().nullable(),
  text: z.string().nullable(),
})
export type FileHit = z.infer<typeof FileHit>

const Flag = z
  .enum(['true', 'false'])
  .default('false')
  .transform((text) => text === 'true')

/**
 * By name (`*`, `?`, `[a-z]`), kind, and what is in text files: a text, or with `regex` an expression of RE2. `cut` says what has ended it
 * before all was looked at; `unread` counts files that are too large, no text, or closed.
 */
export const searchFiles = defineExactEndpoint({
  id: 'files.search',
  tag: 'Servers',
  summary: 'Search files of a server by name and content',
  method: 'GET',
  path: '/api/servers/:serverId/files/search',
  access: { server: ['file.read'] },
  params,
  query: z.object({
    path: FilePath.default('/'),
    name: z.string().min(1).max(255).optional(),
    text: z.string().min(1).max(1000).optional(),
    regex: Flag,
    ignoreCase: Flag,
    kind: z.enum(['file', 'folder', 'link', 'other']).optional(),
    limit: z.coerce.number().int().min(1).max(5000).default(500),
    maxFileMb: z.coerce.number().int().min(1).max(1024).default(16),
    maxSeconds: z.coerce.number().int().min(1).max(60).default(20),
  }),
  response: z.object({
    hits: z.array(FileHit),
    entries: z.int(),
    bytes: z.int(),
    cut: z.enum(['hits', 'time', 'bytes']).nullable(),
    /** Files that were not read, and the first of them with the reason. */
    unread: z.int(),
    problems: Problems.problems,
  }),
  errors: [...fileErrors, 'CONFLICT'],
  long: true,
})

export const downloadLogs = defineExactEndpoint({
  id: 'console.download',
  tag: 'Servers',
  summary: "Download a server's whole console log as text",
  method: 'GET',
  path: '/api/servers/:serverId/logs/download',
  access: { server: ['console.read'] },
  params,
  answers: 'stream',
  response: StreamAnswer,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', ...nodeErrors],
})

const ticket = { ticket: z.string().max(200) }

/** Bytes from an agent, for whom its daemon has asked. */
export const deliverBulk = defineEndpoint({
  id: 'bulk.deliver',
  tag: 'Internal',
  summary: 'Deliver the bytes of a transfer',
  method: 'PUT',
  path: '/api/agent/bulk/:ticket',
  access: 'agent',
  params: ticket,
  accepts: 'stream',
  body: ByteStream,
  bodyLimit: ANY_SIZE,
  response: NoData,
  errors: ['NOT_FOUND', 'CONFLICT'],
  audit: { none: 'moves the bytes of a request that has its own record' },
})

/** Bytes for an agent. */
export const fetchBulk = defineEndpoint({
  id: 'bulk.fetch',
  tag: 'Internal',
  summary: 'Fetch the bytes of a transfer',
  method: 'GET',
  path: '/api/agent/bulk/:ticket',
  access: 'agent',
  params: ticket,
  answers: 'stream',
  response: StreamAnswer,
  errors: ['NOT_FOUND'],
})
