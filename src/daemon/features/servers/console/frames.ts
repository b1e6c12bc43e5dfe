import type { ConsoleFrame, LogLine, ResumeFrame } from '../../../../shared/api/console.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { type ConsoleLine, LINE_PARTIAL, LINE_TRUNCATED } from '../../../../shared/protocol/console.ts'

/** A place in a log: the line's number, in the log that `epoch` names. */
export interface Position {
  readonly epoch: string
  readonly seq: number
}

/** The id of a line, `<epoch>-<seq>`, or how the ids of a log begin. */
export function lineId(epoch: string, seq: number | ''): string {
  return `${epoch}-${seq}`
}

/** The place that an id names; `undefined` when the text is no line id. */
export function parseLineId(text: string): Position | undefined {
  const [, epoch, seq] = /^([0-9a-z]{1,40})-(\d{1,15})$/.exec(text) ?? []
  return epoch === undefined || seq === undefined ? undefined : { epoch, seq: Number(seq) }
}

/**
 * Makes lines of one log into frames, as viewers get them. What all of them share is written once, and so is the time of
 * neighbours: a flood makes 50,000 of them a second.
 */
export function frameMaker(serverId: string, epoch: string): (line: ConsoleLine) => string {
  const start = `id: ${lineId(epoch, '')}`
  const type: ConsoleFrame['type'] = 'console'
  const middle = `\nevent: ${type}\ndata: {"type":"${type}","serverId":${JSON.stringify(serverId)},"line":`
  let knownMs: number | undefined
  let timestamp = ''
  return ([seq, ms, stream, text, flags]) => {
    if (ms !== knownMs) timestamp = `,"timestamp":"${lineTime(ms)}"`
    knownMs = ms
    const marks = flags === 0 ? '' : marksOf(flags)
    return `${start}${seq}${middle}${JSON.stringify(text)},"stream":"${stream}","seq":${seq}${timestamp}${marks}}\n\n`
  }
}

/** The lines of frames that a {@link frameMaker} has made; their times are as the frames show them. */
export function linesOfFrames(bytes: Buffer): ConsoleLine[] {
  const frames = bytes.toString('utf8').split('\n\n').slice(0, -1)
  return frames.map((frame) => {
    const data = JSON.parse(frame.slice(frame.indexOf(DATA) + DATA.length)) as ConsoleFrame // made by frameMaker
    const flags = (data.partial === true ? LINE_PARTIAL : 0) | (data.truncated === true ? LINE_TRUNCATED : 0)
    return [data.seq, Date.parse(data.timestamp), data.stream, data.line, flags]
  })
}

const DATA = '\ndata: '

function marksOf(flags: number): string {
  const partial = (flags & LINE_PARTIAL) === 0 ? '' : ',"partial":true'
  return (flags & LINE_TRUNCATED) === 0 ? partial : `${partial},"truncated":true`
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
