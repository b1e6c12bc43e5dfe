import { readFile } from 'node:fs/promises'
import { writeFileAtomic } from './atomic-file.ts'

/**
 * Reads a file that this program wrote as a whole, `undefined` when there is none. Its shape is not checked again: it lies
 * in a folder that only the agent's user can write, and appears only complete.
 */
export async function readOwnJson<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T // written by writeOwnJson with this very type
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Replaces the file as a whole, safe against a crash at any moment. Mode 0600. */
export async function writeOwnJson<T>(path: string, value: T): Promise<void> {
  await writeFileAtomic(path, JSON.stringify(value))
}
