import type { FrameOf } from './handlers.ts'

/** More parts than the largest node has, and as many as the daemon holds for one connection. */
const MOST_PARTS = 64

/** Puts a snapshot together that comes in several frames. */
export class SnapshotParts {
  #parts: FrameOf<'snapshot'>[] = []

  /** The whole snapshot with its last part; `undefined` before, and 'endless' when there are too many. */
  add(frame: FrameOf<'snapshot'>): FrameOf<'snapshot'> | 'endless' | undefined {
    this.#parts.push(frame)
    if (this.#parts.length > MOST_PARTS) return 'endless'
    if (frame.more === true) return undefined
    const parts = this.#parts
    this.#parts = []
    return {
      type: 'snapshot',
      servers: parts.flatMap(({ servers }) => servers),
      commands: parts.flatMap(({ commands }) => commands),
      orphans: parts.flatMap(({ orphans }) => orphans),
      gone: parts.flatMap(({ gone }) => gone ?? []),
      ...(frame.asOf === undefined ? {} : { asOf: frame.asOf }),
    }
  }
}
