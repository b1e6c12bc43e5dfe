import { createCipheriv, createHash } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import ignore from 'ignore'
import { forgeTar, paxRecord } from '../security/tar-forge.ts'

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

/** SHA-256 of each file of a tree, by its path; what an honest copy has. */
export function manifestOf(tree: SimTree): Record<string, { size: number; sha256: string; mode: number }> {
  const rows = [...tree.files].map(([path, file]) => {
    const hash = createHash('sha256')
    for (const piece of contentOf(tree, path, file)) hash.update(piece)
    return [path, { size: file.size, sha256: hash.digest('hex'), mode: file.mode }] as const
  })
  return Object.fromEntries(rows.sort(([a], [b]) => (a < b ? -1 : 1)))
}

function header(name: string, { size, mode, mtimeMs, type }: Omit<SimFile, 'version'> & { type: string }): Buffer {
  const block = Buffer.alloc(512)
  block.write(name, 0, 100, 'latin1')
  block.write(`${mode.toString(8).padStart(7, '0')}\0`, 100)
  block.write(`${(988).toString(8).padStart(7, '0')}\0`, 108)
  block.write(`${(988).toString(8).padStart(7, '0')}\0`, 116)
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  block.write(
    `${Math.floor(mtimeMs / 1000)
      .toString(8)
      .padStart(11, '0')}\0`,
    136,
  )
  block.fill(' ', 148, 156)
  block.write(type, 156, 'latin1')
  block.write('ustar\x0000', 257, 'latin1')
  block.write('pterodactyl\0', 265, 'latin1')
  const sum = block.reduce((all, byte) => all + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return block
}

const padding = (size: number): Buffer => Buffer.alloc((512 - (size % 512)) % 512)

function* entry(tree: SimTree, path: string, file: SimFile): Generator<Buffer> {
  const isPlain = path.length <= 100 && Buffer.byteLength(path) === path.length
  if (!isPlain) {
    // The record counts bytes, and the forge counts characters.
    const record = Buffer.from(paxRecord('path', Buffer.from(path).toString('latin1')), 'latin1')
    yield header('PaxHeaders.0/x', { ...file, size: record.length, type: 'x' })
    yield record
    yield padding(record.length)
  }
  yield header(isPlain ? path : 'long', { ...file, type: '0' })
  yield* contentOf(tree, path, file)
  yield padding(file.size)
}

/** What no honest archive has: names that lead out, links out of the folder, a device. */
const HOSTILE = forgeTar(
  [
    { name: '../escaped.txt', content: 'out' },
    { name: '/tmp/panel-escaped.txt', content: 'out' },
    { name: 'etc', type: '2', target: '/etc' },
    { name: 'etc/panel-escaped.txt', content: 'out' },
    { name: 'disk', type: '4' },
  ],
  true,
)

/** What a backup leaves out: the list of the request, or else the file of the server. */
function leftOut(tree: SimTree, ignored: readonly string[]): (path: string) => boolean {
  const own = tree.files.get('.pteroignore')?.text
  const patterns = ignored.length > 0 ? ignored : own === undefined ? [] : own.split('\n')
  const rules = ignore().add([...patterns])
  return (path) => rules.ignores(path)
}

/** Writes the archive of a tree as the source's nodes do: files alone, names relative. Its size and SHA-1. */
export async function writeArchive(
  tree: SimTree,
  to: string,
  { ignored = [], hostile = false }: { ignored?: readonly string[]; hostile?: boolean } = {},
): Promise<{ bytes: number; sha1: string }> {
  const gzip = createGzip({ level: 1 })
  const file = createWriteStream(to)
  const hash = createHash('sha1')
  let bytes = 0
  gzip.on('data', (piece: Buffer) => {
    hash.update(piece)
    bytes += piece.length
  })
  gzip.pipe(file)
  const isLeftOut = leftOut(tree, ignored)
  const write = async (piece: Buffer): Promise<void> => {
    if (piece.length > 0 && !gzip.write(piece)) await once(gzip, 'drain')
  }
  for (const [path, one] of tree.files) {
    if (isLeftOut(path)) continue
    for (const piece of entry(tree, path, one)) await write(piece)
  }
  if (hostile) await write(HOSTILE)
  gzip.end(Buffer.alloc(1024))
  await finished(file)
  return { bytes, sha1: hash.digest('hex') }
}
