import { closeSync, openSync, readSync } from 'node:fs'

const PIECE_BYTES = 16 * 1024

/** What all files are read into, one after the other, made when the first one is. */
let piece: Buffer | undefined

/**
 * The text of a file that the kernel writes while it is read (/proc, its groups), a character for each byte. Throws as `openSync` and
 * `readSync` do. Some thousand of them are read together for a node of 200 servers: Node's `readFileSync` makes 64 KiB for each, which
 * has V8 collect all the time.
 */
export function readKernelText(path: string): string {
  piece ??= Buffer.allocUnsafeSlow(PIECE_BYTES)
  const fd = openSync(path, 'r')
  try {
    let text = ''
    // What comes in less than a piece may go on: only nothing is the end.
    for (let bytes = readSync(fd, piece); bytes > 0; bytes = readSync(fd, piece))
      text += piece.toString('latin1', 0, bytes)
    return text
  } finally {
    closeSync(fd)
  }
}
