/** A piece of memory of this size comes from the kernel, and goes back to it when nobody holds on to any of it. */
const PIECE_BYTES = 256 * 1024
/** What is larger is left where it is: the last of a piece may leave so much of it unused. */
const MOST_BYTES = 32 * 1024
/** A piece that is full is given up when less than this of it is needed. */
const LEAST_NEEDED = 0.5

/** A piece of memory that many share, from its beginning on. */
class Piece<Owner> {
  /** What of it is needed, and by whom. */
  readonly owned = new Map<Owner, Buffer>()
  needed = 0
  readonly #bytes = Buffer.allocUnsafeSlow(PIECE_BYTES)
  #used = 0

  get isSparse(): boolean {
    return this.needed < PIECE_BYTES * LEAST_NEEDED
  }

  hasRoom(length: number): boolean {
    return this.#used + length <= PIECE_BYTES
  }

  copy(bytes: Buffer): Buffer {
    const at = this.#used
    this.#bytes.set(bytes, at)
    this.#used += bytes.length
    return this.#bytes.subarray(at, this.#used)
  }
}

/**
 * Puts small things one behind the other into large pieces of memory. Each by itself would lie between others in the heap of the C library,
 * which stays as large as it once was for as long as anything at its end is needed. Whoever holds on to one of them holds on to
 * its piece: this is for what goes in the order in which it came, {@link PackedBytes} for all else.
 */
export class BytesInOrder {
  #open: Piece<never> | undefined

  /** A copy, or these very bytes where they are large. */
  put(bytes: Buffer): Buffer {
    if (bytes.length > MOST_BYTES) return bytes
    if (this.#open?.hasRoom(bytes.length) !== true) this.#open = new Piece()
    return this.#open.copy(bytes)
  }
}

/**
 * The same for what goes in any order: what is left of a piece of which little is needed is put into another one, so that all pieces together are at
 * most twice what is needed, and one piece.
 */
export class PackedBytes<Owner> {
  readonly #moved: (owner: Owner, to: Buffer) => void
  readonly #pieces = new Map<Owner, Piece<Owner>>()
  #open = new Piece<Owner>()

  /** `moved` gets the same bytes in another place, instead of those that {@link PackedBytes.put} has answered. */
  constructor(moved: (owner: Owner, to: Buffer) => void) {
    this.#moved = moved
  }

  /** A copy for an owner who has none, or these very bytes where they are large. Nobody writes to it, also after it was moved or dropped. */
  put(bytes: Buffer, owner: Owner): Buffer {
    const { length } = bytes
    if (length > MOST_BYTES) return bytes
    while (!this.#open.hasRoom(length)) this.#openNext()
    const piece = this.#open
    const placed = piece.copy(bytes)
    piece.owned.set(owner, placed)
    piece.needed += length
    this.#pieces.set(owner, piece)
    return placed
  }

  /** The owner needs its bytes no longer. */
  drop(owner: Owner): void {
    const piece = this.#pieces.get(owner)
    if (piece === undefined) return
    this.#pieces.delete(owner)
    piece.needed -= piece.owned.get(owner)?.length ?? 0
    piece.owned.delete(owner)
    if (piece !== this.#open && piece.isSparse) this.#giveUp(piece)
  }

  #openNext(): void {
    const full = this.#open
    this.#open = new Piece()
    if (full.isSparse) this.#giveUp(full)
  }

  #giveUp(piece: Piece<Owner>): void {
    for (const [owner, bytes] of piece.owned) this.#moved(owner, this.put(bytes, owner))
  }
}
