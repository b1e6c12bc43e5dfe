import { mkdtemp, open, unlink, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { plainText } from '../log/ansi.ts'
import type { LogView } from '../log/log-view.ts'
import type { Entry, Ring } from '../log/ring.ts'
import type { Terminal } from '../terminal/terminal.ts'

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

/** The name of the file that a console is written to, unless the person types another. */
export function exportName(serverName: string, nowMs: number): string {
  const stamp = new Date(nowMs).toISOString().replace(/[-:]|\..*/g, '')
  return `console-${serverName.replace(/[^\p{L}\p{N}_-]+/gu, '_')}-${stamp}.log`
}

/**
 * Writes lines with their times into a new file, and says how many and where; `~/` is the person's home. A file that is there
 * already is left alone, and one that could not be written whole is taken away again.
 */
export async function exportLines(entries: Iterable<Entry>, path: string, what: string): Promise<string> {
  const target = path.startsWith('~/') ? join(homedir(), path.slice(2)) : resolve(path)
  const file = await open(target, 'wx', 0o600).catch((error: unknown) => {
    const reason = reasonOf(error, { EEXIST: 'it is there already', ENOENT: 'its folder is not there' })
    throw new Error(`not written, ${reason}: ${target}`, { cause: error })
  })
  try {
    let lines = 0
    let batch: string[] = []
    const flush = async (): Promise<void> => {
      await file.write(batch.join(''))
      batch = []
    }
    for (const entry of entries) {
      batch.push(exportedLine(entry))
      if (entry.kind !== 'gap') lines += 1
      if (batch.length === BATCH) await flush()
    }
    await flush()
    const home = `${homedir()}/`
    const named = target.startsWith(home) ? `~/${target.slice(home.length)}` : target
    return `${lines} ${lines === 1 ? 'line' : 'lines'} (${what}) written to ${named}`
  } catch (error) {
    await unlink(target)
    throw error
  } finally {
    await file.close()
  }
}

/** Lines written at once: keys are answered between two of them. */
const BATCH = 500

function exportedLine(entry: Entry): string {
  if (entry.kind === 'gap') return `# ${entry.text}\n`
  return `${new Date(entry.ms).toISOString()} ${plainText(entry.text)}\n`
}

function reasonOf(error: unknown, known: Readonly<Record<string, string>>): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return known[code] ?? (error instanceof Error ? error.message : String(error))
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
