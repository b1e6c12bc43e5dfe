/** Why a file cannot be read. The system's own words for a folder speak of an "operation" and do not name it. */
export function fileProblem(path: string, error: unknown): string {
  if (error instanceof Error && 'code' in error && error.code === 'EISDIR') return `${path} is a folder, not a file`
  return error instanceof Error ? error.message : String(error)
}

/** What is asked of the facts of a file. */
interface Facts {
  isFile(): boolean
  isDirectory(): boolean
  isFIFO(): boolean
}

/**
 * Why a path is not to be read as a file, by what it is: a named pipe that nobody writes to never ends, nor do some devices.
 * What a shell makes of `<(command)` is read: it ends with the command.
 */
export function kindProblem(path: string, facts: Facts): string | undefined {
  if (facts.isFile() || facts.isDirectory()) return undefined
  if (!facts.isFIFO()) return `${path} is a device or socket, not a file`
  return /^\/dev\/(?:fd\/\d+|stdin)$/.test(path) ? undefined : `${path} is a named pipe, not a file`
}
