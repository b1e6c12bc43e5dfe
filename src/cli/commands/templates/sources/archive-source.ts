import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { CliFailure } from '../../../kit/failure.ts'
import { SOURCE_LIMITS, type SourceFile, SourceFiles, tooMuch } from './source-file.ts'

/** What an archive is, by its name; `undefined`: it is none that is read. */
export function archiveKind(path: string): 'zip' | 'tar' | 'tar.gz' | undefined {
  const name = path.toLowerCase()
  if (name.endsWith('.zip')) return 'zip'
  if (name.endsWith('.tar.gz') || name.endsWith('.tgz')) return 'tar.gz'
  return name.endsWith('.tar') ? 'tar' : undefined
}

/**
 * The files of an archive that may be eggs. Nothing is written to the disk; links are passed over, and an archive with a name that leads out
 * of its folder, or that unpacks to more than its bounds, is refused (exit 11), as one that cannot be followed.
 */
export async function readArchive(path: string, signal: AbortSignal): Promise<readonly SourceFile[]> {
  const { size } = await stat(path)
  if (size > SOURCE_LIMITS.packedBytes) throw refused(path, 'is larger than 256 MiB')
  const limited = AbortSignal.any([signal, AbortSignal.timeout(SOURCE_LIMITS.ms)])
  try {
    const kind = archiveKind(path)
    return kind === 'zip'
      ? await readZip(path, limited)
      : await readTar(path, { zipped: kind === 'tar.gz', signal: limited })
  } catch (error) {
    if (error instanceof CliFailure || signal.aborted) throw error
    if (limited.aborted) throw new CliFailure('TIMEOUT', `${path} takes too long to be read`, { cause: error })
    throw refused(path, `cannot be followed: ${error instanceof Error ? error.message : error}`)
  }
}

async function readZip(path: string, signal: AbortSignal): Promise<readonly SourceFile[]> {
  const { openPromise } = await import('yauzl')
  const files = new SourceFiles()
  // It refuses names that lead out of the folder, and entries that are longer than they say.
  const archive = await openPromise(path, { lazyEntries: true, strictFileNames: true, validateEntrySizes: true })
  try {
    if (archive.entryCount > SOURCE_LIMITS.entries) throw tooMuch(`more than ${SOURCE_LIMITS.entries} entries`)
    for await (const entry of archive.eachEntry()) {
      signal.throwIfAborted()
      files.entry()
      refuseName(path, entry.fileName)
      const isLink = ((entry.externalFileAttributes >>> 16) & 0o170000) === 0o120000
      if (isLink || !entry.canDecodeFileData() || !files.takes(entry.fileName, entry.uncompressedSize)) continue
      const pieces: Buffer[] = []
      for await (const piece of await archive.openReadStreamPromise(entry)) pieces.push(piece)
      files.add(entry.fileName, Buffer.concat(pieces))
    }
  } finally {
    archive.close()
  }
  return files.found
}

async function readTar(
  path: string,
  { zipped, signal }: { readonly zipped: boolean; readonly signal: AbortSignal },
): Promise<readonly SourceFile[]> {
  const { Parser } = await import('tar')
  const files = new SourceFiles()
  let failure: unknown
  const guarded = (work: () => void): void => {
    try {
      if (failure === undefined) work()
    } catch (error) {
      failure = error
    }
  }
  const parser = new Parser({
    strict: true,
    onReadEntry: (entry) => {
      guarded(() => {
        files.entry()
        refuseName(path, entry.path)
        const isFile = entry.type === 'File' || entry.type === 'OldFile'
        if (!isFile || !files.takes(entry.path, entry.size)) return
        const pieces: Buffer[] = []
        entry.on('data', (piece) => pieces.push(piece))
        entry.on('end', () => files.add(entry.path, Buffer.concat(pieces)))
      })
      entry.resume()
    },
  })
  const ended = new Promise<void>((resolve, reject) => {
    parser.on('end', resolve)
    parser.on('error', reject)
  })
  ended.catch(() => undefined) // it is waited for below, unless reading fails first
  let bytes = 0
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const isFirst = bytes === 0
      bytes += chunk.length
      if (isFirst && isPackedAgain(chunk)) done(refused(path, 'is packed twice'))
      else if (bytes > SOURCE_LIMITS.unpackedBytes) done(refused(path, 'unpacks to more than 1 GiB'))
      else if (failure !== undefined) done(failure instanceof Error ? failure : new Error(String(failure)))
      else {
        parser.write(chunk)
        done()
      }
    },
  })
  const source = createReadStream(path)
  if (zipped) await pipeline(source, createGunzip(), counted, { signal })
  else await pipeline(source, counted, { signal })
  parser.end()
  await ended
  if (failure !== undefined) throw failure
  return files.found
}

/** The parser would unpack what is packed once more, past all bounds. */
function isPackedAgain(chunk: Buffer): boolean {
  return chunk.length >= 4 && (chunk.readUInt16BE(0) === 0x1f8b || chunk.readUInt32BE(0) === 0x28b52ffd)
}

function refuseName(archive: string, name: string): void {
  const parts = name.split('/')
  const isOut = name.startsWith('/') || parts.includes('..') || /[\p{Cc}\\]|^[A-Za-z]:/u.test(name)
  if (isOut) throw refused(archive, `has an entry whose name leads out of its folder: ${name.slice(0, 200)}`)
  if (parts.length > SOURCE_LIMITS.depth * 2) throw tooMuch('folders in folders without end')
}

function refused(path: string, why: string): CliFailure {
  return new CliFailure('OPERATION_FAILED', `The archive ${path} ${why}`)
}
