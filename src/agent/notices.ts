import { terminalText } from '../shared/kernel/terminal-text.ts'
import { writeError } from '../shared/platform/log-output.ts'

/** Writes text for the person at the terminal to stderr; nothing in it moves a cursor. */
export function printError(text: string): void {
  writeError(terminalText(text))
}
