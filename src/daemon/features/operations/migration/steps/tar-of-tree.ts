import { Header, Pax } from 'tar'
import type { SourceTree } from '../source/source.ts'
import { SourceFailure } from '../source/source.ts'
import { walk } from './file-listing.ts'

const BLOCK = 512
/** What a header without an extension can say. */
const MOST_NAME = 100
const MOST_SIZE = 0o77777777777

/**
 * The files of a server as a tar, made while it is read: one file at a time, never whole anywhere. Links are left out, since the source
 * does not show where they lead. A file that changes its size meanwhile ends it.
 */
export async function* tarOfTree(tree: SourceTree, signal: AbortSignal): AsyncGenerator<Buffer> {
  for await (const { path, kind, bytes, mode, modifiedMs } of walk(tree, signal)) {
    if (kind === 'link') continue
    const isFolder = kind === 'folder'
    const size = isFolder ? 0 : bytes
    yield header({ path: isFolder ? `${path}/` : path, isFolder, size, mode, modifiedMs })
    if (isFolder || size === 0) continue
    let came = 0
    for await (const piece of tree.read(path, signal)) {
      came += piece.length
      if (came > size) throw changed(path)
      yield piece
    }
    if (came < size) throw changed(path)
    const left = (BLOCK - (size % BLOCK)) % BLOCK
    if (left > 0) yield Buffer.alloc(left)
  }
  yield Buffer.alloc(2 * BLOCK)
}

function changed(path: string): SourceFailure {
  return new SourceFailure('broken', `The file ${path.slice(0, 200)} has changed while it was read`, {
    isTransient: true,
  })
}

function header({
  path,
  isFolder,
  size,
  mode,
  modifiedMs,
}: {
  readonly path: string
  readonly isFolder: boolean
  readonly size: number
  readonly mode: number
  readonly modifiedMs: number
}): Buffer {
  const data = {
    path,
    mode,
    uid: 0,
    gid: 0,
    size,
    mtime: new Date(Number.isFinite(modifiedMs) ? Math.max(0, modifiedMs) : 0),
    type: isFolder ? ('Directory' as const) : ('File' as const),
  }
  const block = Buffer.alloc(BLOCK)
  const isPlain = Buffer.byteLength(path) <= MOST_NAME && size <= MOST_SIZE && /^[ -~]*$/.test(path)
  new Header(
    isPlain ? data : { ...data, path: path.slice(0, 1).replace(/[^ -~]/, '_'), size: Math.min(size, MOST_SIZE) },
  ).encode(block)
  // What the header has no room for stands in an extension before it.
  return isPlain ? block : Buffer.concat([new Pax({ path, size }).encode(), block])
}
