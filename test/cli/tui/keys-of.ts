import { createKeyReader, type Input } from '../../../src/cli/tui/keys/keys.ts'

// biome-ignore lint/suspicious/noControlCharactersInRegex: what terminals send
const PIECES = /\u001B(?:\u001B)?(?:\[\[?[0-?]*[ -/]*[@-~]|O[A-Za-z]|[^\u001B])?|[^\u001B]+/gsu

/** The sequences in what a terminal sends, as Ink splits them. */
export function sequencesOf(bytes: string): string[] {
  return bytes.match(PIECES) ?? []
}

/** What the bytes of a terminal mean when they come in one piece and nothing follows them. */
export function inputsOf(bytes: string): Input[] {
  const reader = createKeyReader()
  return [...sequencesOf(bytes).flatMap((sequence) => reader.push(sequence)), ...reader.flush()]
}
