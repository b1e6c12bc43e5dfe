const BLOCK = 512
const NAME = 100
const MOST_OCTAL = 0o77777777777

/** What a tar says of an entry. */
export interface TarHeader {
  /** With slashes between its names, and one at the end of a folder. */
  readonly name: Buffer
  readonly type: 'file' | 'folder' | 'link'
  readonly size: number
  readonly mode: number
  readonly modifiedMs: number
  readonly target?: Buffer
}

/** The blocks before the content of an entry. Names beyond 100 bytes go before it as GNU tar has them: they may be any bytes there. */
export function tarHeader({ name, type, size, mode, modifiedMs, target = Buffer.alloc(0) }: TarHeader): Buffer {
  const long = [
    ...(target.length > NAME ? [record('K', target)] : []),
    ...(name.length > NAME ? [record('L', name)] : []),
  ]
  const flag = type === 'folder' ? '5' : type === 'link' ? '2' : '0'
  return Buffer.concat([...long, block({ name, flag, size, mode, seconds: Math.floor(modifiedMs / 1000), target })])
}

/** What follows the content of an entry, up to a whole block. */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK)
}

/** The end of a tar. */
export const TAR_END = Buffer.alloc(2 * BLOCK)

function record(flag: string, text: Buffer): Buffer {
  const size = text.length + 1
  const name = Buffer.from('././@LongLink')
  const header = block({ name, flag, size, mode: 0, seconds: 0, target: Buffer.alloc(0) })
  return Buffer.concat([header, text, Buffer.alloc(1), tarPadding(size)])
}

function block({
  name,
  flag,
  size,
  mode,
  seconds,
  target,
}: {
  readonly name: Buffer
  readonly flag: string
  readonly size: number
  readonly mode: number
  readonly seconds: number
  readonly target: Buffer
}): Buffer {
  const header = Buffer.alloc(BLOCK)
  name.copy(header, 0, 0, NAME)
  header.write(octal(mode & 0o777, 7), 100, 'latin1')
  header.write(octal(0, 7), 108, 'latin1')
  header.write(octal(0, 7), 116, 'latin1')
  writeNumber(header, size, 124)
  writeNumber(header, Math.max(0, seconds), 136)
  header.fill(' ', 148, 156)
  header.write(flag, 156, 'latin1')
  target.copy(header, 157, 0, NAME)
  header.write('ustar  \0', 257, 'latin1')
  const sum = header.reduce((all, byte) => all + byte, 0)
  header.write(`${octal(sum, 6)}\0 `, 148, 'latin1')
  return header
}

/** Twelve bytes: octal digits, or the number itself where it has more. */
function writeNumber(header: Buffer, value: number, at: number): void {
  if (value <= MOST_OCTAL) {
    header.write(octal(value, 11), at, 'latin1')
    return
  }
  header.writeBigUInt64BE(BigInt(value), at + 4)
  header[at] = 0x80
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0')
}
