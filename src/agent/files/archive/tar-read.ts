import { AgentFailure } from '../../failure.ts'

const BLOCK = 512
/** Names and the like of an entry; more is an attack. */
const MOST_META = 64 * 1024
/** Modes of what an archive has without one. */
export const [FILE_MODE, FOLDER_MODE] = [0o644, 0o755]

/** One entry of an archive. Names are bytes, and nothing of it was checked. */
export interface ArchiveEntry {
  readonly name: Buffer
  readonly kind: 'file' | 'folder' | 'link' | 'hard link' | 'other'
  /** What a link, or a further name, says. */
  readonly target: Buffer
  /** As the archive says; what comes may be more or less where the format does not count. */
  readonly size: number
  readonly mode: number
  readonly modifiedMs: number
  /** To be read, or left, before the next entry is asked for. */
  readonly content: AsyncIterable<Buffer>
}

/**
 * The entries of a tar (ustar, pax, GNU), one after the other. Libraries for it decode names, so that bytes which are no UTF-8 are lost,
 * or keep records of any length in memory. Throws ARCHIVE_UNSUPPORTED for what is no tar; an end in the middle is such.
 */
export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncGenerator<ArchiveEntry> {
  const bytes = new ByteReader(source)
  let next: Meta = {}
  let isFirst = true
  try {
    for (;;) {
      const block = await bytes.exactly(BLOCK, isFirst)
      if (block === undefined) throw broken('is empty')
      isFirst = false
      if (block.every((byte) => byte === 0)) return
      const header = headerOf(block)
      if ('LKxg'.includes(header.type)) {
        if (header.size > MOST_META) throw broken('has a record that is too long')
        const content = (await bytes.exactly(header.size)) ?? Buffer.alloc(0)
        await bytes.skip(padding(header.size))
        if (header.type === 'L') next = { ...next, name: upToNul(content) }
        else if (header.type === 'K') next = { ...next, target: upToNul(content) }
        else if (header.type === 'x') next = { ...next, ...paxOf(content) }
        continue
      }
      const size = next.size ?? header.size
      const left = { bytes: size }
      const isSparse = header.type === 'S' || next.isSparse === true
      const name = next.name ?? header.name
      const kind = isSparse ? 'other' : kindOf(header.type, name)
      yield {
        name,
        kind,
        target: next.target ?? header.target,
        size: kind === 'file' ? size : 0,
        mode: header.mode ?? (kind === 'folder' ? FOLDER_MODE : FILE_MODE),
        modifiedMs: next.modifiedMs ?? header.modifiedMs,
        content: bytes.take(left),
      }
      next = {}
      await bytes.skip(left.bytes + padding(size))
    }
  } finally {
    await bytes.close()
  }
}

interface Meta {
  readonly name?: Buffer
  readonly target?: Buffer
  readonly size?: number
  readonly modifiedMs?: number
  readonly isSparse?: boolean
}

function kindOf(type: string, name: Buffer): ArchiveEntry['kind'] {
  if (type === '5') return 'folder'
  if (type === '0' || type === '\0' || type === '7') return name.at(-1) === 0x2f ? 'folder' : 'file'
  if (type === '2') return 'link'
  return type === '1' ? 'hard link' : 'other'
}

function headerOf(block: Buffer) {
  const sum = block.subarray(0, 148).reduce(add, 0) + 8 * 32 + block.subarray(156).reduce(add, 0)
  if (numberIn(block, 148, 8) !== sum) throw broken('is no tar, or damaged')
  const size = numberIn(block, 124, 12)
  if (size < 0) throw broken('has an entry whose size is below zero')
  const name = upToNul(block.subarray(0, 100))
  const prefix = block.toString('latin1', 257, 263) === 'ustar\0' ? upToNul(block.subarray(345, 500)) : Buffer.alloc(0)
  return {
    name: Buffer.from(prefix.length === 0 ? name : Buffer.concat([prefix, Buffer.from('/'), name])),
    mode: isBlank(block.subarray(100, 108)) ? undefined : numberIn(block, 100, 8) & 0o7777,
    size,
    modifiedMs: numberIn(block, 136, 12) * 1000,
    type: String.fromCharCode(block[156] ?? 0),
    target: Buffer.from(upToNul(block.subarray(157, 257))),
  }
}

function isBlank(field: Buffer): boolean {
  return field.every((byte) => byte === 0 || byte === 0x20)
}

/** Octal digits, or, for what is larger or below zero (a time before 1970), the bytes of the number: after one bit its two's complement. */
function numberIn(block: Buffer, at: number, length: number): number {
  const field = block.subarray(at, at + length)
  if ((field[0] ?? 0) >= 0x80) {
    const value = Number(BigInt.asIntN(length * 8 - 1, BigInt(`0x${field.toString('hex')}`)))
    if (!Number.isSafeInteger(value)) throw broken('has a number that is too large')
    return value
  }
  const text = field.toString('latin1').replace(/[\0 ]+/g, '')
  if (text === '') return 0
  if (!/^[0-7]+$/.test(text)) throw broken('has a number that is none')
  return Number.parseInt(text, 8)
}

/** `<length> <key>=<value>\n`, over and over; the length counts all of it. */
function paxOf(content: Buffer): Meta {
  let meta: Meta = {}
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(0x20, at)
    const length = Number(content.toString('latin1', at, space))
    const end = at + length
    if (space < 0 || !Number.isSafeInteger(length) || length <= space - at || end > content.length) {
      throw broken('has a record that is damaged')
    }
    const record = content.subarray(space + 1, end - 1)
    const equals = record.indexOf(0x3d)
    const key = record.toString('latin1', 0, equals)
    const value = record.subarray(equals + 1)
    if (key === 'path') meta = { ...meta, name: Buffer.from(value) }
    else if (key === 'linkpath') meta = { ...meta, target: Buffer.from(value) }
    else if (key === 'size') meta = { ...meta, size: counted(value) }
    else if (key === 'mtime') meta = { ...meta, modifiedMs: Number(value.toString('latin1')) * 1000 || 0 }
    else if (key.startsWith('GNU.sparse')) meta = { ...meta, isSparse: true }
    at = end
  }
  return meta
}

function counted(value: Buffer): number {
  const text = value.toString('latin1')
  if (!/^\d{1,16}$/.test(text) || !Number.isSafeInteger(Number(text))) throw broken('has a size that is none')
  return Number(text)
}

function upToNul(field: Buffer): Buffer {
  const end = field.indexOf(0)
  return end < 0 ? field : field.subarray(0, end)
}

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK
}

function add(sum: number, byte: number): number {
  return sum + byte
}

function broken(what: string): AgentFailure {
  return new AgentFailure('ARCHIVE_UNSUPPORTED', `It is an archive that cannot be read: it ${what}`)
}

/** Reads bytes that come in pieces, and keeps no more than the present piece. */
class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>
  #piece: Buffer = Buffer.alloc(0)

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** So many bytes; `undefined` at the end of all, where that is allowed. */
  async exactly(length: number, mayEnd = false): Promise<Buffer | undefined> {
    const parts: Buffer[] = []
    let missing = length
    while (missing > 0) {
      const part = await this.#next(missing)
      if (part === undefined) {
        if (mayEnd && missing === length) return undefined
        throw broken('ends in the middle')
      }
      parts.push(part)
      missing -= part.length
    }
    return parts.length === 1 ? parts[0] : Buffer.concat(parts)
  }

  async skip(length: number): Promise<void> {
    for (let missing = length; missing > 0; ) {
      const part = await this.#next(missing)
      if (part === undefined) throw broken('ends in the middle')
      missing -= part.length
    }
  }

  /** The next bytes as they come; `left` counts what was not taken. */
  async *take(left: { bytes: number }): AsyncGenerator<Buffer> {
    while (left.bytes > 0) {
      const part = await this.#next(left.bytes)
      if (part === undefined) throw broken('ends in the middle')
      left.bytes -= part.length
      yield part
    }
  }

  async close(): Promise<void> {
    await this.#source.return?.()
  }

  async #next(most: number): Promise<Buffer | undefined> {
    while (this.#piece.length === 0) {
      const { done, value } = await this.#source.next()
      if (done === true) return undefined
      this.#piece = Buffer.from(value.buffer, value.byteOffset, value.length)
    }
    const part = this.#piece.subarray(0, most)
    this.#piece = this.#piece.subarray(part.length)
    return part
  }
}
