import { existsSync } from 'node:fs'
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
