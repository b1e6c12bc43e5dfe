import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { LineSplitter } from '../console/log/line-splitter.ts'
import { LogReader } from '../console/log/reader.ts'
import { MAX_LINE_BYTES, PARTIAL, readText } from '../console/log/record.ts'
import { codeOf, FolderHandle } from '../files/folder-handle.ts'
import type { ChildDeps } from './child.ts'
import type { HeldConsole } from './holder-files.ts'
import { SecretMask } from './secret-mask.ts'

const LOOK_MS = 200
const CHUNK_BYTES = 64 * 1024
/** How much is read at one look before others of this process have their turn. */
const LOOK_BYTES = 1024 * 1024
/** A log that is further ahead than that is gone on with near its end. */
const MOST_BEHIND_BYTES = 256 * 1024 * 1024
/** So many bytes before the place show whether the file is still the same one, or was written anew. */
const MARK_BYTES = 64
/** The record of the place is one short write. */
const PLACE_BYTES = 512
const LF = 10

/** How far a file has been read. */
interface Place {
  readonly device: string
  readonly inode: string
  /** Up to here its lines are in the console; the beginning of a line, or of a piece of a long one. */
  readonly offset: number
  /** The bytes before that, in hexadecimal. */
  readonly mark: string
  /** The last line of the console when this was written down. */
  readonly seq: number
}

interface OpenLog {
  readonly fd: number
  readonly device: string
  readonly inode: string
  offset: number
  /** When it was changed last, as far as was looked. */
  changedMs: number
}

/**
 * Follows a log file of a game inside its folder and writes its lines into the console. A file that is renamed is read to its end
 * before the one in its place is begun; one that was cut or written anew is read from its beginning. No link is followed, and
 * nothing but a regular file is read: the folder is the game's. The place is on disk, so another holder goes on there.
 */
export class LogTail {
  readonly #folder: string
  readonly #parts: readonly Buffer[]
  readonly #path: string
  readonly #deps: ChildDeps
  readonly #mask: SecretMask
  readonly #splitter: LineSplitter
  readonly #chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  #placeFd: number | undefined
  #place: Place | undefined
  #open: OpenLog | undefined
  #refused = ''
  #timer: NodeJS.Timeout | undefined
  #isOver = false

  constructor({ folder, path }: HeldConsole & { kind: 'file' }, deps: ChildDeps) {
    this.#folder = folder
    this.#path = path
    this.#parts = path
      .split('/')
      .filter((part) => part !== '' && part !== '.')
      .map((part) => Buffer.from(part))
    this.#deps = deps
    const { sink } = deps
    this.#mask = new SecretMask(sink.masked)
    this.#splitter = new LineSplitter((text, partial) => {
      sink.writer.append({ stream: 'stdout', ms: sink.clock.nowMs(), text, flags: partial ? PARTIAL : 0 })
    })
  }

  /** A run begins: what the file holds already is of earlier ones. */
  begin(): void {
    writeFileSync(this.#deps.paths.tail, ' '.repeat(PLACE_BYTES), { mode: 0o600 })
    const found = this.#find()
    if (found === undefined) return
    this.#open = found
    found.offset = fstatSync(found.fd).size
    this.#save()
  }

  /** Goes on where an earlier holder was; lines that it had still brought into the console (after `firstSeq`) do not come twice. */
  async resume(firstSeq: number): Promise<void> {
    const place = this.#savedPlace()
    const found = this.#find()
    if (found === undefined) return
    this.#open = found
    const isSame = place !== undefined && isOf(found, place)
    if (isSame && fstatSync(found.fd).size >= place.offset && this.#markAt(found.fd, place.offset) === place.mark) {
      found.offset = place.offset
    }
    await this.#passOver(found, Math.max(firstSeq - 1, place?.seq ?? 0))
    this.#save()
  }

  /** Looks at the file from time to time. */
  follow(): void {
    if (this.#isOver) return
    const pauseMs = this.#look()
    this.#timer = setTimeout(() => this.follow(), pauseMs)
  }

  /** The program has ended: reads what it has written last. */
  finish(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#look()
    if (this.#open !== undefined) this.#close(this.#open)
    if (this.#placeFd !== undefined) closeSync(this.#placeFd)
  }

  /** Reads what is new, of the file that was there before as well. Returns how long to wait. */
  #look(): number {
    try {
      const pauseMs = this.#open === undefined ? undefined : this.#read(this.#open)
      if (pauseMs !== undefined) return pauseMs
      const found = this.#find()
      if (found === undefined) return LOOK_MS
      const { device, inode } = found
      if (this.#open !== undefined && isOf(this.#open, { device, inode })) {
        closeSync(found.fd)
        return LOOK_MS
      }
      // What came between the last look and the new file.
      if (this.#open !== undefined) this.#close(this.#open)
      this.#open = found
      this.#save()
      return this.#read(found) ?? LOOK_MS
    } catch (error) {
      this.#refuse(`cannot be read (${codeOf(error) ?? 'unknown error'})`)
      return LOOK_MS * 5
    }
  }

  /** Reads whole lines up to the end; milliseconds to wait when there is more, else `undefined`. */
  #read(log: OpenLog): number | undefined {
    const { size, mtimeMs } = fstatSync(log.fd)
    if (size === log.offset && mtimeMs === log.changedMs) return undefined
    log.changedMs = mtimeMs
    const isAnew = size < log.offset || !this.#isUnchanged(log)
    if (isAnew) log.offset = 0
    this.#skip(log, size)
    for (let read = 0; read < LOOK_BYTES; ) {
      const length = readSync(log.fd, this.#chunk, 0, CHUNK_BYTES, log.offset)
      const bytes = this.#chunk.subarray(0, length)
      const whole = bytes.lastIndexOf(LF) + 1
      // A line without an end waits for it, but not when it is longer than a piece.
      const taken = whole > 0 ? whole : length >= MAX_LINE_BYTES ? MAX_LINE_BYTES : 0
      if (taken === 0) return undefined
      this.#take(bytes.subarray(0, taken), whole > 0)
      log.offset += taken
      read += taken
      this.#save()
      const pauseMs = this.#deps.sink.budget.pauseMs()
      if (pauseMs > 0 && !this.#isOver) return pauseMs
    }
    return 1
  }

  #take(bytes: Buffer, isWhole: boolean): void {
    const { sink } = this.#deps
    this.#splitter.push(this.#mask.push(bytes))
    if (!isWhole) this.#splitter.flush()
    sink.writer.flush()
    sink.written()
  }

  /** Nothing more comes into this file: its last line needs no end. */
  #close(log: OpenLog): void {
    for (let total = 0; total < LOOK_BYTES; ) {
      const length = readSync(log.fd, this.#chunk, 0, CHUNK_BYTES, log.offset)
      if (length === 0) break
      this.#take(this.#chunk.subarray(0, length), true)
      log.offset += length
      total += length
    }
    this.#splitter.push(this.#mask.end())
    this.#splitter.end()
    const { sink } = this.#deps
    sink.writer.flush()
    sink.written()
    this.#save()
    closeSync(log.fd)
    this.#open = undefined
  }

  #skip(log: OpenLog, size: number): void {
    if (size - log.offset <= MOST_BEHIND_BYTES) return
    const to = size - LOOK_BYTES
    this.#remark(`The log file ${this.#path} grew too fast: ${to - log.offset} bytes of it are left out here`)
    log.offset = to
  }

  /** Opens the file, part by part and without following a link. `undefined` when it is not there, or is not to be read. */
  #find(): OpenLog | undefined {
    const name = this.#parts.at(-1)
    if (name === undefined) return undefined
    let folder = FolderHandle.open(this.#folder)
    try {
      for (const part of this.#parts.slice(0, -1)) {
        if (folder === undefined) break
        const next = folder.child(part)
        folder.close()
        folder = next
      }
      const facts = folder?.statOf(name)
      if (folder === undefined || facts === undefined) return undefined
      if (!facts.isFile()) return this.#refuse(facts.isSymbolicLink() ? 'is a symbolic link' : 'is no regular file')
      const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
      const fd = openSync(folder.pathOf(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
      const found = fstatSync(fd, { bigint: true })
      if (found.isFile()) {
        this.#refused = ''
        return { fd, device: String(found.dev), inode: String(found.ino), offset: 0, changedMs: 0 }
      }
      closeSync(fd)
      return this.#refuse('is no regular file')
    } catch (error) {
      const code = codeOf(error)
      if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
      return this.#refuse(code === 'ELOOP' ? 'is a symbolic link' : `cannot be read (${code ?? 'unknown error'})`)
    } finally {
      folder?.close()
    }
  }

  /** Says once why the file is not read. */
  #refuse(why: string): undefined {
    if (this.#refused === why) return
    this.#refused = why
    this.#remark(`The log file ${this.#path} ${why} and is not shown here`)
  }

  #remark(text: string): void {
    const { sink } = this.#deps
    sink.writer.append({
      stream: 'system',
      ms: sink.clock.nowMs(),
      text: Buffer.from(text).subarray(0, MAX_LINE_BYTES),
      flags: 0,
    })
    sink.writer.flush()
    sink.written()
  }

  /** A file that was cut and has grown beyond the place since has other bytes before it. */
  #isUnchanged(log: OpenLog): boolean {
    const place = this.#place
    if (place === undefined || !isOf(log, place) || place.offset !== log.offset) return true
    return this.#markAt(log.fd, log.offset) === place.mark
  }

  #markAt(fd: number, offset: number): string {
    const bytes = Buffer.alloc(Math.min(MARK_BYTES, offset))
    const length = readSync(fd, bytes, 0, bytes.length, offset - bytes.length)
    return bytes.toString('hex', 0, length)
  }

  /** Passes over the lines from the place on that are in the console already: a killed holder wrote them before the place. */
  async #passOver(log: OpenLog, seq: number): Promise<void> {
    const { paths } = this.#deps
    const { lines } = await new LogReader(paths.log).readAfter(seq, {
      maxLines: CHUNK_BYTES,
      maxBytes: 4 * CHUNK_BYTES,
    })
    const shown = lines.filter(([, , stream]) => stream === 'stdout').map(([, , , text]) => text)
    const length = readSync(log.fd, this.#chunk, 0, CHUNK_BYTES, log.offset)
    const bytes = this.#chunk.subarray(0, length)
    const mask = new SecretMask(this.#deps.sink.masked)
    let from = 0
    for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, from)) {
      const line = Buffer.concat([mask.push(bytes.subarray(from, at)), mask.end()])
      const end = line.at(-1) === 13 ? line.length - 1 : line.length
      const index = shown.indexOf(readText(line, { textStart: 0, end }))
      if (index < 0) break
      shown.splice(0, index + 1)
      from = at + 1
    }
    log.offset += from
  }

  #save(): void {
    const { paths, sink } = this.#deps
    if (this.#open === undefined) return
    const { fd, device, inode, offset } = this.#open
    const place: Place = { device, inode, offset, mark: this.#markAt(fd, offset), seq: sink.writer.last }
    this.#place = place
    this.#placeFd ??= openSync(paths.tail, constants.O_WRONLY)
    writeSync(this.#placeFd, JSON.stringify(place).padEnd(PLACE_BYTES), 0, 'latin1')
  }

  #savedPlace(): Place | undefined {
    try {
      const text = readFileSync(this.#deps.paths.tail, 'latin1').trim()
      return text === '' ? undefined : (JSON.parse(text) as Place) // written by #save
    } catch {
      return undefined // nothing was written down: the file is read from its beginning
    }
  }
}

function isOf(one: { readonly device: string; readonly inode: string }, other: typeof one): boolean {
  return one.device === other.device && one.inode === other.inode
}
