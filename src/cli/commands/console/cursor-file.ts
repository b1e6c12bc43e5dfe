import { readFile } from 'node:fs/promises'
import { LineId } from '../../../shared/api/console.ts'
import { CliFailure } from '../../kit/failure.ts'
import { writePrivateFile } from '../../kit/profile/files.ts'

/** The place after the last line that was written to stdout. */
export interface CursorFile {
  /** Where the last run ended; `undefined` in the first. */
  readonly start: string | undefined
  /** Notes the place of a written line. Kept in memory until {@link save}. */
  note(id: string): void
  /** Writes the place, whole or not at all; does nothing when it has not moved. */
  save(): Promise<void>
}

/** Opens a cursor file; an absent one is made at the first save, one with something else in it is exit 2. */
export async function openCursorFile(path: string): Promise<CursorFile> {
  const start = await readCursor(path)
  let noted = start
  let saved = start
  let saving: Promise<void> | undefined
  const write = async (): Promise<void> => {
    while (noted !== undefined && noted !== saved) {
      const place = noted
      await writePrivateFile(path, `${place}\n`)
      saved = place
    }
  }
  return {
    start,
    note: (id) => {
      noted = id
    },
    // One writer at a time: an older place must never overwrite a newer one.
    save: () => {
      saving ??= write().finally(() => {
        saving = undefined
      })
      return saving
    },
  }
}

async function readCursor(path: string): Promise<string | undefined> {
  let text: string
  try {
    text = (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw new CliFailure('FILE_UNREADABLE', `the cursor file ${path} cannot be read`, { cause: error })
  }
  if (text === '') return undefined
  if (!LineId.safeParse(text).success) throw new CliFailure('FILE_UNREADABLE', `${path} is no cursor file`)
  return text
}
