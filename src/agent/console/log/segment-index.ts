import { SEGMENT_HEAD_BYTES } from './record.ts'

/** A place to begin reading at every so many bytes. */
const STEP_BYTES = 32 * 1024

/** What a reader knows of one segment: how far it is read, and where some of its lines begin. */
export class SegmentIndex {
  readonly name: string
  readonly first: number
  /** The log that this knowledge is about; empty before the file was opened. */
  epoch = ''
  /** Whole lines seen so far. */
  lines = 0
  /** Behind the last of them. */
  end = SEGMENT_HEAD_BYTES
  /** Nothing more will be written to it. */
  sealed = false
  private marks: { seq: number; offset: number }[] = []

  constructor(name: string, first: number) {
    this.name = name
    this.first = first
  }

  /** Forgets everything: the file belongs to another log now. */
  reset(epoch: string): void {
    this.epoch = epoch
    this.lines = 0
    this.end = SEGMENT_HEAD_BYTES
    this.sealed = false
    this.marks = []
  }

  /** Takes note of the next line, which lies between `offset` and `end`. */
  add(seq: number, offset: number, end: number): void {
    if (offset - (this.marks.at(-1)?.offset ?? -STEP_BYTES) >= STEP_BYTES) this.marks.push({ seq, offset })
    this.lines = seq - this.first + 1
    this.end = end
  }

  /** The nearest known line at or before `seq`. */
  near(seq: number): { seq: number; offset: number } {
    let low = 0
    let high = this.marks.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.marks[middle]?.seq ?? 0) <= seq) low = middle + 1
      else high = middle
    }
    return this.marks[low - 1] ?? { seq: this.first, offset: SEGMENT_HEAD_BYTES }
  }
}
