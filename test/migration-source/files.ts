import { createCipheriv, createHash } from 'node:crypto'

/** A file of a server of the source. Its bytes follow from the key and the version, so that none of them has to be kept. */
export interface SimFile {
  readonly mode: number
  readonly mtimeMs: number
  readonly size: number
  readonly version: number
  /** What is in it, where that matters. */
  readonly text?: string
}

/** What lies in the folder of a server; paths are relative, with `/` between names. */
export interface SimTree {
  /** Of all content. */
  readonly key: string
  readonly files: Map<string, SimFile>
  /** Where links lead; backups lose them. */
  readonly links: Map<string, string>
  /** Folders without a file; backups lose them too. */
  readonly emptyDirs: Set<string>
}

const BLOCK = 16 * 1024
const CHUNK = 4 * BLOCK

/** The bytes of a file, piece by piece. Each 16 KiB stand there four times, so that they can be compressed as those of games can. */
export function* contentOf(tree: SimTree, path: string, file: SimFile): Generator<Buffer> {
  if (file.text !== undefined) {
    yield Buffer.from(file.text)
    return
  }
  const key = createHash('sha256').update(`${tree.key}\0${path}\0${file.version}`).digest().subarray(0, 16)
  const iv = Buffer.alloc(16)
  for (let at = 0, n = 0; at < file.size; at += CHUNK, n++) {
    iv.writeUInt32BE(n, 0)
    const block = createCipheriv('aes-128-ctr', key, iv).update(Buffer.alloc(BLOCK))
    yield Buffer.concat([block, block, block, block]).subarray(0, Math.min(CHUNK, file.size - at))
  }
}

/** All bytes of a file. */
export function bytesOf(tree: SimTree, path: string, file: SimFile): Buffer {
  return Buffer.concat([...contentOf(tree, path, file)])
}

/** What there is of a file with text. */
export function textFile(text: string, mode = 0o644, mtimeMs = FIRST_MS): SimFile {
  return { text, size: Buffer.byteLength(text), mode, mtimeMs, version: 1 }
}

/** 2026-01-02T03:04:05Z, when everything of the source was made. */
export const FIRST_MS = Date.UTC(2026, 0, 2, 3, 4, 5)

/** A file is never changed: another one takes its place. */
const known = new WeakMap<SimFile, string>()

function sha256Of(tree: SimTree, path: string, file: SimFile): string {
  const before = known.get(file)
  if (before !== undefined) return before
  const hash = createHash('sha256')
  for (const piece of contentOf(tree, path, file)) hash.update(piece)
  const sha256 = hash.digest('hex')
  known.set(file, sha256)
  return sha256
}

/** SHA-256 of each file of a tree, by its path; what an honest copy has. */
export function manifestOf(tree: SimTree): Record<string, { size: number; sha256: string; mode: number }> {
  const rows = [...tree.files].map(([path, file]) => {
    return [path, { size: file.size, sha256: sha256Of(tree, path, file), mode: file.mode }] as const
  })
  return Object.fromEntries(rows.sort(([a], [b]) => (a < b ? -1 : 1)))
}
