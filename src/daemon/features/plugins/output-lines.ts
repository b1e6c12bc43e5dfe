import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import type { Clock } from '../../../shared/kernel/time.ts'

/** The longest line that is kept; the rest of a longer one is left out. */
const MOST_LINE = 2000
/** What a plugin may print within a second before it is ended. */
const MOST_BYTES_PER_SECOND = 16 * 1024 * 1024

/** Reads what a plugin prints, line by line, with bounds. `flood` is called once when it prints more than may be. */
export function readLines(output: Readable, clock: Clock, on: { line(text: string): void; flood(): void }): void {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  let window = { sinceMs: 0, bytes: 0 }
  output.on('error', () => undefined) // the end of the process follows, and says why
  output.on('end', () => {
    if (rest !== '') on.line(rest)
  })
  output.on('data', (chunk: Buffer) => {
    const nowMs = clock.monotonicMs()
    if (nowMs - window.sinceMs >= 1000) window = { sinceMs: nowMs, bytes: 0 }
    window.bytes += chunk.length
    if (window.bytes > MOST_BYTES_PER_SECOND) {
      output.destroy()
      return on.flood()
    }
    const lines = (rest + decoder.write(chunk)).split('\n')
    rest = (lines.pop() ?? '').slice(0, MOST_LINE)
    for (const line of lines) if (line !== '') on.line(line.slice(0, MOST_LINE))
  })
}
