import type { SimFile } from './files.ts'
import type { SimServer } from './rows.ts'

/** An entry of a folder. */
export interface FolderEntry {
  readonly name: string
  readonly kind: 'file' | 'directory' | 'link'
  readonly file: SimFile | undefined
}

const inside = (path: string): string =>
  path
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')

/** What lies in a folder of a server; `undefined`: there is none. */
export function listingOf(server: SimServer, directory: string): readonly FolderEntry[] | undefined {
  const folder = inside(directory)
  const prefix = folder === '' ? '' : `${folder}/`
  const entries = new Map<string, FolderEntry>()
  const { files, links, emptyDirs } = server.tree
  const add = (path: string, kind: FolderEntry['kind'], file?: SimFile): void => {
    if (!path.startsWith(prefix)) return
    const [name = '', more] = path.slice(prefix.length).split('/')
    const isBelow = more !== undefined
    entries.set(name, { name, kind: isBelow ? 'directory' : kind, file: isBelow ? undefined : file })
  }
  for (const [path, file] of files) add(path, 'file', file)
  for (const path of links.keys()) add(path, 'link')
  for (const path of emptyDirs) add(path, 'directory')
  if (entries.size === 0 && folder !== '' && !emptyDirs.has(folder)) return undefined
  return [...entries.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** A file of a server, with its path as the tree has it. */
export function fileOf(server: SimServer, path: string): [string, SimFile] | undefined {
  const name = inside(path)
  const file = server.tree.files.get(name)
  return file === undefined ? undefined : [name, file]
}

/** As `ls` writes it. */
export function modeText(kind: FolderEntry['kind'], mode = 0o755): string {
  const letters = [...'rwxrwxrwx'].map((letter, n) => ((mode >> (8 - n)) & 1 ? letter : '-')).join('')
  return `${kind === 'directory' ? 'd' : kind === 'link' ? 'L' : '-'}${letters}`
}
