import { type FileHandle, open, readFile, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Clock } from '../shared/time.ts'
import { syncFolder } from './atomic-file.ts'
import { JournalRecord } from './journal-record.ts'
import { type AgentLog, errorText } from './logger.ts'

/** What {@link readJournal} found. `damaged` counts lines that could not be used; a torn last line is one of them. */
export interface JournalContent {
  readonly records: JournalRecord[]
  readonly damaged: number
}

interface JournalFileOptions {
  readonly path: string
  readonly clock: Clock
  readonly log: AgentLog
  /** The shortest list of records that gives the present state, all appended ones included. */
  readonly snapshot: () => JournalRecord[]
  /** Compact when the file is larger than this and than twice what the last snapshot took. */
  readonly compactBytes: number
}

interface Waiting {
  readonly lines: string
  readonly resolve: () => void
}

/**
 * Reads a journal. A line that is torn, cut or altered is left out: each carries a checksum, and lines that were never
 * synced may be missing anywhere near the end after a power cut.
 */
export async function readJournal(path: string): Promise<JournalContent> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return { records: [], damaged: 0 }
    throw error
  }
  const records: JournalRecord[] = []
  let damaged = 0
  const lines = text.split('\n')
  if (lines.pop() !== '') damaged++
  for (const line of lines) {
    const record = decodeLine(line)
    if (record === undefined) damaged++
    else records.push(record)
  }
  return { records, damaged }
}

/** One line of the file: checksum, blank, JSON. */
export function encodeLine(record: JournalRecord): string {
  const json = JSON.stringify(record)
  return `${crc32(json).toString(16).padStart(8, '0')} ${json}\n`
}

function decodeLine(line: string): JournalRecord | undefined {
  const json = line.slice(9)
  if (line[8] !== ' ' || crc32(json).toString(16).padStart(8, '0') !== line.slice(0, 8)) return undefined
  const parsed = JournalRecord.safeParse(JSON.parse(json))
  return parsed.success ? parsed.data : undefined
}

/**
 * The writing side: an append resolves when its records are on the disk. Appends that come together share one fsync. When
 * the disk refuses (full), the batch is kept and tried again, because what is in memory must not run ahead for ever.
 */
export class JournalFile {
  readonly #options: JournalFileOptions
  #handle: FileHandle | undefined
  #size = 0
  #compactAbove: number
  #waiting: Waiting[] = []
  #flushing: Promise<void> | undefined
  #closing = new AbortController()

  constructor(options: JournalFileOptions) {
    this.#options = options
    this.#compactAbove = options.compactBytes
  }

  /** Starts with a freshly written snapshot, which also drops every damaged line. */
  async open(): Promise<void> {
    await this.#compact()
  }

  append(records: readonly JournalRecord[]): Promise<void> {
    // As if the agent had been killed here: whoever waits must not act on what is not on the disk.
    if (this.#closing.signal.aborted) return new Promise(() => {})
    const lines = records.map(encodeLine).join('')
    return new Promise((resolve) => {
      this.#waiting.push({ lines, resolve })
      this.#flushing ??= this.#flush()
    })
  }

  /** Writes what waits and closes. A disk that still refuses is given up on; the caller is told by a rejection. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#flushing
    await this.#handle?.close()
    this.#handle = undefined
    if (this.#waiting.length > 0) throw new Error('The journal could not be written to the disk')
  }

  async #flush(): Promise<void> {
    // Let the callers of this turn of the event loop join the first batch.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      try {
        if (this.#size > this.#compactAbove) await this.#compact()
        else await this.#write(batch.map((entry) => entry.lines).join(''))
        for (const entry of batch) entry.resolve()
      } catch (error) {
        this.#waiting = [...batch, ...this.#waiting]
        this.#options.log.error({ err: errorText(error) }, 'the journal cannot be written, trying again')
        if (this.#closing.signal.aborted) break
        await this.#options.clock.sleep(1000, this.#closing.signal)
      }
    }
    this.#flushing = undefined
  }

  async #write(text: string): Promise<void> {
    const handle = this.#handle
    if (handle === undefined) return await this.#compact()
    const bytes = Buffer.from(text)
    try {
      let written = 0
      while (written < bytes.length) {
        const result = await handle.write(bytes, written, bytes.length - written, this.#size + written)
        written += result.bytesWritten
      }
      await handle.datasync()
    } catch (error) {
      // What was written of it is no longer believed: after a failed sync the pages may be gone, so a new file is made.
      this.#handle = undefined
      await handle.close()
      throw error
    }
    this.#size += bytes.length
  }

  async #compact(): Promise<void> {
    const { path, snapshot, compactBytes } = this.#options
    const temporary = `${path}.new`
    const bytes = Buffer.from(snapshot().map(encodeLine).join(''))
    const handle = await open(temporary, 'w', 0o600)
    try {
      await handle.writeFile(bytes)
      await handle.sync()
      await rename(temporary, path)
      await syncFolder(dirname(path))
    } catch (error) {
      await handle.close()
      throw error
    }
    const old = this.#handle
    this.#handle = handle
    this.#size = bytes.length
    this.#compactAbove = Math.max(compactBytes, bytes.length * 2)
    await old?.close()
  }
}
