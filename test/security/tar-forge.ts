/** One entry of a forged tar; nothing of it has to make sense. */
export interface Forged {
  readonly name: string
  readonly type?: string
  readonly content?: string | Buffer
  readonly target?: string
  /** In octal digits, or, as bytes, the field as it is. */
  readonly size?: number | Buffer
  readonly modified?: Buffer
  readonly checksum?: number
}

/** A tar of whatever entries, as bytes; names are latin1. `isCut`: without its end. */
export function forgeTar(entries: readonly Forged[], isCut = false): Buffer {
  const blocks = entries.flatMap(({ name, type = '0', content = '', target = '', size, modified, checksum }) => {
    const body = Buffer.isBuffer(content) ? content : Buffer.from(content, 'latin1')
    const header = Buffer.alloc(512)
    header.write(name.slice(0, 100), 0, 'latin1')
    header.write('0000644\0', 100)
    if (Buffer.isBuffer(size)) size.copy(header, 124)
    else header.write(`${(size ?? body.length).toString(8).padStart(11, '0')}\0`, 124)
    header.write('00000000000\0', 136)
    modified?.copy(header, 136)
    header.fill(' ', 148, 156)
    header.write(type, 156, 'latin1')
    header.write(target, 157, 'latin1')
    header.write('ustar\x0000', 257, 'latin1')
    const sum = checksum ?? header.reduce((all, byte) => all + byte, 0)
    header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
    return [header, body, Buffer.alloc((512 - (body.length % 512)) % 512)]
  })
  return Buffer.concat([...blocks, ...(isCut ? [] : [Buffer.alloc(1024)])])
}

/** A record of pax: `<length> <key>=<value>\n`. */
export function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`
  let length = rest.length + 1
  while (`${length}${rest}`.length !== length) length++
  return `${length}${rest}`
}

/** One entry of a forged zip, stored as it is. */
export interface ForgedZip {
  readonly name: string
  readonly content?: string
  /** Of Unix: type and mode. */
  readonly mode?: number
  readonly uncompressedSize?: number
  /** Where the index says that it begins. */
  readonly offset?: number
  readonly encrypted?: boolean
}

/** A zip of whatever entries; what a checksum would tell is not looked at. */
export function forgeZip(entries: readonly ForgedZip[]): Buffer {
  const bodies: Buffer[] = []
  const index: Buffer[] = []
  let at = 0
  for (const { name, content = '', mode = 0o100644, uncompressedSize, offset, encrypted = false } of entries) {
    const [nameBytes, body] = [Buffer.from(name, 'latin1'), Buffer.from(content)]
    const size = uncompressedSize ?? body.length
    const local = Buffer.alloc(30)
    local.writeUInt32LE(0x04034b50, 0)
    local.writeUInt32LE(body.length, 18)
    local.writeUInt32LE(size, 22)
    local.writeUInt16LE(nameBytes.length, 26)
    const central = Buffer.alloc(46)
    central.writeUInt32LE(0x02014b50, 0)
    central.writeUInt16LE((3 << 8) | 20, 4)
    central.writeUInt16LE(encrypted ? 1 : 0, 8)
    central.writeUInt32LE(body.length, 20)
    central.writeUInt32LE(size, 24)
    central.writeUInt16LE(nameBytes.length, 28)
    central.writeUInt32LE((mode << 16) >>> 0, 38)
    central.writeUInt32LE(offset ?? at, 42)
    bodies.push(local, nameBytes, body)
    index.push(central, nameBytes)
    at += 30 + nameBytes.length + body.length
  }
  const directory = Buffer.concat(index)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(entries.length, 8)
  end.writeUInt16LE(entries.length, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(at, 16)
  return Buffer.concat([...bodies, directory, end])
}
