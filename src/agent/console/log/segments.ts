/** How many segments a log has; together they take the log's size. */
export const SEGMENTS = 8

const NAME = /^(\d{16})\.log$/

/** A segment in the folder of a log: its file name and the number of its first line. */
export interface Segment {
  readonly name: string
  readonly first: number
}

/** The file name of the segment that begins with line `first`. */
export function segmentName(first: number): string {
  return `${String(first).padStart(16, '0')}.log`
}

/** The segments among a folder's entries, oldest first. */
export function segmentsAmong(names: readonly string[]): Segment[] {
  const found: Segment[] = []
  for (const name of names) {
    const first = NAME.exec(name)?.[1]
    if (first !== undefined) found.push({ name, first: Number(first) })
  }
  return found.sort((a, b) => a.first - b.first)
}

/** The size of one segment of a log of `logMb` MiB. */
export function segmentBytesOf(logMb: number): number {
  return Math.max(64 * 1024, Math.floor((logMb * 1024 * 1024) / SEGMENTS))
}
