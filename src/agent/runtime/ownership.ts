import { constants } from 'node:fs'
import { type FileHandle, lchown, lstat, open, readdir } from 'node:fs/promises'

/**
 * Gives a folder and all in it to one user, touching only what belongs to another. It never follows a link: each folder is
 * opened as such and its entries are named through it, so that a link put in its place meanwhile leads nowhere. A file with
 * a second name is left alone, because the other name may be outside.
 */
export async function giveTo(folder: string, uid: number): Promise<void> {
  const handle = await openFolder(folder)
  try {
    const facts = await handle.stat()
    if (facts.uid !== uid || facts.gid !== uid) await handle.chown(uid, uid)
    if ((facts.mode & 0o777) !== 0o700) await handle.chmod(0o700)
    await giveEntries(handle, uid)
  } finally {
    await handle.close()
  }
}

async function giveEntries(folder: FileHandle, uid: number): Promise<void> {
  const here = `/proc/self/fd/${folder.fd}`
  for (const name of await readdir(here, { encoding: 'buffer' })) {
    const path = Buffer.concat([Buffer.from(`${here}/`), name])
    const facts = await lstat(path)
    if (facts.isDirectory()) {
      const inner = await openFolder(path)
      try {
        const now = await inner.stat()
        if (now.uid !== uid || now.gid !== uid) await inner.chown(uid, uid)
        await giveEntries(inner, uid)
      } finally {
        await inner.close()
      }
    } else if ((facts.uid !== uid || facts.gid !== uid) && facts.nlink === 1) await lchown(path, uid, uid)
  }
}

function openFolder(path: string | Buffer): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
}
