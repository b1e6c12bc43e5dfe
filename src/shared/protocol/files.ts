import { z } from 'zod'
import { defineRequest } from './define.ts'

/** Bytes travel over HTTP and never through the WebSocket: the agent fetches or delivers them at a ticket (ADR 41). */
export const BULK_PATH = '/api/agent/bulk'

/** What both ends of a transfer rely on; bytes and milliseconds. */
export const TRANSFER_LIMITS = {
  /** A ticket that nobody has come for by then is void. */
  startMs: 20_000,
  /** A transfer that has moved nothing for so long is given up. */
  stallMs: 30_000,
  /** Whoever asks hears of the agent's work at least this often, by its progress. */
  patienceMs: 45_000,
  /** What is left of an interrupted upload is kept this long. */
  partMs: 24 * 3600 * 1000,
} as const

const Ticket = z.string().regex(/^[A-Za-z0-9_-]{43}$/)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const Bytes = z.int().min(0)
/** Below the folder of the server; the agent splits it and follows no link. */
const Path = z.string().min(1).max(4096)
const Moved = z.object({ bytes: Bytes })

/** The furthest time before and after 1970 that a `Date` holds; file systems may keep others. */
export const FURTHEST_MS = 8.64e15

/** What a file is now. `etag` changes with each change of its content, and fits into a header. */
export const FileFacts = z.object({
  size: Bytes,
  modifiedMs: z.number().min(-FURTHEST_MS).max(FURTHEST_MS),
  etag: z.string().regex(/^[\w.-]{1,100}$/),
})
export type FileFacts = z.infer<typeof FileFacts>

const transfer = { progress: Moved, cancels: true, timeoutMs: TRANSFER_LIMITS.patienceMs } as const

/** A regular file of a server. */
export const statFile = defineRequest({
  op: 'files.stat',
  capability: 'files@1',
  input: { serverId: z.string(), path: Path },
  result: FileFacts,
})

/** How much of an interrupted upload is there: the offset at which it goes on. */
export const uploadOffset = defineRequest({
  op: 'files.upload_offset',
  capability: 'files@1',
  input: { serverId: z.string(), path: Path, sha256: Sha256 },
  result: z.object({ offset: Bytes }),
})

/**
 * Delivers `length` bytes of a file from `offset` on, as long as it has this etag, and answers the check over what was delivered: with
 * `count`, which agents with files-bytes@1 know, how many bytes those were; otherwise SHA-256.
 */
export const sendFile = defineRequest({
  op: 'files.send',
  capability: 'files@1',
  input: {
    serverId: z.string(),
    path: Path,
    etag: z.string().max(100),
    offset: Bytes,
    length: Bytes,
    ticket: Ticket,
    count: z.boolean().optional(),
  },
  result: z.union([z.object({ bytes: Bytes }), z.object({ sha256: Sha256 })]),
  ...transfer,
})

/**
 * Fetches a file and puts it in the place of the one of that name, when all of it is there and has the hash. With `sha256` an
 * interrupted one can be gone on with from its offset; `ifMatch` and `ifNone` are looked at before and right at the end.
 */
export const receiveFile = defineRequest({
  op: 'files.receive',
  capability: 'files@1',
  input: {
    serverId: z.string(),
    path: Path,
    ticket: Ticket,
    offset: Bytes,
    /** Of the whole file; `null`: it ends where the transfer ends. */
    size: Bytes.nullable(),
    sha256: Sha256.nullable(),
    ifMatch: z.string().max(100).nullable(),
    /** Only where there is no file of that name. */
    ifNone: z.boolean(),
  },
  result: FileFacts.extend({ sha256: Sha256 }),
  ...transfer,
})

/** Delivers a server's whole console log as text, oldest line first. `sha256`: of what was delivered. */
export const sendConsoleLog = defineRequest({
  op: 'console.export',
  capability: 'console-export@1',
  input: { serverId: z.string(), ticket: Ticket },
  result: z.object({ sha256: Sha256 }),
  ...transfer,
})
