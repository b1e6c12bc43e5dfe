import { RE2JS } from 're2js'
import { ConsoleFrame, type LogLine, ResumeFrame } from '../../../shared/api/console.ts'
import { usage } from '../../kit/failure.ts'
import { consoleText, plainText } from '../../kit/output/escape.ts'
import type { Run } from '../../kit/run.ts'
import type { StreamItem } from '../../net/stream.ts'

/** One line of a console, from the stream or from a page. */
export interface Line {
  readonly id: string
  readonly seq: number
  readonly stream: string
  readonly line: string
  readonly timestamp: string
  readonly partial?: true
}

/** What a console stream's frame means. */
export type ConsoleItem =
  /** From here on lines come; what is sent now is answered behind this. */
  | { readonly kind: 'connected' }
  | { readonly kind: 'line'; readonly line: Line }
  | { readonly kind: 'resume'; readonly id: string; readonly resume: ResumeFrame }
  | { readonly kind: 'ended'; readonly reason: string }
  /** The game asks for an agreement before it runs. */
  | { readonly kind: 'eula' }

/** Reads a frame; `undefined` for those that a newer daemon may send. */
export function consoleItem(frame: Extract<StreamItem, { kind: 'frame' }>): ConsoleItem | undefined {
  const data: unknown = JSON.parse(frame.data)
  if (frame.event === 'console') {
    const read = ConsoleFrame.safeParse(data)
    if (!read.success) return undefined
    const { seq, stream, line, timestamp, partial } = read.data
    return { kind: 'line', line: { id: frame.id, seq, stream, line, timestamp, ...(partial ? { partial } : {}) } }
  }
  if (frame.event === 'resume_console') {
    const read = ResumeFrame.safeParse(data)
    return read.success ? { kind: 'resume', id: frame.id, resume: read.data } : undefined
  }
  if (frame.event === 'connected') return { kind: 'connected' }
  if (frame.event === 'eula_required') return { kind: 'eula' }
  if (frame.event !== 'error' || typeof data !== 'object' || data === null) return undefined
  const reason = 'message' in data ? data.message : 'error' in data ? data.error : 'error'
  return { kind: 'ended', reason: String(reason) }
}

/** A page's line in the shape of the stream's. */
export function fromLog({ id, seq, stream, data, timestamp, partial }: LogLine): Line {
  return { id, seq, stream, line: data, timestamp, ...(partial ? { partial } : {}) }
}

/** What is printed for lines that are gone for ever. */
export function gapNotice({ missed, from, to, reason }: ResumeFrame): string | undefined {
  if (reason === 'damaged') return 'the log was damaged on the node: lines may be missing here'
  if (missed === 0) return undefined
  const why = {
    trimmed: 'the log was trimmed',
    epoch: 'the log began anew',
    unknown_id: 'that place is not in the log',
  }
  return `${missed} lines are missing (${from} to ${to}): ${reason === null ? 'they are gone' : why[reason]}`
}

/** Writes lines in the format that was asked for: as text, safe for a terminal, or as JSON. */
export async function printLine(run: Run, line: Line): Promise<void> {
  const { format } = run.out
  if (run.out.machine) return run.out.entry(line)
  if (format === 'id' || format === 'name') return run.out.text(`${line.id}\n`)
  const tty = run.terminal.stdout.isTTY === true
  // A program that reads this gets the bytes of the game; a terminal gets nothing that could take it over.
  const colour = run.args.choice('color') !== false && !run.env.noColor
  const text = tty ? (colour ? consoleText(line.line) : plainText(line.line)) : line.line
  const stamp = run.args.flag('timestamps') ? `[${line.timestamp}] ` : ''
  await run.out.text(`${stamp}${text}\n`)
}

/** The filter of `--grep` and `--stream`; upper case in the expression makes case count. */
export function lineFilter(run: Run): (line: Line) => boolean {
  const stream = run.args.text('stream')
  const grep = run.args.text('grep')
  const pattern = grep === undefined ? undefined : compile(grep, { ignoreCase: !/[A-Z]/.test(grep) })
  return (line) =>
    (stream === undefined || line.stream === stream) && (pattern === undefined || pattern.test(plainText(line.line)))
}

/** A regular expression of the command line, as it looks at lines of a game. */
export interface LinePattern {
  readonly source: string
  test(line: string): boolean
}

/** Compiles one of RE2's syntax: no line of a game can make it take for ever. Exit 2 when it is none. */
export function compile(text: string, { ignoreCase }: { readonly ignoreCase: boolean }): LinePattern {
  try {
    const pattern = RE2JS.compile(text, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0)
    return { source: text, test: (line) => pattern.matcher(line).find() }
  } catch (error) {
    throw usage(`'${text}' is not a regular expression: ${error instanceof Error ? error.message : ''}`)
  }
}
