import type { ConsoleLine } from '../../../shared/protocol/console.ts'
import { LineSplitter } from '../../console/log/line-splitter.ts'
import { readText } from '../../console/log/record.ts'
import type { SecretMask } from '../secret-mask.ts'
import type { EngineLine } from './engine-log.ts'

/** A whole line of the engine's log. */
export interface SaidLine {
  readonly ms: number
  /** With its end of line, unless it is the last one and has none yet. */
  readonly bytes: Buffer
  /** As the console shows it. */
  readonly text: string
}

/** Where the console goes on in the engine's log. */
export interface Continuation {
  /** The first line that the console lacks, or whose end it lacks. */
  readonly index: number
  /** How many bytes of that line the console has already. */
  readonly openBytes: number
}

/** The bit of a console line's flags that says that its end has not come. */
const PARTIAL = 1

/** Puts the messages of one output together to lines, masked as they stand in the console. */
export function linesOf(messages: readonly EngineLine[], mask: SecretMask): SaidLine[] {
  const lines: SaidLine[] = []
  let pieces: Buffer[] = []
  let ms = 0
  const splitter = new LineSplitter((bytes, partial) => {
    pieces.push(Buffer.from(bytes))
    if (partial) return
    lines.push(lineOf(pieces, ms, '\n'))
    pieces = []
  })
  for (const message of messages) {
    ms = message.ms
    splitter.push(mask.push(message.bytes))
  }
  splitter.push(mask.end())
  splitter.flush()
  if (pieces.length > 0) lines.push(lineOf(pieces, ms, ''))
  return lines
}

function lineOf(pieces: readonly Buffer[], ms: number, end: string): SaidLine {
  const line = Buffer.concat(pieces)
  return {
    ms,
    bytes: Buffer.concat([line, Buffer.from(end)]),
    text: readText(line, { textStart: 0, end: line.length }),
  }
}

/**
 * Finds the place in `said` that follows the last lines of the console (`known`, oldest first). Where they fit in more than
 * one place (a program that says the same again and again), the place whose time is nearest counts; where they fit
 * nowhere, everything later than the last known line is new.
 */
export function firstNewLine(known: readonly ConsoleLine[], said: readonly SaidLine[]): Continuation {
  const { whole, open } = wholeLines(known)
  const lastMs = known.at(-1)?.[1] ?? 0
  if (known.length === 0) return { index: 0, openBytes: 0 }
  const places = said
    .map((_, index) => index)
    .concat(said.length)
    .filter((index) => fits(whole, said, index) && (open === '' || said[index]?.text.startsWith(open) === true))
  const nearest = places.sort(
    (one, other) => distance(said, one, lastMs) - distance(said, other, lastMs) || other - one,
  )[0]
  if (nearest !== undefined) return { index: nearest, openBytes: Buffer.byteLength(open) }
  const later = said.findIndex(({ ms }) => ms > lastMs)
  return { index: later < 0 ? said.length : later, openBytes: 0 }
}

/** Whether the lines before `index` are the last known ones, as far back as `said` goes. */
function fits(whole: readonly string[], said: readonly SaidLine[], index: number): boolean {
  const count = Math.min(whole.length, index)
  if (count === 0) return whole.length === 0
  for (let back = 1; back <= count; back++) {
    if (whole[whole.length - back] !== said[index - back]?.text) return false
  }
  return true
}

function distance(said: readonly SaidLine[], index: number, lastMs: number): number {
  return Math.abs((said[index - 1]?.ms ?? 0) - lastMs)
}

/** Lines with all their pieces, and what is there of a line whose end has not come. */
function wholeLines(known: readonly ConsoleLine[]): { whole: string[]; open: string } {
  const whole: string[] = []
  let open = ''
  for (const [, , , text, flags = 0] of known) {
    open += text
    if ((flags & PARTIAL) !== 0) continue
    whole.push(open)
    open = ''
  }
  return { whole, open }
}
