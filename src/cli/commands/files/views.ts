import type { ArchiveEntry, FileEntry, FileHit, FolderUsage } from '../../../shared/api/files.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import { column, type View, wide } from '../../kit/output/view.ts'

const KINDS = { file: '-', folder: 'd', link: 'l', other: '?' } as const

/** Entries as `ls -l` shows them. */
export const ENTRIES: View<FileEntry> = {
  columns: [
    column('MODE', ({ kind, mode }) => `${KINDS[kind]}${modeText(mode)}`),
    wide('OWNER', ({ uid, gid }) => `${uid}:${gid}`),
    column('SIZE', ({ kind, size }) => (kind === 'folder' ? '-' : byteSize(size))),
    wide('ALLOCATED', ({ allocated }) => byteSize(allocated)),
    column('MODIFIED', ({ modified }) => ({ time: modified })),
    column('NAME', ({ kind, name, target }) =>
      target === null ? `${name}${kind === 'folder' ? '/' : ''}` : `${name} -> ${target}`,
    ),
  ],
  id: ({ path }) => path,
  name: ({ name }) => name,
}

/** Folders with what they take. */
export const FOLDERS: View<FolderUsage> = {
  columns: [
    column('ALLOCATED', ({ allocated }) => byteSize(allocated)),
    column('SIZE', ({ bytes }) => byteSize(bytes)),
    column('ENTRIES', ({ entries }) => entries),
    column('PATH', ({ path }) => path),
  ],
  id: ({ path }) => path,
  name: ({ path }) => path,
}

/** What a search has found. */
export const HITS: View<FileHit> = {
  columns: [
    column('PATH', ({ path, kind }) => (kind === 'folder' ? `${path}/` : path)),
    column('SIZE', ({ kind, size }) => (kind === 'folder' ? '-' : byteSize(size))),
    wide('MODIFIED', ({ modified }) => ({ time: modified })),
    column('LINE', ({ line }) => line),
    column('TEXT', ({ text }) => text),
  ],
  id: ({ path }) => path,
  name: ({ path }) => path,
}

/** What is in an archive. */
export const ARCHIVED: View<ArchiveEntry> = {
  columns: [
    column('KIND', ({ kind }) => kind),
    column('SIZE', ({ isDirectory, size }) => (isDirectory ? '-' : byteSize(size))),
    column('MODIFIED', ({ modified }) => ({ time: modified })),
    column('NAME', ({ name }) => name),
  ],
  id: ({ name }) => name,
  name: ({ name }) => name,
}

function modeText(mode: number): string {
  return [6, 3, 0]
    .map((shift) => 'rwx'.replace(/./g, (letter, at: number) => ((mode >> shift) & (4 >> at) ? letter : '-')))
    .join('')
}
