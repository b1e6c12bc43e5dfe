import { spawn } from 'node:child_process'
import type { Compression } from '../../shared/protocol/backups.ts'
import { AgentFailure } from '../failure.ts'
import { TOOL_PATH } from '../holder/process/launcher.ts'
import { GzipSlot } from './gzip-slot.ts'

/** What one member has before it is compressed: what is read at least for any byte of it. */
export const MEMBER_BYTES = 1024 * 1024
/** So many are compressed at the same time; each is in memory twice. */
const AT_ONCE = 3
const LEVEL = 6

/** One member: what it has as it was, and as it is stored. */
export type Member = readonly [bytes: number, storedBytes: number]

/**
 * Compresses bytes in members that stand by themselves: any program that reads gzip or zstd reads them one behind the other as one, and
 * any of them can be read without those before it. Several are compressed at the same time.
 */
export class MemberWriter {
  /** What was written, compressed and not. */
  bytes = 0
  storedBytes = 0
  readonly members: Member[] = []
  readonly #compression: Compression
  readonly #sink: (piece: Buffer) => Promise<void>
  readonly #size: number
  readonly #free: Slot[] = []
  readonly #running: { readonly bytes: number; readonly stored: Promise<Buffer>; readonly slot: Slot }[] = []
  #slot: Slot | undefined
  #used = 0

  /** `sink` gets the members in their order, in memory that is used again when it resolves. */
  constructor(compression: Compression, sink: (piece: Buffer) => Promise<void>, size = MEMBER_BYTES) {
    this.#compression = compression
    this.#sink = sink
    this.#size = size
  }

  async write(piece: Buffer): Promise<void> {
    for (let at = 0; at < piece.length; ) {
      this.#slot ??= this.#free.pop() ?? this.#fresh()
      const count = piece.copy(this.#slot.buffer, this.#used, at)
      this.#used += count
      at += count
      this.bytes += count
      if (this.#used === this.#size) await this.cut()
    }
  }

  /** Ends the present member: the next byte begins another one. */
  async cut(): Promise<void> {
    const slot = this.#slot
    if (slot === undefined || this.#used === 0) return
    const stored = slot.compress(slot.buffer.subarray(0, this.#used))
    stored.catch(() => {}) // awaited in its turn
    this.#running.push({ bytes: this.#used, stored, slot })
    this.#slot = undefined
    this.#used = 0
    if (this.#running.length >= AT_ONCE) await this.#finishOne()
  }

  /** Resolves when all was given to the sink. */
  async end(): Promise<void> {
    await this.cut()
    while (this.#running.length > 0) await this.#finishOne()
  }

  /** Waits for what is under way after a failure, and frees what it holds. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#running.map(({ stored }) => stored))
    for (const slot of [...this.#free, ...this.#running.map(({ slot }) => slot)]) slot.gzip?.close()
    this.#slot?.gzip?.close()
  }

  async #finishOne(): Promise<void> {
    const first = this.#running.shift()
    if (first === undefined) return
    const stored = await first.stored
    this.storedBytes += stored.length
    this.members.push([first.bytes, stored.length])
    await this.#sink(stored)
    this.#free.push(first.slot)
  }

  #fresh(): Slot {
    const buffer = Buffer.allocUnsafeSlow(this.#size)
    if (this.#compression === 'none') return { buffer, compress: async (content) => content }
    if (this.#compression === 'zstd') return { buffer, compress: zstdFrame }
    const gzip = new GzipSlot(LEVEL, this.#size)
    return { buffer, gzip, compress: (content) => gzip.compress(content) }
  }
}

/** The memory of one member, as it is and as it becomes. */
interface Slot {
  readonly buffer: Buffer
  readonly gzip?: GzipSlot
  readonly compress: (content: Buffer) => Promise<Buffer>
}

/** One frame, by the program of the machine, which has nothing of the agent's environment. */
function zstdFrame(content: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const child = spawn('zstd', ['--compress', '--stdout', '--quiet', '-T1', '-3'], {
      cwd: '/',
      env: { PATH: TOOL_PATH, LC_ALL: 'C' },
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    const parts: Buffer[] = []
    child.stdout.on('data', (part: Buffer) => parts.push(part))
    child.stdin.on('error', () => {}) // the exit says why
    child.once('error', (cause) => {
      const message = 'The node lacks the program zstd; install the package zstd there, or choose gzip'
      reject(new AgentFailure('ARCHIVE_UNSUPPORTED', message, { cause }))
    })
    child.once('close', (code) => {
      if (code === 0) resolve(Buffer.concat(parts))
      else
        reject(new AgentFailure('INTERNAL', `The program zstd of the node has failed (${code ?? 'ended by a signal'})`))
    })
    child.stdin.end(content)
  })
}
