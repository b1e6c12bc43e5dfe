import { terminalText } from '../../shared/kernel/terminal-text.ts'

/** Writes text for the person at the terminal to stdout; nothing in it moves a cursor. */
export function print(text: string): void {
  process.stdout.write(terminalText(text))
}

/** The same to stderr: why something cannot work. */
export function printError(text: string): void {
  process.stderr.write(terminalText(text))
}
