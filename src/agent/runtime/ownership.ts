import type { Stats } from 'node:fs'
import { FolderHandle } from '../files/folder-handle.ts'
import { walk } from '../files/walk.ts'

/**
 * Gives a folder and all in it to one user, touching only what belongs to another. It never follows a link and never leaves
 * the folder. A file with a second name is left alone, because the other name may be outside; so is a device.
 */
export async function giveTo(folder: string, uid: number): Promise<void> {
  const root = FolderHandle.open(folder)
  if (root === undefined) throw new Error('The files folder of the server is no folder')
  const isOthers = (facts: Stats): boolean => facts.uid !== uid || facts.gid !== uid
  const mayGive = (facts: Stats): boolean =>
    isOthers(facts) && facts.nlink === 1 && !facts.isBlockDevice() && !facts.isCharacterDevice() && !facts.isDirectory()
  const giveFolder = (inner: FolderHandle): void => {
    if (isOthers(inner.stat())) inner.give(uid)
  }
  try {
    giveFolder(root)
    if ((root.stat().mode & 0o777) !== 0o700) root.setMode(0o700)
    await walk(root, {
      enter: giveFolder,
      entry: (at, name) => {
        const facts = at.statOf(name)
        if (facts !== undefined && mayGive(facts)) at.giveEntry(name, uid, mayGive)
      },
    })
  } finally {
    root.close()
  }
}
