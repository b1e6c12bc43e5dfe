import { oneLine } from '../../kit/output/escape.ts'

const MOST = 200

/** Why something did not work, as a sentence for a row of the screen: the daemon's own, without its code. */
export function sentenceOf(error: unknown): string {
  const line = oneLine(error instanceof Error ? error.message : String(error))
    .trim()
    .replace(/\.$/, '')
  return line.length > MOST ? `${line.slice(0, MOST)}…` : line
}
