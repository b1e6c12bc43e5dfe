/**
 * SFTP version 3 as draft-ietf-secsh-filexfer-02 has it, which all clients speak. Names are bytes here and need not be UTF-8.
 */

/** What a client asks. */
export const REQUEST = {
  init: 1,
  open: 3,
  close: 4,
  read: 5,
  write: 6,
  lstat: 7,
  fstat: 8,
  setstat: 9,
  fsetstat: 10,
  opendir: 11,
  readdir: 12,
  remove: 13,
  mkdir: 14,
  rmdir: 15,
  realpath: 16,
  stat: 17,
  rename: 18,
  readlink: 19,
  symlink: 20,
  extended: 200,
} as const

const VERSION = 2
const STATUS = 101
const HANDLE = 102
const DATA = 103
const NAME = 104
const ATTRS = 105
const EXTENDED_REPLY = 201

/** How a request ended. */
export const STATUS_CODE = {
  ok: 0,
  eof: 1,
  noSuchFile: 2,
  permissionDenied: 3,
  failure: 4,
  badMessage: 5,
  unsupported: 8,
} as const
export type StatusCode = (typeof STATUS_CODE)[keyof typeof STATUS_CODE]

/** Bits of `pflags`. */
export const OPEN = { read: 1, write: 2, append: 4, create: 8, truncate: 16, exclusive: 32 } as const

const ATTR_SIZE = 1
const ATTR_OWNER = 2
const ATTR_MODE = 4
const ATTR_TIMES = 8
const ATTR_EXTENDED = 0x8000_0000

/** The largest packet that is taken, with its type, and how much is read or written at once. */
export const MOST_PACKET = 256 * 1024
export const MOST_DATA = MOST_PACKET - 1024
const MOST_PIECES = 64
const MOST_HANDLE = 16
const MOST_EXTENDED = 32

/** What a client says of a file, or hears of it; what it does not say is absent. Times in seconds. */
export interface Attributes {
  readonly size?: number
  readonly uid?: number
  readonly gid?: number
  readonly mode?: number
  readonly atime?: number
  readonly mtime?: number
}

/** One entry of an answer with names. */
export interface NameEntry {
  readonly name: Buffer
  readonly longName: Buffer
  readonly attributes: Attributes
}

/** A packet says something that cannot be: its lengths do not add up, or a number is beyond what there is. */
export class BadPacket extends Error {
  override readonly name = 'BadPacket'
}

/** Reads the fields of one packet, in order; throws {@link BadPacket} beyond its end. */
export class PacketReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  byte(): number {
    this.#need(1)
    return this.#bytes.readUInt8(this.#at++)
  }

  uint32(): number {
    this.#need(4)
    this.#at += 4
    return this.#bytes.readUInt32BE(this.#at - 4)
  }

  /** A position in a file. */
  uint64(): number {
    this.#need(8)
    this.#at += 8
    const value = this.#bytes.readBigUInt64BE(this.#at - 8)
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new BadPacket('a position is beyond what a file can have')
    return Number(value)
  }

  /** Bytes of the packet itself, which is not used again. */
  string(): Buffer {
    const length = this.uint32()
    this.#need(length)
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }

  handle(): number {
    const bytes = this.string()
    if (bytes.length > MOST_HANDLE) throw new BadPacket('a handle is too long')
    return bytes.length === 4 ? bytes.readUInt32BE(0) : -1
  }

  attributes(): Attributes {
    const flags = this.uint32()
    const size = flags & ATTR_SIZE ? { size: this.uint64() } : {}
    const owner = flags & ATTR_OWNER ? { uid: this.uint32(), gid: this.uint32() } : {}
    const mode = flags & ATTR_MODE ? { mode: this.uint32() } : {}
    const times = flags & ATTR_TIMES ? { atime: this.uint32(), mtime: this.uint32() } : {}
    if ((flags & ATTR_EXTENDED) !== 0) {
      const count = this.uint32()
      if (count > MOST_EXTENDED) throw new BadPacket('there are too many extended attributes')
      for (let i = 0; i < 2 * count; i++) this.string()
    }
    return { ...size, ...owner, ...mode, ...times }
  }

  #need(bytes: number): void {
    if (this.#bytes.length - this.#at < bytes) throw new BadPacket('a packet ends before what it says is in it')
  }
}

/** The extensions that are offered, in the order of the answer to `init`. */
const EXTENSIONS: readonly (readonly [string, string])[] = [
  ['posix-rename@openssh.com', '1'],
  ['statvfs@openssh.com', '2'],
  ['fsync@openssh.com', '1'],
  ['limits@openssh.com', '1'],
]

export function versionPacket(): Buffer {
  const texts = EXTENSIONS.flat().map((word) => text(Buffer.from(word)))
  return packet(VERSION, uint32(3), ...texts)
}

export function statusPacket(id: number, code: StatusCode, message: string): Buffer {
  return packet(STATUS, uint32(id), uint32(code), text(Buffer.from(message)), text(Buffer.from('en')))
}

export function handlePacket(id: number, handle: number): Buffer {
  return packet(HANDLE, uint32(id), text(uint32(handle)))
}

/** A packet with room for so many bytes of a file, which is cut to what was read. */
export class DataPacket {
  readonly #whole: Buffer
  static readonly #HEAD = 13

  constructor(id: number, length: number) {
    this.#whole = Buffer.allocUnsafe(DataPacket.#HEAD + length)
    this.#whole.writeUInt8(DATA, 4)
    this.#whole.writeUInt32BE(id, 5)
  }

  get room(): Buffer {
    return this.#whole.subarray(DataPacket.#HEAD)
  }

  with(length: number): Buffer {
    this.#whole.writeUInt32BE(DataPacket.#HEAD - 4 + length, 0)
    this.#whole.writeUInt32BE(length, 9)
    return this.#whole.subarray(0, DataPacket.#HEAD + length)
  }
}

export function namesPacket(id: number, entries: readonly NameEntry[]): Buffer {
  const parts = entries.flatMap(({ name, longName, attributes }) => [text(name), text(longName), attrs(attributes)])
  return packet(NAME, uint32(id), uint32(entries.length), ...parts)
}

export function attributesPacket(id: number, attributes: Attributes): Buffer {
  return packet(ATTRS, uint32(id), attrs(attributes))
}

export function extendedPacket(id: number, numbers: readonly bigint[]): Buffer {
  const body = Buffer.alloc(8 * numbers.length)
  for (const [index, number] of numbers.entries()) body.writeBigUInt64BE(number, 8 * index)
  return packet(EXTENDED_REPLY, uint32(id), body)
}

/** Cuts a stream of bytes into packets; one that is too long or empty ends it with {@link BadPacket}. */
export class PacketCutter {
  #waiting: Buffer[] = []
  #length = 0

  /** The first bytes in one piece. */
  #peek(bytes: number): Buffer {
    const [first] = this.#waiting
    if (first !== undefined && first.length >= bytes) return first.subarray(0, bytes)
    const joined = Buffer.concat(this.#waiting)
    this.#waiting = [joined]
    return joined.subarray(0, bytes)
  }

  /** The packets that are whole by now. */
  *take(piece: Buffer): Generator<Buffer> {
    this.#waiting.push(piece)
    this.#length += piece.length
    // Each piece keeps what it was cut from: a packet that comes byte by byte would hold far more than its own size.
    if (this.#waiting.length >= MOST_PIECES) this.#waiting = [Buffer.concat(this.#waiting)]
    while (this.#length >= 4) {
      const head = this.#peek(4).readUInt32BE(0)
      if (head === 0 || head > MOST_PACKET) throw new BadPacket(`a packet of ${head} bytes is not taken`)
      if (this.#length < 4 + head) return
      const whole = this.#peek(4 + head)
      const rest = this.#waiting[0]?.subarray(4 + head) ?? Buffer.alloc(0)
      this.#waiting[0] = rest
      if (rest.length === 0) this.#waiting.shift()
      this.#length -= 4 + head
      yield whole.subarray(4)
    }
  }
}

function attrs({ size, uid, gid, mode, atime, mtime }: Attributes): Buffer {
  let flags = 0
  const parts: Buffer[] = []
  if (size !== undefined) {
    flags |= ATTR_SIZE
    const bytes = Buffer.allocUnsafe(8)
    bytes.writeBigUInt64BE(BigInt(size), 0)
    parts.push(bytes)
  }
  if (uid !== undefined && gid !== undefined) {
    flags |= ATTR_OWNER
    parts.push(uint32(uid), uint32(gid))
  }
  if (mode !== undefined) {
    flags |= ATTR_MODE
    parts.push(uint32(mode))
  }
  if (atime !== undefined && mtime !== undefined) {
    flags |= ATTR_TIMES
    parts.push(uint32(atime), uint32(mtime))
  }
  return Buffer.concat([uint32(flags), ...parts])
}

function packet(type: number, ...parts: readonly Buffer[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 1)
  return Buffer.concat([uint32(length), Buffer.of(type), ...parts], 4 + length)
}

function text(bytes: Buffer): Buffer {
  return Buffer.concat([uint32(bytes.length), bytes])
}

function uint32(number: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(number >>> 0, 0)
  return bytes
}
