import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pathText } from '../../shared/kernel/path-text.ts'
import { TAR_END, tarHeader, tarPadding } from '../files/archive/tar-write.ts'
import { modifiedMsOf } from '../files/list.ts'
import { Channel } from './channel.ts'
import type { PackedFiles, PackOptions } from './create.ts'
import { archiveKey, bytesOf, type ListEntry, writeEntry, writeMembers } from './manifest.ts'
import { MEMBER_BYTES, MemberWriter } from './member-writer.ts'
import { scan } from './scan.ts'

const NO_BYTES = Buffer.alloc(0)
const SLASH = Buffer.from('/')
/** The folder of an archive that has what lies beside the server's own files. */
export const EXTRAS = 'databases'
/** A program is started for each member. */
const PROGRAM_MEMBER_BYTES = 4 * MEMBER_BYTES

/** Packs a server's folder as one tar into the store, and lists where each file begins in it. */
export async function packArchive(root: string, options: PackOptions): Promise<PackedFiles> {
  const { store, backupId, compression, signal } = options
  const hash = createHash('sha256')
  const channel = new Channel()
  const written = store.write(archiveKey(backupId, compression), channel.read(), signal)
  written.catch((error: unknown) => channel.fail(error))
  const sink = async (piece: Buffer): Promise<void> => {
    options.spend(piece.length)
    hash.update(piece)
    await channel.put(piece)
  }
  const writer = new MemberWriter(compression, sink, compression === 'zstd' ? PROGRAM_MEMBER_BYTES : MEMBER_BYTES)
  try {
    const extras = await packExtras(writer, options)
    // The server's own files can be read without what is before them.
    await writer.cut()
    const filesOffset = writer.bytes
    const files = await packFiles(root, writer, options)
    await writer.write(TAR_END)
    await writer.end()
    await writeMembers(options.list, writer.members)
    channel.end()
    const bytes = await written
    return { ...files, extras, archive: { bytes, sha256: hash.digest('hex'), filesOffset } }
  } catch (error) {
    channel.fail(error)
    await written.catch(() => {}) // it ends by the same error
    throw error
  } finally {
    await writer.close()
  }
}

async function packFiles(
  root: string,
  writer: MemberWriter,
  { ignored, whole, problems, list, signal, progress }: PackOptions,
): Promise<{ entries: number; bytes: number }> {
  const done = { entries: 0, bytes: 0 }
  const count = (): void => progress({ entries: ++done.entries, bytes: done.bytes, totalBytes: null })
  await scan(
    root,
    {
      folder: async (path, facts) => {
        const common = commonOf(path, facts)
        await writer.write(tarHeader({ ...common, name: Buffer.concat([path, SLASH]), type: 'folder', size: 0 }))
        await writeEntry(list, { ...NOTHING, ...common, kind: 'folder' })
        count()
      },
      link: async (path, target, facts) => {
        const common = commonOf(path, facts)
        await writer.write(tarHeader({ ...common, name: path, type: 'link', size: 0, target }))
        await writeEntry(list, { ...NOTHING, ...common, kind: 'link', target })
        count()
      },
      file: async (path, { facts, content }) => {
        const common = commonOf(path, facts)
        await writer.write(tarHeader({ ...common, name: path, type: 'file', size: facts.size }))
        const offset = writer.bytes
        const hash = createHash('sha256')
        for await (const piece of content()) {
          hash.update(piece)
          await writer.write(piece)
          done.bytes += piece.length
          progress({ entries: done.entries, bytes: done.bytes, totalBytes: null })
        }
        await writer.write(tarPadding(facts.size))
        const sha256 = hash.digest('hex')
        await writeEntry(list, { ...NOTHING, ...common, kind: 'file', size: facts.size, sha256, offset })
        count()
      },
    },
    { ignored, whole, problems, signal },
  )
  return done
}

/** What lies beside the server's files: the size of each is known when it has been fetched. */
async function packExtras(
  writer: MemberWriter,
  { extras, workFolder, list, nowMs }: PackOptions,
): Promise<{ name: string; size: number }[]> {
  const done: { name: string; size: number }[] = []
  for (const { name, fetch } of extras) {
    const path = join(workFolder, 'extra')
    await fetch(path)
    const { size } = await stat(path)
    const common = { path: Buffer.from(name), mode: 0o600, modifiedMs: nowMs() }
    await writer.write(tarHeader({ ...common, name: Buffer.from(`${EXTRAS}/${name}`), type: 'file', size }))
    const offset = writer.bytes
    const hash = createHash('sha256')
    for await (const piece of bytesOf(path)) {
      hash.update(piece)
      await writer.write(piece)
    }
    await writer.write(tarPadding(size))
    await writeEntry(list, { ...NOTHING, ...common, kind: 'extra', size, sha256: hash.digest('hex'), offset })
    done.push({ name, size })
  }
  return done
}

/** An entry without what only some have. */
export const NOTHING = {
  size: 0,
  sha256: null,
  target: null,
  offset: 0,
  chunks: NO_BYTES,
  inode: 0,
  changedMs: 0,
} as const satisfies Partial<ListEntry>

/** What every entry of a folder has. */
export function commonOf(path: Buffer, facts: { readonly mode: number; readonly mtimeMs: number }) {
  return { path, mode: facts.mode & 0o777, modifiedMs: Math.round(modifiedMsOf(facts)) }
}

/** A path as answers have it. */
export function shownPath(path: Buffer): string {
  return `/${pathText(path)}`
}
