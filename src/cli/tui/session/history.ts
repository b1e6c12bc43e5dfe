import { appendFile, mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'

const MOST = 500
const FILE_MODE = 0o600

/** The last 500 commands in a history file, oldest first; none when there is no file. Shortens a file that has grown long. */
export async function readHistory(path: string): Promise<string[]> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return ''
    throw error
  })
  const lines = text.split('\n').filter((line) => line !== '')
  const kept = lines.slice(-MOST)
  if (lines.length > 2 * MOST) {
    await writeFile(`${path}.new`, `${kept.join('\n')}\n`, { mode: FILE_MODE })
    await rename(`${path}.new`, path)
  }
  return kept
}

/** Adds a command to a history file that only its owner may read. */
export async function appendHistory(path: string, command: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await appendFile(path, `${command}\n`, { mode: FILE_MODE })
}
