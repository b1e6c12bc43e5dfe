/**
 * C0, DEL, C1, line separators, and the marks that turn the direction of text: a terminal must never get them from remote
 * data. Bytes of names that are no UTF-8 (`path-text.ts`) are half a character, which no terminal could show.
 */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is escaped
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|(?<![\ud800-\udbff])[\udc80-\udcff]/g

/** Text that moves no cursor and stays in its line; control characters are shown as `\x1b`, `\n` and the like. */
export function oneLine(text: string): string {
  return text.replace(UNSAFE, shownCharacter)
}

/**
 * Text of several lines as a terminal may get it: lines, tabs and, with `colours`, the colours that the program itself has
 * put in stay; every other control character is shown as `\x1b` and the like.
 */
export function terminalText(text: string, { colours = false }: { readonly colours?: boolean } = {}): string {
  return text.replace(STEPS, (found) => {
    if (found === '\n' || found === '\t' || found === '\r\n') return found
    return colours && found.length > 1 ? found : oneLine(found)
  })
}

/** JSON with every character escaped that a terminal or a log viewer could act on: any parser reads the same value. */
export function jsonText(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(UNSAFE, (found) => (found === '\n' ? found : unicodeEscape(found)))
}

/** `\x9b` or `\u202e`, as double-quoted texts of YAML take them as well. */
export function shownCharacter(char: string): string {
  if (char === '\n') return '\\n'
  if (char === '\t') return '\\t'
  if (char === '\r') return '\\r'
  const unit = char.charCodeAt(0)
  const code = unit >= 0xdc80 && unit <= 0xdcff ? unit - 0xdc00 : unit
  return code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : unicodeEscape(char)
}

/** Whether {@link oneLine} would change the text. */
export function isUnsafe(text: string): boolean {
  return text.search(UNSAFE) >= 0
}

function unicodeEscape(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}

const STEPS = new RegExp(String.raw`\r\n|\u001b\[[\d;:]{0,64}m|${UNSAFE.source}`, 'g')
