import { type Level, type LevelReading, readLevel } from './level.ts'

/** Where an entry came from: one of the console's streams, or `gap`: lines that are missing here (`text` says which). */
export const ENTRY_KINDS = ['stdout', 'stderr', 'stdin', 'system', 'gap'] as const
export type EntryKind = (typeof ENTRY_KINDS)[number]

/**
 * One line to keep: its number in the log, milliseconds since the epoch, origin and text as sent. Of a gap, `seq` is the
 * first missing number and `ms` the last one.
 */
export interface NewEntry {
  readonly seq: number
  readonly ms: number
  readonly kind: EntryKind
  readonly text: string
}

/** A kept line. `at` is its place here: it grows by one from line to line and is never given to another line. */
export interface Entry extends NewEntry {
  readonly at: number
  readonly level: Level
}

export interface RingOptions {
  /** How many lines are kept; up to one chunk more stay for a while. */
  readonly lines: number
  /** How many bytes of text are kept, whatever the number of lines. */
  readonly bytes?: number
  /** How lines get their levels; without it by their words. */
  readonly levels?: LevelReading
}

const CHUNK_LINES = 256
const CHUNK_BYTES = 64 * 1024
const SPARE_CHUNKS = 4

/**
 * The last lines of a console in slabs of memory outside the JavaScript heap. Appending is O(1) and, once full, reuses the
 * slabs that fall out at the other end, so that memory stays flat. Older pages may be put in front and gaps filled: the
 * places of the lines behind stay as they are, those of the lines before a filled gap move down.
 */
export class Ring {
  /** How many lines are kept; may be changed at any time. */
  limit: number
  readonly #bytes: number
  #chunks: Chunk[] = []
  #spare: Chunk[] = []
  #first = 0
  #end = 0
  #held = 0
  readonly #reading: LevelReading
  readonly #levels: LevelReader

  constructor(options: RingOptions) {
    this.limit = options.lines
    this.#bytes = options.bytes ?? 24 * 1024 * 1024
    this.#reading = options.levels ?? readLevel
    this.#levels = new LevelReader(this.#reading)
  }

  /** The place of the oldest line. */
  get first(): number {
    return this.#first
  }

  /** The place after the newest line. */
  get end(): number {
    return this.#end
  }

  get length(): number {
    return this.#end - this.#first
  }

  append(line: NewEntry): void {
    const level = this.#levels.read(line)
    let chunk = this.#chunks.at(-1)
    if (chunk === undefined || !chunk.take(line, level)) {
      chunk = this.#fresh(line)
      chunk.base = this.#end
      this.#chunks.push(chunk)
      chunk.take(line, level)
    }
    this.#end += 1
    this.#evict()
  }

  /** The line at a place; `undefined` when it is not kept. */
  get(at: number): Entry | undefined {
    if (!(at >= this.#first && at < this.#end)) return undefined
    const chunk = this.#chunks[this.#chunkOf(at)]
    return chunk?.read(at - chunk.base, at)
  }

  /** Puts an older page in front of everything. */
  prepend(lines: readonly NewEntry[]): void {
    const chunks = this.#pack(lines, this.#first)
    this.#chunks = [...chunks, ...this.#chunks]
    this.#first -= lines.length
  }

  /** Puts `lines` in the place of the line at `at`; the lines before it move down by `lines.length - 1`. */
  replace(at: number, lines: readonly NewEntry[]): void {
    if (at < this.#first || at >= this.#end) return
    const index = this.#chunkOf(at)
    const old = this.#chunks[index]
    if (old === undefined) return
    const kept = Array.from({ length: old.count }, (_, n) => old.read(n, old.base + n))
    const cut = at - old.base
    const merged = [...kept.slice(0, cut), ...lines, ...kept.slice(cut + 1)]
    const pieces = this.#pack(merged, old.base + old.count)
    const moved = lines.length - 1
    for (const chunk of this.#chunks.slice(0, index)) chunk.base -= moved
    this.#held -= old.size
    this.#chunks.splice(index, 1, ...pieces)
    this.#first -= moved
  }

  /** Chunks full of `lines`, the last of which ends before the place `end`. */
  #pack(lines: readonly NewEntry[], end: number): Chunk[] {
    const chunks: Chunk[] = []
    const levels = new LevelReader(this.#reading)
    let base = end - lines.length
    for (const line of lines) {
      const level = levels.read(line)
      let chunk = chunks.at(-1)
      if (chunk === undefined || !chunk.take(line, level)) {
        chunk = this.#fresh(line)
        chunk.base = base
        chunks.push(chunk)
        chunk.take(line, level)
      }
      base += 1
    }
    return chunks
  }

  #fresh(line: NewEntry): Chunk {
    const needed = line.text.length * 3
    const chunk = needed <= CHUNK_BYTES ? (this.#spare.pop() ?? new Chunk(CHUNK_BYTES)) : new Chunk(needed)
    this.#held += chunk.size
    return chunk
  }

  #evict(): void {
    for (;;) {
      const oldest = this.#chunks[0]
      if (oldest === undefined || this.#chunks.length === 1) return
      const tooMany = this.length - oldest.count >= this.limit
      if (!tooMany && this.#held <= this.#bytes) return
      this.#chunks.shift()
      this.#first += oldest.count
      this.#held -= oldest.size
      if (oldest.size === CHUNK_BYTES && this.#spare.length < SPARE_CHUNKS) this.#spare.push(oldest.emptied())
    }
  }

  #chunkOf(at: number): number {
    let low = 0
    let high = this.#chunks.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((this.#chunks[middle]?.base ?? 0) <= at) low = middle
      else high = middle - 1
    }
    return low
  }
}

/** Reads the levels of lines that follow each other; the streams of a game are mixed line by line, each goes on for itself. */
class LevelReader {
  readonly #before = new Map<EntryKind, Level>()
  readonly #reading: LevelReading

  constructor(reading: LevelReading) {
    this.#reading = reading
  }

  read({ kind, text }: NewEntry): Level {
    const level = this.#reading(text, kind, this.#before.get(kind) ?? 'info')
    this.#before.set(kind, level)
    return level
  }
}

const LEVELS: readonly Level[] = ['debug', 'info', 'warn', 'error']

/** One slab: the text of up to 256 lines one behind the other, and what belongs to them in typed arrays. */
class Chunk {
  base = 0
  count = 0
  readonly size: number
  readonly #text: Buffer
  readonly #ends = new Uint32Array(CHUNK_LINES)
  readonly #seqs = new Float64Array(CHUNK_LINES)
  readonly #times = new Float64Array(CHUNK_LINES)
  readonly #tags = new Uint8Array(CHUNK_LINES)

  constructor(size: number) {
    this.size = size
    this.#text = Buffer.allocUnsafeSlow(size)
  }

  /** Whether there was room for the line. */
  take(line: NewEntry, level: Level): boolean {
    const start = this.#start(this.count)
    if (this.count === CHUNK_LINES || start + line.text.length * 3 > this.size) return false
    this.#ends[this.count] = start + this.#text.write(line.text, start, 'utf8')
    this.#seqs[this.count] = line.seq
    this.#times[this.count] = line.ms
    this.#tags[this.count] = ENTRY_KINDS.indexOf(line.kind) * 4 + LEVELS.indexOf(level)
    this.count += 1
    return true
  }

  read(index: number, at: number): Entry {
    const tag = this.#tags[index] ?? 0
    return {
      at,
      seq: this.#seqs[index] ?? 0,
      ms: this.#times[index] ?? 0,
      kind: ENTRY_KINDS[tag >> 2] ?? 'stdout',
      level: LEVELS[tag & 3] ?? 'info',
      text: this.#text.toString('utf8', this.#start(index), this.#ends[index] ?? 0),
    }
  }

  emptied(): Chunk {
    this.count = 0
    return this
  }

  #start(index: number): number {
    return index === 0 ? 0 : (this.#ends[index - 1] ?? 0)
  }
}
