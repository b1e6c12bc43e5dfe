import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { statfs } from 'node:fs/promises'
import { diskRoom, limitedServer } from '../disk/disk-room.ts'
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
  refuseUnlessStopped(server)
  if (server.queue.size > 0)
    throw new AgentFailure('CONFLICT_STATE', 'The server has an order that is not done; try again')
  return await server.order(async (replaced) => {
    refuseUnlessStopped(server)
    const signal = AbortSignal.any([options.signal, replaced, server.context.ending])
    await server.change({ activity: 'restoring' })
    try {
      return await exchangeAll(server, source, { ...options, keepOthers, signal })
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
  const roomBytes = Math.min(await diskRoom(server, options.signal), await nodeRoom(server))
  return await unpack(server.place.files, source.entries(), {
    ...unpackOptions(server, source, options),
    roomBytes,
    replace,
  })
}

async function exchangeAll(
  server: GameServer,
  source: RestoreSource,
  { keepOthers, denied, ...options }: RestoreOptions & { readonly keepOthers: boolean },
): Promise<Unpacked> {
  const { context, place, spec, id } = server
  const { layout, limits, runtimes } = context
  // A server that has no folder yet gets one as at its first start.
  await limits.hold(limitedServer(server))
  const runtime = runtimes.of(spec.runtime)
  await runtime.prepare(place)
  const { uid } = rootOwner(place.files)
  const limitBytes = spec.limits.diskMb > 0 ? spec.limits.diskMb * MIB : Number.POSITIVE_INFINITY
  const roomBytes = Math.min(limitBytes, await nodeRoom(server))
  if (source.bytes !== null && source.bytes > roomBytes) throw noSpace()
  const staged = stagedFolder(layout, id)
  let isPlaced = false
  try {
    await limits.makeAside(staged)
    const folder = FolderHandle.open(staged)
    if (folder === undefined) throw new AgentFailure('CONFLICT_STATE', 'What was unpacked was taken away meanwhile')
    let done: Unpacked
    try {
      const isRoot = process.getuid?.() === 0
      const unpacking = { ...unpackOptions(server, source, options), roomBytes, replace: true }
      done = await unpackInto(folder, source.entries(), unpacking, isRoot ? uid : undefined)
      await syncFiles(staged)
      if (options.signal.aborted) throw cancelled()
      if (isRoot) folder.give(uid)
    } finally {
      folder.close()
    }
    isPlaced = true
    await exchange(layout, { serverId: id, staged, keepOthers, kept: denied })
    return done
  } finally {
    if (!isPlaced) await removeFolder(staged)
    await limits.replaced(limitedServer(server))
    await runtime.prepare(place)
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
  throw new AgentFailure('CONFLICT_STATE', 'The server must be stopped for all of a backup to be restored')
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
