import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import ignore from 'ignore'
import { forgeTar, paxRecord } from '../security/tar-forge.ts'
import { contentOf, FIRST_MS, type SimFile, type SimTree } from './files.ts'

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
    { name: 'hosts', type: '1', target: '/etc/hosts' },
    { name: 'disk', type: '4' },
    { name: 'pipe', type: '6' },
  ],
  true,
)
const BOMB_BYTES = 256 * 1024 * 1024

/** What a backup leaves out: the list of the request, or else the file of the server. */
function leftOut(tree: SimTree, ignored: readonly string[]): (path: string) => boolean {
  const own = tree.files.get('.pteroignore')?.text
  const patterns = ignored.length > 0 ? ignored : (own?.split('\n') ?? [])
  const rules = ignore().add([...patterns])
  return (path) => rules.ignores(path)
}

/** What an archive has beside what an honest one has. */
export interface ArchiveOptions {
  readonly ignored: readonly string[]
  readonly hostileTar: boolean
  readonly tarBomb: boolean
}

function* archiveOf(tree: SimTree, { ignored, hostileTar, tarBomb }: ArchiveOptions): Generator<Buffer> {
  const isLeftOut = leftOut(tree, ignored)
  for (const [path, file] of tree.files) if (!isLeftOut(path)) yield* entry(tree, path, file)
  if (hostileTar) yield HOSTILE
  if (tarBomb) {
    yield header('bomb.dat', { size: BOMB_BYTES, mode: 0o644, mtimeMs: FIRST_MS, type: '0' })
    const piece = Buffer.alloc(1024 * 1024)
    for (let at = 0; at < BOMB_BYTES; at += piece.length) yield piece
  }
  yield Buffer.alloc(1024)
}

/** Writes the archive of a tree as the source's nodes do: files alone, names relative. Its size and SHA-1. */
export async function writeArchive(
  tree: SimTree,
  to: string,
  options: ArchiveOptions,
): Promise<{ bytes: number; sha1: string }> {
  const hash = createHash('sha1')
  let bytes = 0
  await pipeline(
    archiveOf(tree, options),
    createGzip({ level: 1 }),
    async function* (pieces: AsyncIterable<Buffer>) {
      for await (const piece of pieces) {
        hash.update(piece)
        bytes += piece.length
        yield piece
      }
    },
    createWriteStream(to),
  )
  return { bytes, sha1: hash.digest('hex') }
}
