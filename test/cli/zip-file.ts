import { crc32, deflateRawSync } from 'node:zlib'

/** An entry of an archive that a test makes, which may lie. */
export interface ZipEntry {
  readonly name: string
  readonly content: string
  /** The size that it says it has. */
  readonly claims?: number
  /** The mode of its file system, as for a link. */
  readonly mode?: number
}

/** A zip archive of these entries, with names as they are given. */
export function zipOf(entries: readonly ZipEntry[]): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const { name, content, claims, mode = 0o100644 } of entries) {
    const packed = deflateRawSync(content)
    const facts = Buffer.alloc(16)
    facts.writeUInt16LE(0, 0)
    facts.writeUInt16LE(0x21, 2)
    facts.writeUInt32LE(crc32(content), 4)
    facts.writeUInt32LE(packed.length, 8)
    facts.writeUInt32LE(claims ?? Buffer.byteLength(content), 12)
    const text = Buffer.from(name)
    const head = Buffer.concat([u32(0x04034b50), u16(20), u16(0x800), u16(8), facts, u16(text.length), u16(0), text])
    directory.push(
      Buffer.concat([
        ...[u32(0x02014b50), u16(0x0314), u16(20), u16(0x800), u16(8), facts, u16(text.length), u16(0), u16(0)],
        ...[u16(0), u16(0), u32(mode * 65_536), u32(offset), text],
      ]),
    )
    parts.push(head, packed)
    offset += head.length + packed.length
  }
  const list = Buffer.concat(directory)
  const count = u16(entries.length)
  return Buffer.concat([
    ...parts,
    list,
    ...[u32(0x06054b50), u16(0), u16(0), count, count, u32(list.length), u32(offset), u16(0)],
  ])
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16LE(value)
  return bytes
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value >>> 0)
  return bytes
}
