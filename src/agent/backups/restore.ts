import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { statfs } from 'node:fs/promises'
import { limitedServer } from '../disk/disk-room.ts'
import { AgentFailure } from '../failure.ts'
import { ARCHIVE_LIMITS } from '../files/archive/limits.ts'
import type { ArchiveEntry } from '../files/archive/tar-read.ts'
import { type Unpacked, type UnpackOptions, unpack, unpackInto } from '../files/archive/unpack.ts'
import { FolderHandle } from '../files/folder-handle.ts'
import { cancelled } from '../files/list.ts'
import { noSpace, rootOwner } from '../files/place.ts'
import type { PathRules } from '../files/rules.ts'
import { removeFolder } from '../files/tree.ts'
import { TOOL_PATH } from '../holder/process/launcher.ts'
import type { GameServer } from '../server/server.ts'
import { exchange, stagedFolder } from './exchange.ts'

const MIB = 1024 * 1024
/** What a restore leaves of the disk of its node. */
const RESERVE_BYTES = 64 * MIB
/** A backup may come slowly; who waits for it can end it. */
const MOST_MS = 7 * 24 * 3600_000

/** What a restore takes its entries from; `bytes`: what they say to have together, where that is known. */
export interface RestoreSource {
  readonly bytes: number | null
  entries(): AsyncIterable<ArchiveEntry>
}

/** How a backup is restored. */
export interface RestoreOptions {
  readonly rules: PathRules
  /** The patterns of those rules. */
  readonly denied: readonly string[]
  readonly key: string
  readonly signal: AbortSignal
  progress(report: { readonly entries: number; readonly bytes: number; readonly totalBytes: number | null }): void
}

/**
 * Restores all of a backup: unpacked where nobody reaches it, and put into the place of the server's folder in one step, so that what
 * fails or is cancelled before leaves everything as it was. Orders of the server wait meanwhile; one that runs, or is about to, is refused.
 */
export async function restoreAll(
  server: GameServer,
  source: RestoreSource,
  { keepOthers, ...options }: RestoreOptions & { readonly keepOthers: boolean },
): Promise<Unpacked> {
  return await whileStopped(server, (ended) => {
    const signal = AbortSignal.any([options.signal, ended])
    return exchangeAll(server, source, { ...options, keepOthers, signal })
  })
}

/**
 * Does what needs a stopped server, as an order of it; `ended` aborts when a newer order has replaced this one, or the agent ends. Throws
 * CONFLICT_STATE for a server that runs, or is about to.
 */
export async function whileStopped<T>(server: GameServer, work: (ended: AbortSignal) => Promise<T>): Promise<T> {
  refuseUnlessStopped(server)
  if (server.queue.size > 0)
    throw new AgentFailure('CONFLICT_STATE', 'The server has an order that is not done; try again')
  return await server.order(async (replaced) => {
    refuseUnlessStopped(server)
    await server.change({ activity: 'restoring' })
    try {
      return await work(AbortSignal.any([replaced, server.context.ending]))
    } finally {
      await server.change({ activity: null })
    }
  })
}

/** Restores some paths of a backup: each goes to its place when all of them have come. */
export async function restorePaths(
  server: GameServer,
  source: RestoreSource,
  { replace, ...options }: RestoreOptions & { readonly replace: boolean },
): Promise<Unpacked> {
  const nodeBytes = await nodeRoom(server)
  return await server.context.rooms.with(server, {}, ({ roomBytes, spend }) =>
    unpack(server.place.files, source.entries(), {
      ...unpackOptions(server, source, options),
      roomBytes: Math.min(roomBytes, nodeBytes),
      spend,
      replace,
    }),
  )
}

async function exchangeAll(
  server: GameServer,
  source: RestoreSource,
  { keepOthers, denied, ...options }: RestoreOptions & { readonly keepOthers: boolean },
): Promise<Unpacked> {
  const uid = await prepareFolder(server)
  const roomBytes = await wholeRoom(server)
  if (source.bytes !== null && source.bytes > roomBytes) throw noSpace()
  const staged = stagedFolder(server.context.layout, server.id)
  const unpacking = { ...unpackOptions(server, source, options), roomBytes, replace: true }
  const done = await unpackAside(server, staged, { uid, take: (into) => into(source.entries(), unpacking) })
  await placeStaged(server, staged, { keepOthers, kept: denied })
  return done
}

/** A server that has no folder yet gets one as at its first start. Answers whose its files are. */
export async function prepareFolder(server: GameServer): Promise<number> {
  const { context, place, spec } = server
  await context.limits.hold(limitedServer(server))
  await context.runtimes.of(spec.runtime).prepare(place)
  return rootOwner(place.files).uid
}

/** What a server's folder may have altogether: by its limit, and by what its node has left beside the folder that is there. */
export async function wholeRoom(server: GameServer): Promise<number> {
  const { diskMb } = server.spec.limits
  return Math.min(diskMb > 0 ? diskMb * MIB : Number.POSITIVE_INFINITY, await nodeRoom(server))
}

/** Unpacks entries into the folder that is made for them. */
export type UnpackAside = (entries: AsyncIterable<ArchiveEntry>, options: UnpackOptions) => Promise<Unpacked>

/**
 * Makes a server's next folder, has it filled where nobody but the agent may go, and gives it to `uid`, synced. What fails leaves nothing
 * of it.
 */
export async function unpackAside<T>(
  server: GameServer,
  staged: string,
  { uid, take }: { readonly uid: number; readonly take: (unpack: UnpackAside) => Promise<T> },
): Promise<T> {
  const isRoot = process.getuid?.() === 0
  let isWhole = false
  try {
    await server.context.limits.makeAside(staged)
    const folder = FolderHandle.open(staged)
    if (folder === undefined) throw new AgentFailure('CONFLICT_STATE', 'What was unpacked was taken away meanwhile')
    try {
      const done = await take(async (entries, options) => {
        const unpacked = await unpackInto(folder, entries, options, isRoot ? uid : undefined)
        await syncFiles(staged)
        if (options.signal.aborted) throw cancelled()
        return unpacked
      })
      if (isRoot) folder.give(uid)
      isWhole = true
      return done
    } finally {
      folder.close()
    }
  } finally {
    if (!isWhole) await removeFolder(staged)
  }
}

/** Puts a folder that {@link unpackAside} has made into the place of a server's, which is held to its limits anew. */
export async function placeStaged(
  server: GameServer,
  staged: string,
  keep: { readonly keepOthers: boolean; readonly kept: readonly string[] },
): Promise<void> {
  const { context, place, spec, id } = server
  try {
    await exchange(context.layout, { serverId: id, staged, ...keep })
  } finally {
    await context.limits.replaced(limitedServer(server))
    await context.runtimes.of(spec.runtime).prepare(place)
    context.disk.expire(id)
  }
}

function unpackOptions(
  server: GameServer,
  { bytes: totalBytes }: RestoreSource,
  { rules, key, signal, progress }: Omit<RestoreOptions, 'denied'>,
): Omit<UnpackOptions, 'roomBytes' | 'replace'> {
  const { clock } = server.context
  return {
    to: '/',
    key,
    rules,
    signal,
    progress: (report) => progress({ ...report, totalBytes }),
    // Bytes are held to what the disk has: of files with nothing but zeros little is stored.
    readBytes: () => Number.MAX_SAFE_INTEGER,
    monotonicMs: () => clock.monotonicMs(),
    nowMs: clock.nowMs(),
    most: { entries: ARCHIVE_LIMITS.packedEntries, timeMs: MOST_MS },
    keepsModes: true,
  }
}

function refuseUnlessStopped(server: GameServer): void {
  const isDue = server.facts.nextRestartAtMs !== null
  if (server.live === undefined && server.activity === null && server.power === 'offline' && !isDue) return
  throw new AgentFailure('CONFLICT_STATE', 'The server must be stopped for all of its files to be replaced')
}

/** What the disk of the node has left for a server. */
async function nodeRoom(server: GameServer): Promise<number> {
  const { bavail, bsize } = await statfs(server.context.layout.serversDir)
  return Math.max(0, bavail * bsize - RESERVE_BYTES)
}

/** Makes all of it survive a power cut before it takes the place of what was there: one call for the file system, not one for each file. */
async function syncFiles(folder: string): Promise<void> {
  const child = spawn('sync', ['-f', folder], { cwd: '/', env: { PATH: TOOL_PATH }, stdio: 'ignore' })
  // A machine without the program has a kernel that writes within half a minute.
  await once(child, 'close').catch(() => {})
}
