import { closeSync, openSync, readSync } from 'node:fs'
import { endianness } from 'node:os'

/** Where in the header the counter of commits is: 32 bits in the machine's own order. */
const COMMITS = 8

/** The first copy of the header of a write-ahead log's index (https://www.sqlite.org/walformat.html): a counter of commits among it. */
const HEADER = 48

/**
 * Watches the header of the index beside a database in WAL mode, which a commit of any process changes before others see it.
 * A look is one read of 48 bytes from the page cache: a hundredth of what a statement costs.
 */
export class WalIndex {
  readonly #file: number
  readonly #now = Buffer.alloc(HEADER)
  #known: Buffer | undefined

  /** The database must be open, and have been read, in WAL mode. */
  constructor(database: string) {
    this.#file = openSync(`${database}-shm`, 'r')
  }

  /** The header as it is. */
  look(): Buffer {
    const header = Buffer.alloc(HEADER)
    readSync(this.#file, header, 0, HEADER, 0)
    return header
  }

  /** This header stands for all that is known of. */
  know(header: Buffer): void {
    this.#known = header
  }

  /** Whether nothing has been committed since the header that is known. */
  isKnown(): boolean {
    return (
      this.#known !== undefined &&
      readSync(this.#file, this.#now, 0, HEADER, 0) === HEADER &&
      this.#now.equals(this.#known)
    )
  }

  /**
   * Whether between the header that is known and this one exactly one transaction was committed. Without a header it is the one that
   * {@link WalIndex.isKnown} has read last.
   */
  isOneLater(header: Buffer = this.#now): boolean {
    return this.#known !== undefined && commitsOf(header) === (commitsOf(this.#known) + 1) % 2 ** 32
  }

  close(): void {
    closeSync(this.#file)
  }
}

function commitsOf(header: Buffer): number {
  return endianness() === 'LE' ? header.readUInt32LE(COMMITS) : header.readUInt32BE(COMMITS)
}
