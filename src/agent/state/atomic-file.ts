import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Replaces a file as a whole: after a crash there is the old or the new content. Mode 0600. */
export async function writeFileAtomic(path: string, text: string): Promise<void> {
  const temporary = `${path}.new`
  const file = await open(temporary, 'w', 0o600)
  try {
    await file.chmod(0o600)
    await file.writeFile(text)
    await file.sync()
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }) // on a full disk half a file would be in the way of others
    throw error
  } finally {
    await file.close()
  }
  await syncFolder(dirname(path))
}

/** Makes a rename or a new name in `folder` survive a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
