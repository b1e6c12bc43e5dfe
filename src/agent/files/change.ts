import { closeSync, constants, openSync, renameSync, type Stats, symlinkSync, unlinkSync } from 'node:fs'
import { pathBytes } from '../../shared/kernel/path-text.ts'
import { AgentFailure } from '../failure.ts'
import { codeOf } from './folder-handle.ts'
import {
  factsIn,
  failureOf,
  folderIn,
  makeFolder,
  makeFolderPath,
  type Place,
  rootOwner,
  taken,
  withPlace,
} from './place.ts'
import type { PathRules } from './rules.ts'

const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants

/** Makes a folder for the owner of the root; answers false when `parents` allows one that is there. */
export async function makeFolderAt(root: string, path: string, parents: boolean): Promise<boolean> {
  if (parents) return await makeFolderPath(root, path)
  return await withPlace(root, path, ({ folder, name }) => {
    if (!makeFolder(folder, name, rootOwner(root).uid)) throw taken(path)
    return true
  })
}

/** Gives an entry another name or place below the same root. */
export async function rename(
  root: string,
  {
    from,
    to,
    replace,
    rules,
  }: { readonly from: string; readonly to: string; readonly replace: boolean; readonly rules: PathRules },
): Promise<void> {
  const [source, target] = [{ field: 'from' }, { field: 'to' }]
  await withPlace(
    root,
    from,
    async (old) => {
      const isFolder = factsIn(old, from, source).isDirectory()
      for (const path of [from, to]) rules.refuseUnreached(path, isFolder)
      if (isFolder) {
        const folder = folderIn(old, from, source)
        await rules.refuseDeniedIn(folder, [from, to]).finally(() => folder.close())
      }
      await withPlace(root, to, (place) => moveInto(old, place, { to, replace, isFolder }), target)
    },
    source,
  )
}

/**
 * Moves what has one name to another, which nobody has: where a file is moved, the name is taken with an empty file first, which one
 * call makes or refuses, so that no file of a game is replaced by chance. Linux has a call for all of it (`renameat2`), which Node
 * lacks; taking the name by a second link would leave a moment in which removing the first one could hit another file.
 */
export function moveInto(
  old: Pick<Place, 'folder' | 'name'>,
  { folder, name, above }: Place,
  { to, replace, isFolder }: { readonly to: string; readonly replace: boolean; readonly isFolder: boolean },
): void {
  const field = { field: 'to' }
  if (isFolder && isWithin(old, above)) throw new AgentFailure('PATH_INVALID', 'lies in the folder itself', field)
  const there = folder.statOf(name)
  if (there !== undefined && (!replace || there.isDirectory() || isFolder)) throw taken(to, field)
  if (there !== undefined && isSameFile(old, { folder, name }, there)) return void old.folder.unlink(old.name)
  const claims = there === undefined && !isFolder
  if (claims) claim({ folder, name }, to)
  try {
    renameSync(old.folder.pathOf(old.name), folder.pathOf(name))
  } catch (error) {
    if (claims) unlinkSync(folder.pathOf(name))
    const code = codeOf(error)
    if (code === 'ENOTEMPTY' || code === 'EEXIST' || code === 'ENOTDIR' || code === 'EISDIR') throw taken(to, field)
    if (code === 'EINVAL') throw new AgentFailure('PATH_INVALID', 'lies in the folder itself', field)
    throw failureOf(error, field)
  }
}

/** Whether two names are those of one file: the system leaves both then, and calls that renamed. */
function isSameFile(old: Pick<Place, 'folder' | 'name'>, to: Pick<Place, 'folder' | 'name'>, there: Stats): boolean {
  const facts = old.folder.statOf(old.name)
  if (facts === undefined || facts.ino !== there.ino || old.folder.device !== to.folder.device) return false
  return !(old.folder.isSame(to.folder.device, to.folder.inode) && old.name.equals(to.name))
}

/** Whether the folder of that name is one of these. */
export function isWithin(
  { folder, name }: Pick<Place, 'folder' | 'name'>,
  above: readonly { readonly device: bigint; readonly inode: bigint }[],
): boolean {
  const facts = folder.statOf(name)
  return (
    facts !== undefined && above.some(({ device, inode }) => device === folder.device && inode === BigInt(facts.ino))
  )
}

/** Makes a link. Its text has to lead, read as it stands, to a place below the root. */
export async function makeLink(
  root: string,
  { path, target }: { readonly path: string; readonly target: string },
): Promise<void> {
  const depth = path.split('/').filter((name) => name !== '' && name !== '.').length - 1
  const text = linkText(target, depth)
  await withPlace(root, path, ({ folder, name }) => {
    try {
      symlinkSync(text, folder.pathOf(name))
    } catch (error) {
      if (codeOf(error) === 'EEXIST') throw taken(path)
      throw error
    }
    const { uid } = rootOwner(root)
    if (process.getuid?.() === 0) folder.giveEntry(name, uid, (facts) => facts.isSymbolicLink())
  })
}

/**
 * The text of a link as bytes; throws PATH_INVALID where it leads out. The way that a link goes: up by `..` at the beginning only, and no further than to the root. The folder of the link is reached
 * without links, so that those steps lead where they seem to.
 */
export function linkText(target: string, depth: number): Buffer {
  const names = target.split('/')
  const ups = names.findIndex((name) => name !== '..' && name !== '.' && name !== '')
  const up = (ups < 0 ? names : names.slice(0, ups)).filter((name) => name === '..').length
  const isLater = ups >= 0 && names.slice(ups).includes('..')
  const bytes = pathBytes(target)
  if (target.startsWith('/') || target.includes('\0') || up > depth || isLater || bytes === undefined) {
    const message =
      'must be relative, and lead to a place below the folder of the server ("..", if at all, at its beginning)'
    throw new AgentFailure('PATH_INVALID', message, { field: 'target' })
  }
  return Buffer.from(bytes)
}

function claim({ folder, name }: Pick<Place, 'folder' | 'name'>, to: string): void {
  try {
    closeSync(openSync(folder.pathOf(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600))
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw taken(to, { field: 'to' })
    throw error
  }
}
