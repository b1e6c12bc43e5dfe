import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * The nearest folder at or above `start` that holds the file; `undefined` where none does. Modules find the program's files by
 * it, because they lie elsewhere in a bundle than in the source.
 */
export function folderAbove(start: string, file: string): string | undefined {
  if (existsSync(join(start, file))) return start
  const above = dirname(start)
  return above === start ? undefined : folderAbove(above, file)
}

/** The folder of the program's own package file; those within a build say nothing but of which kind its modules are. */
export function programFolder(start: string): string | undefined {
  const folder = folderAbove(start, 'package.json')
  if (folder === undefined || readFileSync(join(folder, 'package.json'), 'utf8').includes('"version"')) return folder
  return programFolder(dirname(folder))
}
