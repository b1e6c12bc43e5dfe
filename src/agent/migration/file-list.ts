import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pathText } from '../../shared/kernel/path-text.ts'

/** A file as it was unpacked. */
export interface ListedFile {
  /** As `kernel/path-text.ts` writes bytes. */
  readonly path: string
  readonly size: number
  readonly sha256: string
}

/** The files that come, by the bytes of their paths, each as the character of that code. */
export class FileList {
  readonly #files = new Map<string, { readonly size: number; readonly sha256: string }>()

  set(path: Buffer, file: { readonly size: number; readonly sha256: string } | null): void {
    if (file === null) this.#files.delete(path.toString('latin1'))
    else this.#files.set(path.toString('latin1'), file)
  }

  /**
   * Writes all of them, sorted, a line each, and answers the SHA-256 of what `sha256sum` says of them in that order, so that anybody can
   * make it again: `find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum`.
   */
  async write(path: string): Promise<{ readonly files: number; readonly bytes: number; readonly sha256: string }> {
    const hash = createHash('sha256')
    const files = this.#files
    let bytes = 0
    function* lines(): Generator<string> {
      for (const name of [...files.keys()].sort()) {
        const file = files.get(name)
        if (file === undefined) continue
        const raw = Buffer.from(name, 'latin1')
        hash.update(`${file.sha256}  ./`).update(raw).update('\n')
        bytes += file.size
        // In this form no name has a character that readers of lines take for an end.
        yield `${JSON.stringify([name, file.size, file.sha256])}\n`
      }
    }
    await pipeline(Readable.from(lines()), createWriteStream(path, { mode: 0o600 }))
    return { files: files.size, bytes, sha256: hash.digest('hex') }
  }
}

/** The files of a list that {@link FileList.write} has written, in its order. */
export async function* listedFiles(path: string): AsyncGenerator<ListedFile> {
  const file = await open(path)
  try {
    for await (const line of file.readLines()) {
      const [name, size, sha256] = JSON.parse(line) as [string, number, string] // written above
      yield { path: pathText(Buffer.from(name, 'latin1')), size, sha256 }
    }
  } finally {
    await file.close().catch(() => {}) // reading to the end has closed it
  }
}
