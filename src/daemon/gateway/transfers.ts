import { createHash, randomBytes } from 'node:crypto'
import type { ByteStream } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { TRANSFER_LIMITS } from '../../shared/protocol/files.ts'
import type { TransferSlots } from './transfer-slots.ts'

/** Transfers of all nodes together, at the same time. */
const MOST_AT_ONCE = 64

/** What a transfer asks its agent with. */
export interface AskOptions {
  readonly signal: AbortSignal
}

interface TransfersDeps {
  readonly clock: Clock
  /** The turns of each node. */
  readonly slots: TransferSlots
}

interface Ticket {
  readonly nodeId: string
  readonly direction: 'from' | 'to'
  /** Of `to`: what is fetched. */
  readonly source: Pick<ByteStream, 'length' | 'content'> | undefined
  /** Of `from`: called with what is delivered. */
  readonly arrived: (body: ByteStream) => void
  /** Settles when the transfer is over. */
  readonly over: Promise<void>
}

/**
 * Bytes between the daemon and its nodes. A ticket is a secret that one node may use once, for one direction, within 20 s. Nothing is
 * whole in memory: the reader's pace is the writer's. What moves nothing for 30 s is given up; a node has a bounded number
 * at a time, of which more wait for their turn, and so have all together (RATE_LIMITED). `signal`: whoever waits has gone away.
 */
export class Transfers {
  readonly #deps: TransfersDeps
  readonly #tickets = new Map<string, Ticket>()
  #all = 0

  constructor(deps: TransfersDeps) {
    this.#deps = deps
  }

  /**
   * Bytes from a node: `ask` has its agent deliver at the ticket, and answers with their SHA-256. Resolves when the first bytes are
   * there; the last ones are held back until the hash was compared, so that a reader who has all of them has the right ones.
   */
  async from(
    nodeId: string,
    { length, signal }: { readonly length: number | null; readonly signal: AbortSignal },
    ask: (ticket: string, options: AskOptions) => Promise<{ readonly sha256: string }>,
  ): Promise<AsyncIterable<Uint8Array>> {
    const run = await this.#begin(nodeId, signal)
    try {
      const delivered = new Promise<ByteStream>((arrived) => {
        this.#add(run, { nodeId, direction: 'from', source: undefined, arrived, over: run.over })
      })
      const asked = ask(run.ticket, { signal: run.signal })
      asked.catch(() => {}) // thrown to the reader below
      const begun = await Promise.race([delivered, asked.then(() => undefined), run.failed])
      if (begun === undefined) throw new PanelError('AGENT_ERROR', 'The node has delivered nothing')
      run.onEnd(() => begun.cancel())
      return checked(run, { content: begun.content, length, asked })
    } catch (error) {
      run.end()
      throw error
    }
  }

  /** Bytes to a node: `ask` has its agent fetch them at the ticket, and answers what became of them. */
  async to<T>(
    nodeId: string,
    { source, signal }: { readonly source: ByteStream; readonly signal: AbortSignal },
    ask: (ticket: string, options: AskOptions) => Promise<T>,
  ): Promise<T> {
    const run = await this.#begin(nodeId, signal)
    try {
      // Whoever sends and then sends nothing more must not hold the agent that waits for it.
      run.onStall(() => source.cancel())
      const content = watched(run, source.content)
      this.#add(run, { nodeId, direction: 'to', source: { ...source, content }, arrived: () => {}, over: run.over })
      const asked = ask(run.ticket, { signal: run.signal })
      asked.catch(() => {}) // raced
      return await Promise.race([asked, run.failed])
    } finally {
      run.end()
    }
  }

  /** An agent delivers at a ticket; resolves when all of it was read. Rejects with NOT_FOUND for a ticket that is not its to use now. */
  async deliver(nodeId: string, ticket: string, body: ByteStream): Promise<void> {
    const found = this.#use(nodeId, ticket, 'from')
    found.arrived(body)
    await found.over
  }

  /** An agent asks what is to be fetched at a ticket, without using it. */
  announced(nodeId: string, ticket: string): number | null {
    return this.#find(nodeId, ticket, 'to').source?.length ?? null
  }

  /** An agent fetches at a ticket. */
  fetch(nodeId: string, ticket: string): AsyncIterable<Uint8Array> {
    const { source } = this.#use(nodeId, ticket, 'to')
    if (source === undefined) throw noTicket()
    return source.content
  }

  async #begin(nodeId: string, signal: AbortSignal): Promise<Run> {
    if (this.#all >= MOST_AT_ONCE) {
      throw new PanelError('RATE_LIMITED', 'Too many transfers are under way; try again in a moment', {
        meta: { retryAfterSeconds: 2 },
      })
    }
    this.#all += 1
    const release = await this.#deps.slots.take(nodeId, signal).catch((error: unknown) => {
      this.#all -= 1
      throw error
    })
    const run = new Run(this.#deps.clock, () => {
      this.#tickets.delete(run.ticket)
      this.#all -= 1
      release()
    })
    return run
  }

  #add(run: Run, ticket: Ticket): void {
    this.#tickets.set(run.ticket, ticket)
    run.onStall(() => this.#tickets.delete(run.ticket))
  }

  #find(nodeId: string, ticket: string, direction: Ticket['direction']): Ticket {
    const found = this.#tickets.get(ticket)
    if (found === undefined || found.nodeId !== nodeId || found.direction !== direction) throw noTicket()
    return found
  }

  #use(nodeId: string, ticket: string, direction: Ticket['direction']): Ticket {
    const found = this.#find(nodeId, ticket, direction)
    this.#tickets.delete(ticket)
    return found
  }
}

/** One transfer, from its ticket to its end. */
class Run {
  readonly ticket = randomBytes(32).toString('base64url')
  /** Rejects when nothing has moved for too long. */
  readonly failed: Promise<never>
  /** Resolves when the transfer has ended well, rejects when it was cut off. */
  readonly over: Promise<void>
  readonly #clock: Clock
  readonly #ended = new AbortController()
  readonly #release: () => void
  #movedMs: number
  #moved = false
  readonly #onStall: (() => void)[] = []
  readonly #onEnd: (() => void)[] = []
  /** Why it was given up. */
  stalled: PanelError | undefined
  #settle: (isComplete: boolean) => void = () => {}

  constructor(clock: Clock, release: () => void) {
    this.#clock = clock
    this.#release = release
    this.#movedMs = clock.monotonicMs()
    this.over = new Promise((resolve, reject) => {
      this.#settle = (isComplete) => {
        if (isComplete) resolve()
        else reject(new PanelError('CONFLICT', 'The transfer was cut off'))
      }
    })
    this.over.catch(() => {}) // heard by an agent that delivers, if there is one
    this.failed = new Promise((_, reject) => void this.#watch(reject))
    this.failed.catch(() => {}) // raced where somebody waits
  }

  /** Aborts when the transfer is over, so that the agent's work ends with it. */
  get signal(): AbortSignal {
    return this.#ended.signal
  }

  /** Called when nothing has moved for too long. */
  onStall(act: () => void): void {
    this.#onStall.push(act)
  }

  /** Called when the transfer is over, in whatever way. */
  onEnd(act: () => void): void {
    this.#onEnd.push(act)
  }

  move(): void {
    this.#moved = true
    this.#movedMs = this.#clock.monotonicMs()
  }

  /** All bytes are here. */
  complete(): void {
    this.#settle(true)
  }

  /** Frees the place, and ends the agent's part when that is not over. May be called again. */
  end(): void {
    if (this.#ended.signal.aborted) return
    this.#settle(false) // of no effect when it is complete
    this.#ended.abort()
    for (const act of this.#onEnd) act()
    this.#release()
  }

  async #watch(reject: (error: Error) => void): Promise<void> {
    const { signal } = this.#ended
    for (;;) {
      const patience = this.#moved ? TRANSFER_LIMITS.stallMs : TRANSFER_LIMITS.startMs
      const leftMs = this.#movedMs + patience - this.#clock.monotonicMs()
      if (leftMs <= 0) break
      await this.#clock.sleep(leftMs, signal)
      if (signal.aborted) return
    }
    this.stalled = new PanelError(
      'AGENT_TIMEOUT',
      'The transfer has moved nothing for too long and was given up; try again',
    )
    reject(this.stalled)
    for (const act of this.#onStall) act()
    this.end()
  }
}

async function* checked(
  run: Run,
  {
    content,
    length,
    asked,
  }: {
    readonly content: AsyncIterable<Uint8Array>
    readonly length: number | null
    readonly asked: Promise<{ readonly sha256: string }>
  },
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let held: Uint8Array | undefined
  let bytes = 0
  try {
    for await (const piece of content) {
      bytes += piece.length
      if (length !== null && bytes > length) throw wrong('more bytes')
      hash.update(piece)
      if (held !== undefined) yield held
      held = piece
      run.move()
    }
    if (length !== null && bytes < length) throw wrong('fewer bytes')
    const sha256 = hash.digest('hex')
    // The agent answers when it knows that all of it is here.
    run.complete()
    if ((await Promise.race([asked, run.failed])).sha256 !== sha256) throw wrong('other bytes')
    if (held !== undefined) yield held
  } catch (error) {
    throw run.stalled ?? error
  } finally {
    run.end()
  }
}

async function* watched(run: Run, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const piece of content) {
    run.move()
    yield piece
    run.move()
  }
}

function wrong(what: string): PanelError {
  return new PanelError('AGENT_ERROR', `The node has delivered ${what} than it said; try again`)
}

function noTicket(): PanelError {
  return new PanelError('NOT_FOUND', 'There is no such ticket for this node: it is unknown, used or expired')
}
