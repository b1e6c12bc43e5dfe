import type { ConsoleFrame, LogLine, ResumeFrame } from '../../../../shared/api/console.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { type ConsoleLine, LINE_PARTIAL, LINE_TRUNCATED } from '../../../../shared/protocol/console.ts'
import { sseFrame } from '../../../http/sse.ts'

/** A place in a log: the line's number, in the log that `epoch` names. */
export interface Position {
  readonly epoch: string
  readonly seq: number
}

/** The id of a line, `<epoch>-<seq>`. */
export function lineId(epoch: string, seq: number): string {
  return `${epoch}-${seq}`
}

/** The place that an id names; `undefined` when the text is no line id. */
export function parseLineId(text: string): Position | undefined {
  const [, epoch, seq] = /^([0-9a-z]{1,40})-(\d{1,15})$/.exec(text) ?? []
  return epoch === undefined || seq === undefined ? undefined : { epoch, seq: Number(seq) }
}

/** The bytes of a line as viewers get it; made once per line. */
export function consoleFrame(serverId: string, epoch: string, [seq, ms, stream, text, flags]: ConsoleLine): string {
  const data: ConsoleFrame = { type: 'console', serverId, line: text, stream, seq, timestamp: lineTime(ms) }
  if ((flags & LINE_PARTIAL) !== 0) data.partial = true
  if ((flags & LINE_TRUNCATED) !== 0) data.truncated = true
  return sseFrame('console', data, lineId(epoch, seq))
}

/** What the frame says, less its type and timestamp. */
export type Resume = Omit<ResumeFrame, 'type' | 'serverId' | 'timestamp'>

/** A line as log pages carry it. */
export function logLine(epoch: string, [seq, ms, stream, data, flags]: ConsoleLine): LogLine {
  const line: LogLine = { id: lineId(epoch, seq), seq, stream, data, timestamp: lineTime(ms) }
  if ((flags & LINE_PARTIAL) !== 0) line.partial = true
  return line
}

const LAST_MS = 253_402_300_799_999

/** A node's clock may say anything; a time that cannot be written as text is brought into range. */
function lineTime(ms: number): IsoTime {
  return isoTime(Math.min(Math.max(0, ms), LAST_MS))
}
