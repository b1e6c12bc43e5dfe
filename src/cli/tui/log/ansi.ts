/** A stretch of text in one style. `style` is a run of SGR sequences ('' is plain), `text` holds no control character. */
export interface Span {
  readonly style: string
  readonly text: string
}

/** Ends every style. */
export const RESET = '\u001B[0m'

/**
 * Reads a line as a game sent it. Colours and type styles (SGR) are kept in a normal form; every other control is dropped:
 * cursor moves, titles and clipboards (OSC), DCS, C1, carriage returns, and the marks that reverse the reading direction.
 * A game, or a player by their name, can therefore change nothing on the screen but its own line. Concealed and blinking
 * text is shown plainly. `most` stops the reading after so many characters; the rest is lost.
 */
export function readLine(raw: string, most = Number.POSITIVE_INFINITY): Span[] {
  if (!NEEDS_CARE.test(raw)) return raw === '' ? [] : [{ style: '', text: raw.slice(0, most) }]
  const spans: Span[] = []
  let pen = PLAIN
  let style = ''
  let seen = 0
  let at = 0
  const put = (text: string): void => {
    if (text === '') return
    spans.push({ style, text: text.slice(0, Math.max(0, most - seen)) })
    seen += text.length
  }
  for (const found of raw.matchAll(CONTROL)) {
    put(raw.slice(at, found.index))
    at = found.index + found[0].length
    if (seen >= most) return spans
    if (found.groups?.['sgr'] === undefined) continue
    pen = applySgr(pen, found.groups['sgr'])
    style = styleOf(pen)
  }
  put(raw.slice(at))
  return spans
}

/** The text of a line without any style or control, as searches and copies see it. */
export function plainText(raw: string): string {
  return NEEDS_CARE.test(raw) ? raw.replace(CONTROL, '') : raw
}

/** Spans as text for the terminal; ends plainly when it was not plain. */
export function paint(spans: readonly Span[]): string {
  let text = ''
  for (const span of spans) text += span.style === '' ? span.text : `${span.style}${span.text}${RESET}`
  return text
}

// Sequences with a body (OSC, DCS, SOS, PM, APC) run to their terminator or to the end of the line. A sequence that is
// not complete loses its introducer here and its other control bytes by the last alternatives. A tab is text.
const BODY = '[^\\u0007\\u001B\\u009C]*(?:\\u0007|\\u001B\\\\|\\u009C|$)?'
const CONTROL = new RegExp(
  [
    '(?:\\u001B\\[|\\u009B)(?<sgr>[\\d;:]*)m',
    '(?:\\u001B\\[|\\u009B)[\\x30-\\x3F]*[\\x20-\\x2F]*[\\x40-\\x7E]?',
    `(?:\\u001B[\\]PX^_]|[\\u0090\\u0098\\u009D-\\u009F])${BODY}`,
    '\\u001B[\\x20-\\x2F]*[\\x30-\\x7E]?',
    '[\\u0000-\\u0008\\u000A-\\u001A\\u001C-\\u001F\\u007F-\\u008F\\u0091-\\u0097\\u0099\\u009A\\u009C]+',
    '[\\u200E\\u200F\\u2028-\\u202E\\u2066-\\u2069]+',
  ].join('|'),
  'g',
)
const NEEDS_CARE = /[\p{Cc}\u200E\u200F\u2028-\u202E\u2066-\u2069]/u

/** What SGR sequences have set so far. */
interface Pen {
  readonly flags: readonly number[]
  readonly foreground: string
  readonly background: string
}

const PLAIN: Pen = { flags: [], foreground: '', background: '' }

function styleOf(pen: Pen): string {
  const codes = [...pen.flags.map(String), pen.foreground, pen.background].filter((code) => code !== '')
  return codes.map((code) => `\u001B[${code}m`).join('')
}

function applySgr(before: Pen, parameters: string): Pen {
  const codes = parameters.split(/[;:]/).slice(0, 32).map(Number)
  let pen = before
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0
    if (code === 38 || code === 48 || code === 58) {
      const { value, used } = extendedColour(codes.slice(at + 1))
      at += used
      if (value !== '' && code === 38) pen = { ...pen, foreground: `38;${value}` }
      if (value !== '' && code === 48) pen = { ...pen, background: `48;${value}` }
    } else {
      pen = applyCode(pen, code)
    }
  }
  return pen
}

/** `5;n` or `2;r;g;b` after 38, 48 or 58, and how many numbers it took. */
function extendedColour(codes: readonly number[]): { value: string; used: number } {
  const length = codes[0] === 5 ? 2 : codes[0] === 2 ? 4 : 0
  const taken = codes.slice(0, length)
  const valid = length > 0 && taken.length === length && taken.every((code) => code <= 255)
  return { value: valid ? taken.join(';') : '', used: Math.max(length, 1) }
}

const FLAG_ENDS: Readonly<Record<number, readonly number[]>> = { 22: [1, 2], 23: [3], 24: [4], 27: [7], 29: [9] }

function applyCode(pen: Pen, code: number): Pen {
  if (code === 0) return PLAIN
  if ([1, 2, 3, 4, 7, 9].includes(code)) return pen.flags.includes(code) ? pen : { ...pen, flags: [...pen.flags, code] }
  const ended = FLAG_ENDS[code]
  if (ended !== undefined) return { ...pen, flags: pen.flags.filter((flag) => !ended.includes(flag)) }
  if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) return { ...pen, foreground: String(code) }
  if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) return { ...pen, background: String(code) }
  if (code === 39) return { ...pen, foreground: '' }
  if (code === 49) return { ...pen, background: '' }
  return pen
}
