import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { plainText } from './ansi.ts'
import type { LogView } from './log-view.ts'
import type { Entry, Ring } from './ring.ts'
import type { Terminal } from './terminal.ts'

/** What many terminals take at most in one OSC 52 sequence. */
const OSC52_LIMIT = 74_994

/** Puts lines on the clipboard of the terminal, or into a file when they are too many for that; what to say of it. */
export async function copyLines(entries: readonly Entry[], terminal: Pick<Terminal, 'write'>): Promise<string> {
  const text = asText(entries)
  const sequence = clipboardSequence(text)
  const lines = `${entries.length} ${entries.length === 1 ? 'line' : 'lines'}`
  if (sequence === undefined) return `${lines} written to ${await toTemporaryFile(text)}`
  terminal.write(sequence)
  return `${lines} copied`
}

/** The lines of a view between two places, both included; gap rows are no lines. */
export function entriesBetween(
  ring: Ring,
  view: LogView,
  range: { readonly from: number; readonly to: number },
): Entry[] {
  const entries: Entry[] = []
  for (let index = view.rank(range.from); ; index += 1) {
    const entry = ring.get(view.at(index) ?? Number.NaN)
    if (entry === undefined || entry.at > range.to) return entries
    if (entry.kind !== 'gap') entries.push(entry)
  }
}

/** Writes lines with their times into a new file of the working folder; what to say of it. */
export async function exportLines(serverName: string, entries: readonly Entry[], nowMs: number): Promise<string> {
  const stamp = new Date(nowMs).toISOString().replace(/[:.]/g, '-')
  const path = resolve(`console-${serverName.replace(/[^\p{L}\p{N}_-]+/gu, '_')}-${stamp}.log`)
  const text = entries
    .map((entry) =>
      entry.kind === 'gap' ? `# ${entry.text}\n` : `${new Date(entry.ms).toISOString()} ${plainText(entry.text)}\n`,
    )
    .join('')
  await writeFile(path, text, { mode: 0o600, flag: 'wx' })
  return `${entries.length} lines written to ${path}`
}

/** The sequence that puts a text on the clipboard of the terminal, also over SSH; `undefined` when it is too long for it. */
function clipboardSequence(text: string): string | undefined {
  const encoded = Buffer.from(text, 'utf8').toString('base64')
  return encoded.length > OSC52_LIMIT ? undefined : `\u001B]52;c;${encoded}\u0007`
}

/** Lines as text without styles, each with its end. */
function asText(entries: readonly Entry[]): string {
  return entries.map((entry) => `${plainText(entry.text)}\n`).join('')
}

/** Writes a text into a new file in the folder for temporary files; its path. */
async function toTemporaryFile(text: string): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), 'panel-copy-')), 'lines.txt')
  await writeFile(path, text, { mode: 0o600 })
  return path
}
