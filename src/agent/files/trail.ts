import type { FolderHandle } from './folder-handle.ts'

/** So many folders next to the root and next to the present one are held open; those between are opened again on the way up. */
const HELD_AT_EITHER_END = 16

const SLASH = Buffer.from('/')

/**
 * The way from a root down to the present folder. It is kept in few bytes for each step, so that a million nested folders
 * fit into memory, and with few open descriptors. On the way up the folder above is opened by `..` and has to be the one
 * that was left; where somebody has moved things meanwhile, the way is walked again from above by its names.
 */
export class Trail {
  readonly #root: FolderHandle
  readonly #handles: (FolderHandle | undefined)[]
  #names = Buffer.allocUnsafe(256)
  #nameBytes = 0
  /** Where each name begins in `#names`; the first step is 1. */
  readonly #starts: number[] = [0]
  #inodes = new BigUint64Array(64)
  #devices = new BigUint64Array(64)

  constructor(root: FolderHandle) {
    this.#root = root
    this.#handles = [root]
    this.#inodes[0] = root.inode
    this.#devices[0] = root.device
  }

  /** Steps below the root. */
  get depth(): number {
    return this.#handles.length - 1
  }

  get current(): FolderHandle {
    return this.#handles[this.depth] ?? this.#root
  }

  /** The names of the way with slashes between them; `undefined` when they have more bytes than `most`. */
  path(most: number): Buffer | undefined {
    const { depth } = this
    if (this.#nameBytes + depth > most + 1) return undefined
    const names: Buffer[] = []
    for (let at = 1; at <= depth; at++) names.push(...(at === 1 ? [] : [SLASH]), this.#nameOf(at))
    return Buffer.concat(names)
  }

  /** Steps into a folder of the present one; the handle belongs to the trail from now on. */
  down(name: Buffer, handle: FolderHandle): void {
    const depth = this.#handles.push(handle) - 1
    this.#starts[depth] = this.#nameBytes
    this.#append(name)
    if (depth >= this.#inodes.length) {
      this.#inodes = grown(this.#inodes)
      this.#devices = grown(this.#devices)
    }
    this.#inodes[depth] = handle.inode
    this.#devices[depth] = handle.device
    const middle = depth - HELD_AT_EITHER_END
    if (middle > HELD_AT_EITHER_END) this.#release(middle)
  }

  /**
   * Steps up. Gives the name of the folder that was left; `undefined` when it is no longer where it was, and the present
   * folder is then the lowest one that still is.
   */
  up(): Buffer | undefined {
    const left = this.current
    const depth = this.depth - 1
    const name = Buffer.from(this.#nameOf(depth + 1))
    const held = this.#handles[depth]
    const above = held ?? this.#expected(left.above(), depth)
    left.close()
    this.#cut(depth)
    if (above === undefined) {
      this.#findAgain()
      return undefined
    }
    this.#handles[depth] = above
    return name
  }

  /** Closes every handle but the root's. */
  close(): void {
    for (const handle of this.#handles.slice(1)) handle?.close()
    this.#cut(0)
  }

  /** Walks down by names from the lowest folder that is held, as far as each is the one that was there. */
  #findAgain(): void {
    const target = this.depth
    let depth = this.#handles.findLastIndex((handle) => handle !== undefined)
    for (let at = this.#handles[depth] ?? this.#root; depth < target; depth++) {
      const next = this.#expected(at.child(Buffer.from(this.#nameOf(depth + 1))), depth + 1)
      if (next === undefined) break
      this.#handles[depth + 1] = next
      if (depth > HELD_AT_EITHER_END) this.#release(depth)
      at = next
    }
    this.#cut(depth)
  }

  #expected(handle: FolderHandle | undefined, depth: number): FolderHandle | undefined {
    if (handle === undefined || handle.isSame(this.#devices[depth] ?? -1n, this.#inodes[depth] ?? -1n)) return handle
    handle.close()
    return undefined
  }

  #nameOf(depth: number): Buffer {
    return this.#names.subarray(this.#starts[depth], this.#starts[depth + 1] ?? this.#nameBytes)
  }

  #append(name: Buffer): void {
    while (this.#nameBytes + name.length > this.#names.length) {
      this.#names = Buffer.concat([this.#names], this.#names.length * 2)
    }
    this.#nameBytes += name.copy(this.#names, this.#nameBytes)
  }

  #release(depth: number): void {
    this.#handles[depth]?.close()
    this.#handles[depth] = undefined
  }

  #cut(depth: number): void {
    this.#nameBytes = this.#starts[depth + 1] ?? this.#nameBytes
    this.#handles.length = depth + 1
    this.#starts.length = depth + 1
  }
}

function grown(numbers: BigUint64Array<ArrayBuffer>): BigUint64Array<ArrayBuffer> {
  const larger = new BigUint64Array(numbers.length * 2)
  larger.set(numbers)
  return larger
}
