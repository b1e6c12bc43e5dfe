import { terminalText } from '../../shared/kernel/terminal-text.ts'
import { writeError } from '../../shared/platform/log-output.ts'

/** Writes text for the person at the terminal to stdout; nothing in it moves a cursor. */
export function print(text: string): void {
  process.stdout.write(terminalText(text))
}

/** The same to stderr: why something cannot work. */
export function printError(text: string): void {
  writeError(terminalText(text))
}
