import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { programFolder } from '../../../../shared/platform/program-folder.ts'

/** How this copy of the program came to this machine. */
export type Origin = 'package' | 'git' | 'container' | 'files'

/** Looks around the program's own folder and the machine: a container first, because it holds one of the others. */
export function findOrigin(): Origin {
  if (isContainer()) return 'container'
  const folder = programFolder(import.meta.dirname) ?? import.meta.dirname
  if (existsSync(join(folder, '.git'))) return 'git'
  return folder.split('/').includes('node_modules') ? 'package' : 'files'
}

/** Whether this process runs in a container: the two common runtimes leave a file at the root. */
export function isContainer(): boolean {
  return existsSync('/.dockerenv') || existsSync('/run/.containerenv')
}
