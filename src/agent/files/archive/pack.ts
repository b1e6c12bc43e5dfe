import { constants, type Stats } from 'node:fs'
import { PassThrough, Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { ZipFile } from 'yazl'
import { pathText } from '../../../shared/kernel/path-text.ts'
import { AgentFailure } from '../../failure.ts'
import type { FolderHandle } from '../folder-handle.ts'
import { cancelled } from '../list.ts'
import {
  factsIn,
  folderIn,
  isPart,
  isRootPath,
  MOST_PATH_BYTES,
  openRegular,
  pathBelow,
  pathIn,
  withFolder,
  withPlace,
} from '../place.ts'
import { Problems } from '../problems.ts'
import type { ManyOptions } from '../remove.ts'
import { walk } from '../walk.ts'
import { ARCHIVE_LIMITS } from './limits.ts'
import { TAR_END, tarHeader, tarPadding } from './tar-write.ts'

const PIECE_BYTES = 256 * 1024
const SLASH = Buffer.from('/')

/** Takes entries one after the other, and makes the bytes of an archive of them. Answers why an entry cannot be in such an archive. */
interface Writer {
  folder(name: Buffer, facts: Stats): Promise<string | undefined>
  link(name: Buffer, target: Buffer, facts: Stats): Promise<string | undefined>
  /** Takes all of the content before it resolves. */
  file(name: Buffer, facts: Stats, content: AsyncIterable<Buffer>): Promise<string | undefined>
  end(): Promise<void>
}

type Write = (piece: Buffer) => Promise<void>

/** What was packed. */
export type Packed = Problems['answer'] & { readonly entries: number; readonly bytes: number }

/** Writes files and trees as an archive: each under its path behind `base`, the folder that all of them lie in. */
export async function pack(
  root: string,
  { paths, base, format }: { readonly paths: readonly string[]; readonly base: string; readonly format: 'tar' | 'zip' },
  { write, ...options }: ManyOptions & { readonly write: Write },
): Promise<Packed> {
  const run = new Packing(format === 'zip' ? zipWriter(write) : tarWriter(write), options)
  for (const path of paths) {
    const within = Buffer.from(namesBehind(base, path).join('/'), 'latin1')
    if (isRootPath(path)) await withFolder(root, path, (folder) => run.tree(folder, within, path))
    else {
      await withPlace(root, path, async (place) => {
        const facts = factsIn(place, path)
        options.rules.refuseHidden(path, facts.isDirectory())
        if (!facts.isDirectory()) return await run.entry(place.folder, place.name, { within, path, facts })
        const folder = folderIn(place, path)
        await run.tree(folder, within, path).finally(() => folder.close())
      })
    }
  }
  return await run.end()
}

/** The folder that all of the paths lie in. */
export function commonFolder(paths: readonly string[]): string {
  const all = paths.map((path) => namesOf(path).slice(0, -1))
  const [first = []] = all
  const same = first.findIndex((name, at) => all.some((names) => names[at] !== name))
  return `/${(same < 0 ? first : first.slice(0, same)).join('/')}`
}

function namesOf(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.')
}

/** As latin1, so that no byte is lost. */
function namesBehind(base: string, path: string): string[] {
  return namesOf(path)
    .slice(namesOf(base).length)
    .map((name) => bytesOf(name).toString('latin1'))
}

function bytesOf(name: string): Buffer {
  // Lone surrogates are the bytes that are no text; the way to the entry was walked by the same bytes.
  return Buffer.concat(
    [...name].map((char) => (char.isWellFormed() ? Buffer.from(char) : Buffer.of(char.charCodeAt(0) & 0xff))),
  )
}

/** A folder on its way into the archive: its name there, and where it is. */
interface Folder {
  readonly name: Buffer
  readonly path: string
  readonly facts: Stats
}

const GONE = 'was taken away meanwhile'

class Packing {
  readonly #writer: Writer
  readonly #options: ManyOptions
  readonly #problems = new Problems()
  #entries = 0
  #bytes = 0

  constructor(writer: Writer, options: ManyOptions) {
    this.#writer = writer
    this.#options = options
  }

  async tree(top: FolderHandle, within: Buffer, path: string): Promise<void> {
    const { rules, signal } = this.#options
    if (within.length > 0) await this.#folder({ name: within, path, facts: top.stat() })
    const inArchive = (found: Buffer): Buffer => (within.length === 0 ? found : Buffer.concat([within, SLASH, found]))
    let late: Folder[] = []
    const flush = async (): Promise<void> => {
      for (const one of late) await this.#folder(one)
      late = []
    }
    await walk(
      top,
      {
        enter: (folder, name, above) => {
          const found = pathIn(above.path(MOST_PATH_BYTES), name)
          if (isPart(name.toString('latin1'))) return false
          if (found === undefined) {
            this.#problems.add(undefined, 'lies too deep')
            return false
          }
          const shown = pathBelow(path, found)
          if (rules.leavesOut(shown, true, this.#problems)) return false
          late.push({ name: inArchive(found), path: shown, facts: folder.stat() })
          return true
        },
        entry: async (folder, name, at) => {
          await flush()
          const found = pathIn(at.path(MOST_PATH_BYTES), name)
          if (isPart(name.toString('latin1'))) return
          if (found === undefined) return this.#problems.add(undefined, 'lies too deep')
          const facts = folder.statOf(name)
          const shown = pathBelow(path, found)
          if (rules.leavesOut(shown, false, this.#problems)) return
          if (facts === undefined) return this.#problems.add(shown, GONE)
          await this.entry(folder, name, { within: inArchive(found), path: shown, facts })
        },
      },
      () => signal.aborted,
    )
    await flush()
    if (signal.aborted) throw cancelled()
  }

  async entry(
    folder: FolderHandle,
    name: Buffer,
    { within, path, facts }: { readonly within: Buffer; readonly path: string; readonly facts: Stats },
  ): Promise<void> {
    if (facts.isSymbolicLink()) {
      const target = folder.linkTarget(name)
      const problem = target === undefined ? GONE : await this.#writer.link(within, target, facts)
      if (problem !== undefined) return this.#problems.add(path, problem)
    } else if (facts.isFile()) {
      const { isIn, problem } = await this.#file(folder, name, within).catch((error: unknown) => {
        if (!(error instanceof AgentFailure) || error.code !== 'PATH_INVALID' || this.#options.signal.aborted)
          throw error
        return { isIn: false, problem: 'is closed to the agent' }
      })
      if (problem !== undefined) this.#problems.add(path, problem)
      if (!isIn) return
    } else return this.#problems.add(path, 'is a FIFO, a socket, a device, or closed to the agent')
    this.#count()
  }

  async end(): Promise<Packed> {
    await this.#writer.end()
    return { entries: this.#entries, bytes: this.#bytes, ...this.#problems.answer }
  }

  async #folder({ name, path, facts }: Folder): Promise<void> {
    const problem = await this.#writer.folder(name, facts)
    if (problem !== undefined) return this.#problems.add(path, problem)
    this.#count()
  }

  async #file(
    folder: FolderHandle,
    name: Buffer,
    within: Buffer,
  ): Promise<{ readonly isIn: boolean; readonly problem?: string }> {
    const file = await openRegular({ folder, name }, constants.O_RDONLY)
    if (file === undefined) return { isIn: false, problem: GONE }
    try {
      const handle = file
      const facts = await file.stat()
      const { signal } = this.#options
      const read = { bytes: 0 }
      const count = (bytes: number): void => {
        this.#bytes += bytes
        this.#options.progress({ entries: this.#entries, bytes: this.#bytes })
      }
      async function* content(): AsyncGenerator<Buffer> {
        while (read.bytes < facts.size) {
          if (signal.aborted) throw cancelled()
          const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, facts.size - read.bytes))
          const { bytesRead } = await handle.read(piece, 0, piece.length, read.bytes)
          if (bytesRead === 0) return
          read.bytes += bytesRead
          count(bytesRead)
          yield piece.subarray(0, bytesRead)
        }
      }
      const problem = await this.#writer.file(within, facts, content())
      if (problem !== undefined) return { isIn: false, problem }
      const after = await file.stat()
      return after.size === facts.size && after.mtimeMs === facts.mtimeMs
        ? { isIn: true }
        : { isIn: true, problem: 'was changed while it was packed' }
    } finally {
      await file.close()
    }
  }

  #count(): void {
    this.#entries++
    if (this.#entries > ARCHIVE_LIMITS.packedEntries) {
      throw new AgentFailure(
        'CONFLICT_STATE',
        `There are more than ${ARCHIVE_LIMITS.packedEntries} entries; pack parts of them`,
      )
    }
    this.#options.progress({ entries: this.#entries, bytes: this.#bytes })
  }
}

function tarWriter(write: Write): Writer {
  const head = (name: Buffer, facts: Stats) => ({ name, mode: facts.mode, modifiedMs: facts.mtimeMs })
  return {
    folder: async (name, facts) => {
      await write(tarHeader({ ...head(Buffer.concat([name, SLASH]), facts), type: 'folder', size: 0 }))
      return undefined
    },
    link: async (name, target, facts) => {
      await write(tarHeader({ ...head(name, facts), type: 'link', size: 0, target }))
      return undefined
    },
    file: async (name, facts, content) => {
      await write(tarHeader({ ...head(name, facts), type: 'file', size: facts.size }))
      let left = facts.size
      for await (const piece of content) {
        left -= piece.length
        await write(piece)
      }
      // It has become shorter; its size stands before it.
      for (; left > 0; left -= Math.min(left, PIECE_BYTES)) await write(Buffer.alloc(Math.min(left, PIECE_BYTES)))
      await write(tarPadding(facts.size))
      return undefined
    },
    end: () => write(TAR_END),
  }
}

const NO_TEXT = 'has a name that a zip cannot hold; a tar can'
/** Times in a zip are seconds of 31 bits; games set any. */
const LAST_MS = 0x7fffffff * 1000

function zipTime({ mtimeMs }: Stats): Date {
  return new Date(Math.max(0, Math.min(mtimeMs, LAST_MS)))
}

function zipWriter(write: Write): Writer {
  const zip = new ZipFile()
  const out = zip.outputStream as Readable // a PassThrough, which the types do not say
  let failure: unknown
  const writing = (async () => {
    for await (const piece of out) await write(Buffer.from(piece))
  })().catch((error: unknown) => {
    failure = error
    out.destroy()
  })
  zip.on('error', (error: unknown) => {
    failure ??= error
    out.destroy()
  })
  /** The names of a zip are text. */
  const nameIn = (name: Buffer): string | undefined => {
    const text = pathText(name)
    return text.isWellFormed() && !text.includes('\\') && !/^[A-Za-z]:/.test(text) ? text : undefined
  }
  const put = async (text: string, facts: Stats, content: AsyncIterable<Buffer>): Promise<void> => {
    const stream = new PassThrough()
    const options = { mtime: zipTime(facts), mode: facts.mode & 0o177777 }
    zip.addReadStreamLazy(text, options, (use) => use(null, stream))
    const source = Readable.from(content, { objectMode: false })
    source.on('error', (error) => stream.destroy(error))
    source.pipe(stream)
    const given = finished(stream, { readable: true })
    // Whoever writes the archive may fail, and then nobody reads this one.
    await Promise.race([given, writing])
    if (failure !== undefined) {
      stream.destroy()
      throw failure
    }
    await given
  }
  return {
    folder: async (name, facts) => {
      const text = nameIn(name)
      if (text === undefined) return NO_TEXT
      zip.addEmptyDirectory(text, { mtime: zipTime(facts), mode: facts.mode & 0o177777 })
      return undefined
    },
    link: async (name, target, facts) => {
      const text = nameIn(name)
      if (text === undefined) return NO_TEXT
      zip.addBuffer(target, text, { mtime: zipTime(facts), mode: 0o120777, compress: false })
      return undefined
    },
    file: async (name, facts, content) => {
      const text = nameIn(name)
      if (text === undefined) return NO_TEXT
      await put(text, facts, content)
      return undefined
    },
    end: async () => {
      zip.end()
      await writing
      if (failure !== undefined) throw failure
    },
  }
}
