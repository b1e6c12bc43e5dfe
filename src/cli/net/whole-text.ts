import { CliFailure } from '../kit/failure.ts'

/** Far more than any answer of a panel that is read whole; lists come in pages, files and exports piece by piece. */
const MOST_BYTES = 64 * 1024 * 1024

/** The text of an answer that is read whole. One without an end must not take the memory of the machine. */
export async function wholeText(pieces: AsyncIterable<Uint8Array>): Promise<string> {
  const read: Uint8Array[] = []
  let size = 0
  for await (const piece of pieces) {
    read.push(piece)
    size += piece.length
    if (size > MOST_BYTES) {
      const message = `the answer is longer than ${MOST_BYTES / 1024 ** 2} MiB, which no answer of a panel is`
      throw new CliFailure('OPERATION_FAILED', message, {
        hint: 'see whether the URL is that of a panel: panel context list',
      })
    }
  }
  return new TextDecoder().decode(Buffer.concat(read))
}
