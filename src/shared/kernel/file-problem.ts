/** Why a file cannot be read. The system's own words for a folder speak of an "operation" and do not name it. */
export function fileProblem(path: string, error: unknown): string {
  if (error instanceof Error && 'code' in error && error.code === 'EISDIR') return `${path} is a folder, not a file`
  return error instanceof Error ? error.message : String(error)
}
