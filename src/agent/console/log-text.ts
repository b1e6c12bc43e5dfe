import { isoTime } from '../../shared/kernel/time.ts'
import type { ConsoleLine } from '../../shared/protocol/console.ts'
import { LINE_PARTIAL } from '../../shared/protocol/console.ts'
import type { ConsoleLog } from './console-log.ts'

const LINES = 2000
const BYTES = 256 * 1024

/**
 * A console log as text, oldest line first, up to the line that is the newest when it is asked for: time in UTC, origin, text. A
 * log that drops its oldest lines meanwhile has a remark where they were.
 */
export async function* logText(log: ConsoleLog): AsyncGenerator<Uint8Array> {
  const { first, last } = await log.bounds()
  for (let after = first - 1; after < last; ) {
    const lines = (await log.after(after, { lines: LINES, bytes: BYTES })).filter(([seq]) => seq <= last)
    const [start] = lines
    const end = lines.at(-1)
    if (start === undefined || end === undefined) return
    const missing = start[0] - after - 1
    const remark = missing > 0 ? `# ${missing} lines are no longer in the log\n` : ''
    yield Buffer.from(remark + lines.map(lineText).join(''))
    after = end[0]
  }
}

function lineText([, ms, stream, text, flags]: ConsoleLine): string {
  const cut = (flags & LINE_PARTIAL) === 0 ? '' : ' [no line end]'
  return `${isoTime(ms)} ${stream.padEnd(6)} ${text}${cut}\n`
}
