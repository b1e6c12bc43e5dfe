export { oneLine } from '../../../shared/kernel/terminal-text.ts'

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is dropped
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/** A console line for a terminal: colours (SGR) stay, everything else that is not text is dropped. */
export function consoleText(line: string): string {
  return line
    .replace(ESCAPES, (sequence) => (SGR.test(sequence) ? sequence : ''))
    .replace(UNSAFE, (char) => (char === '\t' || char === '\u001b' ? char : ''))
    .replace(LONE_ESCAPE, '')
}

/** A console line without any colour. */
export function plainText(line: string): string {
  return line.replace(ESCAPES, '').replace(UNSAFE, (char) => (char === '\t' ? char : ''))
}

const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are what is looked for
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])|\u009b[0-?]*[ -/]*[@-~]/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const SGR = /^\u001b\[[\d;:]*m$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const LONE_ESCAPE = /\u001b(?!\[[\d;:]*m)/g
