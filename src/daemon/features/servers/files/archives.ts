import type * as api from '../../../../shared/api/files.ts'
import type { Data, Input } from '../../../../shared/kernel/contract.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import * as protocol from '../../../../shared/protocol/file-operations.ts'
import { type Context, callerOf } from '../../../http/route.ts'
import { askAgent, type FileDeps } from './agent.ts'
import { recordNote } from './changes.ts'
import { doWork, placesOf, type WorkDone } from './long-work.ts'
import { reach } from './reach.ts'

type Asking = Pick<Context, 'principal' | 'signal' | 'caller'>

/** An archive of files. */
export async function compress(
  deps: FileDeps,
  { params: { serverId }, body }: Input<typeof api.compressFiles>,
  asking: Asking,
): Promise<Data<typeof api.compressFiles>> {
  const { entries, bytes, problems, problemCount, made } = await work(
    deps,
    serverId,
    { ...body, kind: 'compress' },
    asking,
  )
  const counts = { entries, bytes, problems: [...problems], problemCount }
  return { ...counts, archivePath: made?.path ?? '', size: made?.size ?? 0 }
}

/** What is in an archive, as files. */
export async function decompress(
  deps: FileDeps,
  { params: { serverId }, body }: Input<typeof api.decompressFile>,
  asking: Asking,
): Promise<Data<typeof api.decompressFile>> {
  const done = await work(deps, serverId, { ...body, kind: 'decompress' }, asking)
  const { entries, bytes, problems, problemCount } = done
  return { entries, bytes, problems: [...problems], problemCount }
}

/** A file of the internet. */
export async function pull(
  deps: FileDeps,
  { params: { serverId }, body }: Input<typeof api.pullFile>,
  asking: Asking,
): Promise<Data<typeof api.pullFile>> {
  const { made } = await work(deps, serverId, { ...body, kind: 'pull' }, asking)
  return { path: made?.path ?? '', size: made?.size ?? 0, sha256: made?.sha256 ?? '' }
}

/** The listing of an archive, in as many parts as the frames of the node need. */
export async function contents(
  deps: FileDeps,
  { params: { serverId }, body: { archivePath: path, skip, limit } }: Input<typeof api.listArchive>,
  asking: Asking,
): Promise<Data<typeof api.listArchive>> {
  const { nodeId } = await reach(deps, serverId, { caller: callerOf(asking), paths: [path] })
  const fieldOf = (field: string): string => (field === 'path' ? 'archivePath' : field)
  const found: api.ArchiveEntry[] = []
  for (;;) {
    const most = Math.min(limit - found.length, protocol.FILE_LIMITS.rows)
    const input = { serverId, path, skip: skip + found.length, limit: most }
    const page = await askAgent(deps, protocol.listArchive, {
      nodeId,
      input,
      part: 'body',
      signal: asking.signal,
      fieldOf,
    })
    for (const { modifiedMs, ...entry } of page.entries) {
      found.push({ ...entry, isDirectory: entry.kind === 'folder', modified: isoTime(modifiedMs) })
    }
    if (page.isLast || page.entries.length === 0 || found.length >= limit) return found
  }
}

async function work(
  deps: FileDeps,
  serverId: Input<typeof api.compressFiles>['params']['serverId'],
  wanted: api.FileWork,
  asking: Asking,
): Promise<WorkDone> {
  const { nodeId, rules } = await reach(deps, serverId, { caller: callerOf(asking), ...placesOf(wanted) })
  const done = await doWork(deps, { serverId, work: wanted }, { nodeId, rules, signal: asking.signal, part: 'body' })
  await deps.db.write((tx) => recordNote(tx, deps, asking.principal, done))
  return done
}
