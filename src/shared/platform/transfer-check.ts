import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'

/**
 * What both ends of a transfer count over its bytes. It finds what is lost or changed by accident, which CRC-32 does at less than half the
 * CPU of SHA-256; who can change bytes on their way can change what is compared as well: TLS is what keeps them out.
 */
export type CheckName = 'crc32' | 'sha256'

/** A check over bytes that come in pieces; `text` is asked for once, in the end: eight or 64 hexadecimal digits. */
export interface RunningCheck {
  add(piece: Uint8Array): void
  text(): string
}

/** Begins a check over no bytes yet. */
export function startCheck(name: CheckName): RunningCheck {
  if (name === 'sha256') {
    const hash = createHash('sha256')
    return { add: (piece) => void hash.update(piece), text: () => hash.digest('hex') }
  }
  let sum = 0
  const add = (piece: Uint8Array): void => {
    sum = crc32(piece, sum)
  }
  return { add, text: () => sum.toString(16).padStart(8, '0') }
}
