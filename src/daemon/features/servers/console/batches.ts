import type { ConsoleLine } from '../../../../shared/protocol/console.ts'
import { type SharedFrames, sharedFrames } from '../../../http/sse.ts'

/** The frames of lines that follow each other, as one piece of bytes that every viewer shares. */
export interface Batch extends SharedFrames {
  readonly from: number
  readonly to: number
}

/** How much is sent to one viewer at a time. */
export const PAGE_BYTES = 64 * 1024
/** Text that is not ASCII has up to three bytes for a character. */
const MOST_CHARACTERS = PAGE_BYTES - 4096

/** Makes batches of about {@link PAGE_BYTES} (or one line) of lines that follow each other; `frameOf` gives a line's frame. */
export function* batches(lines: readonly ConsoleLine[], frameOf: (line: ConsoleLine) => string): Generator<Batch> {
  let frames = ''
  let from = 0
  let to = 0
  for (const line of lines) {
    const frame = frameOf(line)
    if (frames !== '' && frames.length + frame.length > MOST_CHARACTERS) {
      yield { from, to, ...sharedFrames(frames) }
      frames = ''
    }
    if (frames === '') from = line[0]
    frames += frame
    to = line[0]
  }
  if (frames !== '') yield { from, to, ...sharedFrames(frames) }
}
