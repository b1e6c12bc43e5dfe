import { CliFailure } from '../../../kit/failure.ts'

/** A file of a source that may hold an egg. */
export interface SourceFile {
  /** Below the source, with `/`. */
  readonly path: string
  readonly content: Uint8Array
}

/** The bounds of a source; what is larger is no collection of eggs. */
export const SOURCE_LIMITS = {
  /** Of one egg; larger files are passed over. */
  fileBytes: 1024 * 1024,
  /** Of all files that may be eggs. */
  totalBytes: 64 * 1024 * 1024,
  files: 5_000,
  /** Files and folders of any kind. */
  entries: 50_000,
  depth: 16,
  /** Of a repository or archive, and of what an archive unpacks to. */
  packedBytes: 256 * 1024 * 1024,
  unpackedBytes: 1024 * 1024 * 1024,
  /** How long getting it may take. */
  ms: 120_000,
} as const

/** The files that may be eggs, counted as they are found. Its methods throw a CliFailure (exit 11) at a bound. */
export class SourceFiles {
  readonly found: SourceFile[] = []
  #entries = 0
  #bytes = 0

  /** Counts an entry of any kind. */
  entry(): void {
    if (++this.#entries > SOURCE_LIMITS.entries) throw tooMuch(`more than ${SOURCE_LIMITS.entries} files and folders`)
  }

  /** Whether the file may be an egg, by its name and size; counts it when it may. */
  takes(path: string, bytes: number): boolean {
    if (!mayBeEgg(path) || bytes > SOURCE_LIMITS.fileBytes) return false
    this.#bytes += bytes
    if (this.#bytes > SOURCE_LIMITS.totalBytes) throw tooMuch('more than 64 MiB of JSON and YAML')
    if (this.found.length >= SOURCE_LIMITS.files) throw tooMuch(`more than ${SOURCE_LIMITS.files} JSON and YAML files`)
    return true
  }

  add(path: string, content: Uint8Array): void {
    this.found.push({ path, content })
  }
}

/** A source that is beyond a bound. */
export function tooMuch(what: string): CliFailure {
  return new CliFailure('OPERATION_FAILED', `The source holds ${what}; name a folder of it`)
}

function mayBeEgg(path: string): boolean {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase()
  return ['.json', '.yaml', '.yml'].some((end) => name.endsWith(end))
}
