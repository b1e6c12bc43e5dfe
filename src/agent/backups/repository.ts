import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { z } from 'zod'
import { collectAfter } from '../../shared/platform/collect.ts'
import { AgentFailure } from '../failure.ts'
import { decompress } from '../files/archive/compression.ts'
import { Channel } from './channel.ts'
import { type ChunkPlace, ChunkTable } from './chunk-table.ts'
import { CHUNK_BYTES } from './chunker.ts'
import { GzipSlot } from './gzip-slot.ts'
import { HASH_BYTES, LineWriter, linesOf } from './manifest.ts'
import { damaged, lost, type ObjectStore } from './store.ts'

const MIB = 1024 * 1024
const FOLDER = 'repository/'
export const PACKS = `${FOLDER}packs/`
export const INDEXES = `${FOLDER}index/`
/** A pack is ended when it has so much. */
const PACK_BYTES = 16 * MIB
const ROWS_AT_ONCE = 4096
/** More than 4 TiB have, and what a table of a store that nobody can trust may take: 400 MiB. */
const MOST_PIECES = 4 * 1024 * 1024
/** So many pieces are compressed at the same time. */
const AT_ONCE = 3
const LEVEL = 1
/** A gap that is read over: a further request takes longer. */
const GAP_BYTES = MIB
const restore = promisify(gunzip)

const Bytes = z.int().min(0).max(0xffffffff)
const IndexLine = z.object({
  pack: z.string().regex(/^[0-9a-f]{32}-\d{1,9}$/),
  /** Hash, place in the pack, what it takes there, and what it has. */
  chunks: z.array(z.tuple([z.string().regex(/^[0-9a-f]{64}$/), Bytes, Bytes, Bytes])).max(ROWS_AT_ONCE),
})
type IndexLine = z.infer<typeof IndexLine>

/** The key of a pack by its name. */
export function packKey(name: string): string {
  return `${PACKS}${name}.pack`
}

function indexKey(key: string): string {
  return `${INDEXES}${key}.jsonl.gz`
}

/** The pieces that a server's increments are made of, as the indexes of the store have them. */
export class Repository {
  readonly table = new ChunkTable()
  readonly packs: string[] = []
  readonly indexes: string[] = []
  /** Indexes that could not be read: what they name is not known here. */
  readonly unread: string[] = []
  readonly #numbers = new Map<string, number>()
  /** What the store has of each pack, by its number; a new one has all that goes into it. */
  readonly #sizes: number[] = []
  /** Packs that the backup that is being made needs. */
  readonly #needed = new Set<number>()

  /** Reads the indexes. One that is damaged is passed over and named; a piece in two packs is read from the one that is there. */
  static async open(store: ObjectStore, signal: AbortSignal): Promise<Repository> {
    const repository = new Repository()
    const objects = await objectsOf(store)
    for (const key of [...objects.keys()].filter((name) => name.startsWith(INDEXES)).sort()) {
      try {
        for await (const line of readIndex(store, key, signal)) repository.#take(line, objects)
        repository.indexes.push(key)
      } catch (error) {
        if (!(error instanceof AgentFailure) || (error.code !== 'CHECKSUM' && error.code !== 'ARCHIVE_UNSUPPORTED'))
          throw error
        repository.unread.push(key)
      }
    }
    return repository
  }

  /** The number of a pack, also of one that is new. */
  numberOf(pack: string): number {
    const known = this.#numbers.get(pack)
    if (known !== undefined) return known
    this.#numbers.set(pack, this.packs.length)
    this.#sizes.push(Number.POSITIVE_INFINITY)
    return this.packs.push(pack) - 1
  }

  /** Whether a piece need not be stored again: it is known, and the pack that has it is there. The pack counts as needed then. */
  reuses(hash: Buffer): boolean {
    const slot = this.table.slotOf(hash)
    if (slot === undefined) return false
    const place = this.table.at(slot)
    if (!this.#isThere(place)) return false
    this.#needed.add(place.pack)
    return true
  }

  /** Looks whether the store still has all that the backup needs; throws STORE_FAILED. `added`: new packs and their index, by their keys. */
  async refuseLost(store: ObjectStore, added: readonly string[]): Promise<void> {
    const needed = new Map(added.map((key) => [key, 0]))
    for (const number of this.#needed) {
      const size = this.#sizes[number] ?? 0
      needed.set(packKey(this.packs[number] ?? ''), Number.isFinite(size) ? size : 0)
    }
    if (this.#needed.size > 0) for (const key of this.indexes) needed.set(key, 0)
    if (needed.size === 0) return
    const objects = await objectsOf(store)
    for (const [key, bytes] of needed) if ((objects.get(key) ?? -1) < bytes) throw lost(key)
  }

  #isThere({ pack, offset, storedBytes }: ChunkPlace): boolean {
    return offset + storedBytes <= (this.#sizes[pack] ?? 0)
  }

  #take({ pack, chunks }: IndexLine, objects: ReadonlyMap<string, number>): void {
    if (this.table.size + chunks.length > MOST_PIECES) throw damaged('its indexes have too many pieces')
    const number = this.numberOf(pack)
    this.#sizes[number] = objects.get(packKey(pack)) ?? 0
    for (const [hash, offset, storedBytes, bytes] of chunks) {
      if (bytes > CHUNK_BYTES.most || storedBytes > bytes) throw damaged('an index has a piece that is too large')
      const place = { pack: number, offset, storedBytes, bytes }
      const name = Buffer.from(hash, 'hex')
      const slot = this.table.slotOf(name)
      if (slot === undefined || this.#isThere(place) || !this.#isThere(this.table.at(slot))) this.table.add(name, place)
    }
  }
}

/** What the store has of the repository. */
async function objectsOf(store: ObjectStore): Promise<Map<string, number>> {
  const objects = new Map<string, number>()
  for await (const { key, bytes } of store.list(FOLDER)) objects.set(key, bytes)
  return objects
}

/** The lines of an index. */
export async function* readIndex(store: ObjectStore, key: string, signal: AbortSignal): AsyncGenerator<IndexLine> {
  for await (const text of linesOf(decompress(store.read(key, { offset: 0 }, signal), 'gz'))) {
    let line: IndexLine
    try {
      line = IndexLine.parse(JSON.parse(text.toString('utf8')))
    } catch {
      throw damaged(`${key} cannot be read`)
    }
    yield line
  }
}

/** The memory of one piece that is on its way, as it is and as it becomes. */
interface Slot {
  readonly buffer: Buffer
  readonly gzip: GzipSlot
}

/** What new packs are written with. */
export interface PackWriterOptions {
  readonly store: ObjectStore
  readonly repository: Repository
  /** Names the packs. */
  readonly key: string
  readonly workFolder: string
  readonly signal: AbortSignal
  /** Counts what goes into the store. */
  spend(bytes: number): void
}

/**
 * Writes pieces that the repository does not have into packs, and an index of them at the end: without it they are not there, and whoever
 * comes next removes them. Several pieces are compressed at the same time.
 */
export class PackWriter {
  readonly #options: PackWriterOptions
  readonly #index: LineWriter
  readonly #running: {
    readonly hash: Buffer
    readonly bytes: number
    readonly stored: Promise<Buffer>
    readonly slot: Slot
  }[] = []
  readonly #free: Slot[] = []
  /** Those that are under way, whose place is not known yet. */
  readonly #coming = new Set<string>()
  #rows: IndexLine['chunks'] = []
  #packs = 0
  #open:
    | { readonly name: string; readonly channel: Channel; readonly written: Promise<unknown>; bytes: number }
    | undefined

  static async open(options: PackWriterOptions): Promise<PackWriter> {
    return new PackWriter(options, await LineWriter.open(join(options.workFolder, 'index.jsonl.gz')))
  }

  private constructor(options: PackWriterOptions, index: LineWriter) {
    this.#options = options
    this.#index = index
  }

  /** The packs that it has written, and their index, by their keys. */
  get written(): string[] {
    const { key } = this.#options
    const packs = Array.from({ length: this.#packs }, (_, number) => packKey(`${key}-${number}`))
    return this.#index.bytes === 0 ? packs : [...packs, indexKey(key)]
  }

  /** Takes a piece; it may be used again when this resolves. Answers its hash. */
  async add(chunk: Buffer): Promise<Buffer> {
    const hash = createHash('sha256').update(chunk).digest()
    const name = hash.toString('latin1')
    if (this.#coming.has(name) || this.#options.repository.reuses(hash)) return hash
    this.#coming.add(name)
    const slot = this.#free.pop() ?? {
      buffer: Buffer.allocUnsafeSlow(CHUNK_BYTES.most),
      gzip: new GzipSlot(LEVEL, CHUNK_BYTES.most),
    }
    const content = slot.buffer.subarray(0, chunk.copy(slot.buffer))
    const stored = slot.gzip.compress(content).then((gz) => (gz.length < content.length ? gz : content))
    stored.catch(() => {}) // awaited in its turn
    this.#running.push({ hash, bytes: content.length, stored, slot })
    if (this.#running.length >= AT_ONCE) await this.#finishOne()
    return hash
  }

  /** Takes a piece as it lies in another pack. */
  async addStored(hash: Buffer, stored: Buffer, bytes: number): Promise<void> {
    await this.#put(hash, stored, bytes)
  }

  /** Further rows for the index, of packs that stay. */
  async keep(line: IndexLine): Promise<void> {
    await this.#index.line(line)
  }

  /** Ends the packs, and writes the index behind them; none where there is nothing for it. Answers its size. */
  async end(): Promise<number> {
    while (this.#running.length > 0) await this.#finishOne()
    await this.#endPack()
    if (this.#index.bytes === 0) return 0
    const { store, key, signal } = this.#options
    const { bytes } = await this.#index.store(store, indexKey(key), signal)
    this.#options.spend(bytes)
    return bytes
  }

  /** Frees what it holds, after a failure as well. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#running.map(({ stored }) => stored))
    for (const { gzip } of [...this.#free, ...this.#running.map(({ slot }) => slot)]) gzip.close()
    const open = this.#open
    open?.channel.fail(new AgentFailure('CANCELLED', 'It was cancelled'))
    await open?.written.catch(() => {})
    await this.#index.close()
  }

  async #finishOne(): Promise<void> {
    const first = this.#running.shift()
    if (first === undefined) return
    await this.#put(first.hash, await first.stored, first.bytes)
    this.#free.push(first.slot)
    this.#coming.delete(first.hash.toString('latin1'))
  }

  async #put(hash: Buffer, stored: Buffer, bytes: number): Promise<void> {
    const { repository, store, key, signal, spend } = this.#options
    spend(stored.length)
    if (this.#open === undefined) {
      const name = `${key}-${this.#packs++}`
      const channel = new Channel()
      const written = store.write(packKey(name), channel.read(), signal)
      written.catch((error: unknown) => channel.fail(error))
      this.#open = { name, channel, written, bytes: 0 }
    }
    const open = this.#open
    const place: ChunkPlace = {
      pack: repository.numberOf(open.name),
      offset: open.bytes,
      storedBytes: stored.length,
      bytes,
    }
    await open.channel.put(stored)
    open.bytes += stored.length
    repository.table.add(hash, place)
    this.#rows.push([hash.toString('hex'), place.offset, stored.length, bytes])
    if (this.#rows.length === ROWS_AT_ONCE) await this.#writeRows(open.name)
    if (open.bytes >= PACK_BYTES) await this.#endPack()
  }

  async #endPack(): Promise<void> {
    const open = this.#open
    if (open === undefined) return
    await this.#writeRows(open.name)
    open.channel.end()
    await open.written
    this.#open = undefined
  }

  async #writeRows(pack: string): Promise<void> {
    if (this.#rows.length > 0) await this.#index.line({ pack, chunks: this.#rows } satisfies IndexLine)
    this.#rows = []
  }
}

/** A pack that is being read, and where. */
interface OpenPack {
  readonly pack: number
  readonly content: AsyncGenerator<Buffer>
  at: number
  piece: Buffer
}

/** Reads pieces: on from where it is when the next one lies behind it in the same pack. */
export class PackReader {
  readonly #store: ObjectStore
  readonly #repository: Repository
  readonly #signal: AbortSignal
  #open: OpenPack | undefined

  constructor(store: ObjectStore, repository: Repository, signal: AbortSignal) {
    this.#store = store
    this.#repository = repository
    this.#signal = signal
  }

  /** As it lies in its pack. */
  async stored(place: ChunkPlace): Promise<Buffer> {
    const open = await this.#seek(place)
    const stored = Buffer.allocUnsafeSlow(place.storedBytes)
    const end = place.offset + place.storedBytes
    while (open.at < end) {
      if (open.piece.length === 0) {
        const { done, value } = await open.content.next()
        if (done === true) {
          await this.close()
          throw damaged(`a pack of pieces (${this.#repository.packs[place.pack]}) ends in the middle`)
        }
        open.piece = value
        continue
      }
      const isBefore = open.at < place.offset
      const part = open.piece.subarray(0, (isBefore ? place.offset : end) - open.at)
      if (!isBefore) part.copy(stored, open.at - place.offset)
      open.at += part.length
      open.piece = open.piece.subarray(part.length)
    }
    collectAfter(stored.length)
    return stored
  }

  async close(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.content.return(undefined)
  }

  async #seek({ pack, offset }: ChunkPlace): Promise<OpenPack> {
    const open = this.#open
    if (open !== undefined && open.pack === pack && offset >= open.at && offset - open.at <= GAP_BYTES) return open
    await this.close()
    const key = packKey(this.#repository.packs[pack] ?? '')
    const content = this.#store.read(key, { offset, reuses: true }, this.#signal)
    this.#open = { pack, content, at: offset, piece: Buffer.alloc(0) }
    return this.#open
  }
}

/** A piece as it was; throws CHECKSUM for one that has another hash. */
export async function opened(stored: Buffer, { bytes, storedBytes }: ChunkPlace, hash: Buffer): Promise<Buffer> {
  const content =
    storedBytes === bytes
      ? stored
      : await restore(stored, { maxOutputLength: Math.max(1, bytes) }).catch(() => Buffer.alloc(0))
  const isSame = content.length === bytes && createHash('sha256').update(content).digest().equals(hash)
  if (!isSame) throw damaged(`a piece has another hash than ${hash.toString('hex').slice(0, 16)}`)
  return content
}

/** The hashes of a file's pieces, one after the other. */
export function* hashesOf(chunks: Buffer): Generator<Buffer> {
  for (let at = 0; at < chunks.length; at += HASH_BYTES) yield chunks.subarray(at, at + HASH_BYTES)
}

/** Removes what an attempt of this key has stored: first the index, so that nothing that is named is ever missing. */
export async function removePacksOf(store: ObjectStore, key: string): Promise<void> {
  await store.remove([indexKey(key)])
  const keys: string[] = []
  for await (const found of store.list(`${PACKS}${key}-`)) keys.push(found.key)
  await store.remove(keys)
}
