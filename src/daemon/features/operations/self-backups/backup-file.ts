import { access, mkdir, open } from 'node:fs/promises'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { Connection } from '../../../db/sqlite/connection.ts'
import { clearFolder, databaseIn, type Unpacked, unpackBackup } from './archive.ts'

const PROBLEMS = 5

/**
 * Copies the database at `file` as it is at one moment into the folder, on a connection of its own: readers and the writer go on
 * meanwhile. The backup that is being made is not in its own copy, nor is its job. Answers the version of the schema.
 */
export async function copyDatabase(
  file: string,
  folder: string,
  { id, jobId, signal }: { readonly id: string; readonly jobId: string; readonly signal: AbortSignal },
): Promise<number> {
  const target = databaseIn(folder)
  await (await open(target, 'wx', 0o600)).close()
  await working(file, signal, async (connection) => {
    // A moment ago, a checkpoint of the writer may have held the file.
    await connection.exec('PRAGMA busy_timeout = 5000')
    await connection.run('VACUUM INTO ?', [target])
  })
  return working(target, signal, async (connection) => {
    await connection.exec('PRAGMA journal_mode = DELETE; PRAGMA foreign_keys = ON')
    await connection.run('DELETE FROM self_backup WHERE id = ?', [id])
    await connection.run('DELETE FROM job WHERE id = ?', [jobId])
    const [row] = await connection.all('PRAGMA user_version')
    return Number(row?.['user_version'])
  })
}

/** Unpacks a backup into an empty folder and reads its database through. What is wrong with it fails with VALIDATION_ERROR. */
export async function examineBackup(
  content: AsyncIterable<Uint8Array>,
  folder: string,
  signal: AbortSignal,
): Promise<Unpacked> {
  await freshFolder(folder)
  const unpacked = await unpackBackup(content, folder, signal)
  const problems = await working(unpacked.database, signal, async (connection) => {
    const rows = await connection.all(`PRAGMA integrity_check(${PROBLEMS})`)
    return rows.map((row) => String(row['integrity_check'])).filter((text) => text !== 'ok')
  }).catch((error: unknown) => {
    if (signal.aborted) throw error
    return [error instanceof Error ? error.message : String(error)]
  })
  if (problems.length === 0) return unpacked
  throw new PanelError(
    'VALIDATION_ERROR',
    `The database in this backup is damaged: ${problems.join('; ').slice(0, 500)}`,
  )
}

/** An empty folder for its owner alone. */
export async function freshFolder(folder: string): Promise<void> {
  await clearFolder(folder)
  await mkdir(folder, { recursive: true, mode: 0o700 })
}

/** Whether something has this name. */
export function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

async function working<T>(file: string, signal: AbortSignal, work: (connection: Connection) => Promise<T>): Promise<T> {
  signal.throwIfAborted()
  const connection = await Connection.open(file, 'existing')
  const interrupt = (): void => connection.interrupt()
  signal.addEventListener('abort', interrupt)
  try {
    return await work(connection)
  } finally {
    signal.removeEventListener('abort', interrupt)
    await connection.close()
  }
}
