import type { FileHandle } from 'node:fs/promises'
import { type Entry, fromFdPromise, type ZipFile } from 'yauzl'
import { AgentFailure } from '../../failure.ts'
import { type ArchiveEntry, FILE_MODE, FOLDER_MODE } from './tar-read.ts'

/** What an entry may say beside its content. */
const MOST_TARGET = 4096
const LOCAL_HEADER = 30
const [MADE_BY_UNIX, TYPE, LINK, FOLDER] = [3, 0o170000, 0o120000, 0o040000]

/**
 * The entries of a zip by its index. Entries whose bytes lie over each other, or which are encrypted, end it: the first are bombs. The
 * caller closes the file. Throws ARCHIVE_UNSUPPORTED for what is no zip.
 */
export async function* readZip(file: FileHandle, mostEntries: number): AsyncGenerator<ArchiveEntry> {
  let zip: ZipFile
  try {
    // Names as the bytes that they are.
    zip = await fromFdPromise(file.fd, { autoClose: false, lazyEntries: true, decodeStrings: false })
  } catch (error) {
    throw broken(error)
  }
  if (zip.entryCount > mostEntries)
    throw new AgentFailure('ARCHIVE_UNSUPPORTED', `It is an archive of ${zip.entryCount} entries`)
  const taken: [begin: number, end: number][] = []
  const entries: Entry[] = []
  try {
    for await (const entry of zip.eachEntry()) {
      const begin = entry.relativeOffsetOfLocalHeader
      taken.push([begin, begin + LOCAL_HEADER + entry.fileNameLength + entry.compressedSize])
      entries.push(entry)
      if (entries.length > mostEntries) throw new Error('more entries than it says')
    }
  } catch (error) {
    throw broken(error)
  }
  taken.sort(([a], [b]) => a - b)
  if (taken.some(([begin], at) => at > 0 && begin < (taken[at - 1]?.[1] ?? 0))) {
    throw broken(new Error('entries lie over each other'))
  }
  for (const entry of entries) yield await entryOf(zip, entry)
}

async function entryOf(zip: ZipFile, entry: Entry): Promise<ArchiveEntry> {
  const raw: unknown = entry.fileName // bytes, with `decodeStrings: false`
  const name = Buffer.isBuffer(raw) ? Buffer.from(raw) : Buffer.from(String(raw))
  for (let at = 0; at < name.length; at++) if (name[at] === 0x5c) name[at] = 0x2f // as programs of Windows write it
  const unix = entry.versionMadeBy >>> 8 === MADE_BY_UNIX ? entry.externalFileAttributes >>> 16 : 0
  const isFolder = name.at(-1) === 0x2f || (unix & TYPE) === FOLDER
  const isLink = (unix & TYPE) === LINK
  if (entry.isEncrypted()) throw new AgentFailure('ARCHIVE_UNSUPPORTED', 'It is an archive that is encrypted')
  const isOther = !isLink && !isFolder && (unix & TYPE) !== 0 && (unix & TYPE) !== 0o100000
  return {
    name,
    kind: isFolder ? 'folder' : isLink ? 'link' : isOther ? 'other' : 'file',
    target: isLink ? await targetOf(zip, entry) : Buffer.alloc(0),
    size: entry.uncompressedSize,
    // Programs that say nothing of what it is say nothing of its mode.
    mode: (unix & TYPE) === 0 && (unix & 0o777) === 0 ? (isFolder ? FOLDER_MODE : FILE_MODE) : unix & 0o777,
    modifiedMs: entry.getLastModDate().getTime(),
    content: contentOf(zip, entry),
  }
}

async function targetOf(zip: ZipFile, entry: Entry): Promise<Buffer> {
  if (entry.uncompressedSize > MOST_TARGET) throw broken(new Error('a link that is too long'))
  const parts: Buffer[] = []
  for await (const part of contentOf(zip, entry)) parts.push(part)
  return Buffer.concat(parts)
}

/** The bytes of an entry: not more than it says, which `yauzl` looks after. */
async function* contentOf(zip: ZipFile, entry: Entry): AsyncGenerator<Buffer> {
  try {
    const stream = await zip.openReadStreamPromise(entry)
    try {
      for await (const piece of stream) yield Buffer.from(piece)
    } finally {
      stream.destroy()
    }
  } catch (error) {
    throw error instanceof AgentFailure ? error : broken(error)
  }
}

function broken(cause: unknown): AgentFailure {
  const reason = cause instanceof Error ? cause.message.slice(0, 150) : 'it is damaged'
  return new AgentFailure('ARCHIVE_UNSUPPORTED', `It is a zip that cannot be read (${reason})`, { cause })
}
