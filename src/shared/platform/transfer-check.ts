import { createHash } from 'node:crypto'

/**
 * What both ends of a transfer compare in its end. `bytes`: how many there were, which finds what is cut off; that none is changed on its way
 * is for TCP and TLS to see to. `sha256`: for what is kept.
 */
export type CheckName = 'bytes' | 'sha256'

/** A check over bytes that come in pieces; `text` is asked for once, in the end: a number of bytes or 64 hexadecimal digits. */
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
  let bytes = 0
  const add = (piece: Uint8Array): void => {
    bytes += piece.length
  }
  return { add, text: () => `${bytes}` }
}
