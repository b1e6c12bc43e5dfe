import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import type { ByteStream } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { collectAfter } from '../../shared/platform/collect.ts'
import { type CheckName, startCheck } from '../../shared/platform/transfer-check.ts'
import { TRANSFER_LIMITS } from '../../shared/protocol/files.ts'
import type { TransferSlots } from './transfer-slots.ts'

/** Transfers of all nodes together, at the same time; those that wait for a turn at their node are not counted. */
const MOST_AT_ONCE = 64

/** What a transfer asks its agent with. */
export interface AskOptions {
  readonly signal: AbortSignal
}

/** What an agent answers of the bytes that it has delivered: the check that was asked for. */
export type Delivered = { readonly bytes?: number | undefined; readonly sha256?: string | undefined }

/** Turns that were taken beforehand, by {@link Transfers.withTurns}: a transfer to or from these nodes waits for none. */
export interface Turns {
  readonly nodeIds: readonly string[]
}

interface TransfersDeps {
  readonly clock: Clock
  /** The turns of each node. */
  readonly slots: TransferSlots
}

/** Bytes that wait for a node to ask for them. */
export interface Offer {
  readonly ticket: string
  /** Takes it back, and ends it when it is under way. */
  close(): void
}

interface Offered {
  readonly nodeId: string
  readonly open: (signal: AbortSignal) => AsyncIterable<Uint8Array>
  readonly ended: AbortController
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
  readonly #offers = new Map<string, Offered>()
  #running = 0

  constructor(deps: TransfersDeps) {
    this.#deps = deps
  }

  /**
   * Bytes from a node: `ask` has its agent deliver at the ticket, and answers with their check (SHA-256 where none is named). Resolves
   * when the first bytes are there; the last ones are held back until it was compared, so that a reader who has all of them has the
   * right ones. A transfer that is given up is destroyed, so that a reader who takes nothing is cut off.
   */
  async from(
    nodeId: string,
    {
      length,
      signal,
      turns,
      check = 'sha256',
    }: {
      readonly length: number | null
      readonly signal: AbortSignal
      readonly turns?: Turns
      readonly check?: CheckName
    },
    ask: (ticket: string, options: AskOptions) => Promise<Delivered>,
  ): Promise<Readable> {
    const run = await this.#begin(nodeId, signal, turns)
    const leave = (): void => run.fail(gone())
    signal.addEventListener('abort', leave)
    try {
      const delivered = new Promise<ByteStream>((arrived) => {
        this.#add(run, { nodeId, direction: 'from', source: undefined, arrived, over: run.over })
      })
      const asked = ask(run.ticket, { signal: run.signal })
      asked.catch(() => {}) // thrown to the reader below
      const begun = await Promise.race([delivered, asked.then(() => undefined), run.failed])
      if (begun === undefined) throw new PanelError('AGENT_ERROR', 'The node has delivered nothing')
      run.onEnd(() => begun.cancel())
      const content = Readable.from(checked(run, { content: begun.content, length, asked, check }), {
        objectMode: false,
      })
      content.on('error', () => {}) // its reader sees it
      content.once('close', () => run.end())
      run.onFail((error) => content.destroy(error))
      return content
    } catch (error) {
      run.end()
      throw error
    } finally {
      // From here on the reader itself ends it.
      signal.removeEventListener('abort', leave)
    }
  }

  /** Work with transfers of several nodes at the same time; it begins when it is its turn at all of them. */
  async withTurns<T>(nodeIds: readonly string[], signal: AbortSignal, work: (turns: Turns) => Promise<T>): Promise<T> {
    const release = await this.#turn(nodeIds, signal)
    try {
      return await work({ nodeIds })
    } finally {
      release()
    }
  }

  /** Bytes to a node: `ask` has its agent fetch them at the ticket, and answers what became of them. */
  async to<T>(
    nodeId: string,
    { source, signal, turns }: { readonly source: ByteStream; readonly signal: AbortSignal; readonly turns?: Turns },
    ask: (ticket: string, options: AskOptions) => Promise<T>,
  ): Promise<T> {
    const run = await this.#begin(nodeId, signal, turns)
    try {
      const content = watched(run, source.content)
      this.#add(run, { nodeId, direction: 'to', source: { ...source, content }, arrived: () => {}, over: run.over })
      const asked = ask(run.ticket, { signal: run.signal })
      asked.catch(() => {}) // raced
      return await Promise.race([asked, run.failed])
    } finally {
      run.end()
    }
  }

  /**
   * Bytes that are made when a node asks for them, once, at whatever time before the offer is closed: of longer work of the node, in which
   * their turn comes late. They take no turn of the node, because that work has one. `open` ends what it makes when its signal aborts.
   */
  offer(nodeId: string, open: (signal: AbortSignal) => AsyncIterable<Uint8Array>): Offer {
    const ticket = randomBytes(32).toString('base64url')
    const ended = new AbortController()
    this.#offers.set(ticket, { nodeId, open, ended })
    const close = (): void => {
      this.#offers.delete(ticket)
      ended.abort()
    }
    return { ticket, close }
  }

  /** An agent delivers at a ticket; resolves when all of it was read. Rejects with NOT_FOUND for a ticket that is not its to use now. */
  async deliver(nodeId: string, ticket: string, body: ByteStream): Promise<void> {
    const found = this.#use(nodeId, ticket, 'from')
    found.arrived(body)
    await found.over
  }

  /** An agent asks what is to be fetched at a ticket, without using it. */
  announced(nodeId: string, ticket: string): number | null {
    if (this.#offers.get(ticket)?.nodeId === nodeId) return null
    return this.#find(nodeId, ticket, 'to').source?.length ?? null
  }

  /** An agent fetches at a ticket. */
  fetch(nodeId: string, ticket: string): AsyncIterable<Uint8Array> {
    const offered = this.#offers.get(ticket)
    if (offered?.nodeId === nodeId) {
      this.#offers.delete(ticket)
      return this.#made(offered)
    }
    const { source } = this.#use(nodeId, ticket, 'to')
    if (source === undefined) throw noTicket()
    return source.content
  }

  async *#made({ open, ended }: Offered): AsyncGenerator<Uint8Array> {
    const run = new Run(this.#deps.clock, () => {})
    const content = open(AbortSignal.any([run.signal, ended.signal]))
    try {
      yield* watched(run, content)
      run.complete()
    } catch (error) {
      throw run.failure ?? error
    } finally {
      run.end()
    }
  }

  async #begin(nodeId: string, signal: AbortSignal, turns: Turns | undefined): Promise<Run> {
    const hasTurn = turns?.nodeIds.includes(nodeId) === true
    const release = hasTurn ? () => {} : await this.#turn([nodeId], signal)
    if (this.#running >= MOST_AT_ONCE) {
      release()
      throw new PanelError('RATE_LIMITED', 'Too many transfers are under way; try again in a moment', {
        meta: { retryAfterSeconds: 2 },
      })
    }
    this.#running += 1
    const run = new Run(this.#deps.clock, () => {
      this.#tickets.delete(run.ticket)
      this.#running -= 1
      release()
    })
    return run
  }

  #turn(nodeIds: readonly string[], signal: AbortSignal): Promise<() => void> {
    return this.#deps.slots.takeAll(nodeIds, signal).catch((error: unknown) => {
      throw signal.aborted ? gone() : error
    })
  }

  #add(run: Run, ticket: Ticket): void {
    this.#tickets.set(run.ticket, ticket)
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
  /** Rejects when it is given up. */
  readonly failed: Promise<never>
  /** Resolves when the transfer has ended well, rejects when it was cut off. */
  readonly over: Promise<void>
  readonly #clock: Clock
  readonly #ended = new AbortController()
  readonly #release: () => void
  #movedMs: number
  #moved = false
  readonly #onFail: ((error: Error) => void)[] = []
  readonly #onEnd: (() => void)[] = []
  #failure: Error | undefined
  #reject: (error: Error) => void = () => {}
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
    this.failed = new Promise((_, reject) => {
      this.#reject = reject
    })
    this.failed.catch(() => {}) // raced where somebody waits
    void this.#watch()
  }

  /** Aborts when the transfer is over, so that the agent's work ends with it. */
  get signal(): AbortSignal {
    return this.#ended.signal
  }

  /** Why it was given up. */
  get failure(): Error | undefined {
    return this.#failure
  }

  /** Called when it is given up. */
  onFail(act: (error: Error) => void): void {
    this.#onFail.push(act)
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

  /** Gives it up, unless it is over. */
  fail(error: Error): void {
    if (this.#ended.signal.aborted) return
    this.#failure = error
    this.#reject(error)
    this.end()
    for (const act of this.#onFail) act(error)
  }

  /** Frees the place, and ends the agent's part when that is not over. May be called again. */
  end(): void {
    if (this.#ended.signal.aborted) return
    this.#settle(false) // of no effect when it is complete
    this.#ended.abort()
    for (const act of this.#onEnd) act()
    this.#release()
  }

  async #watch(): Promise<void> {
    const { signal } = this.#ended
    for (;;) {
      const patience = this.#moved ? TRANSFER_LIMITS.stallMs : TRANSFER_LIMITS.startMs
      const leftMs = this.#movedMs + patience - this.#clock.monotonicMs()
      if (leftMs <= 0) break
      await this.#clock.sleep(leftMs, signal)
      if (signal.aborted) return
    }
    this.fail(
      new PanelError('AGENT_TIMEOUT', 'The transfer has moved nothing for too long and was given up; try again'),
    )
  }
}

async function* checked(
  run: Run,
  {
    content,
    length,
    asked,
    check,
  }: {
    readonly content: AsyncIterable<Uint8Array>
    readonly length: number | null
    readonly asked: Promise<Delivered>
    readonly check: CheckName
  },
): AsyncGenerator<Uint8Array> {
  const running = startCheck(check)
  let held: Uint8Array | undefined
  let bytes = 0
  try {
    for await (const piece of arriving(run, { content, asked })) {
      bytes += piece.length
      if (length !== null && bytes > length) throw wrong('more bytes')
      running.add(piece)
      if (held !== undefined) yield held
      held = piece
      run.move()
      collectAfter(piece.length)
    }
    if (length !== null && bytes < length) throw wrong('fewer bytes')
    const sum = running.text()
    // The agent answers when it knows that all of it is here.
    run.complete()
    if (`${(await Promise.race([asked, run.failed]))[check]}` !== sum) throw wrong('other bytes')
    if (held !== undefined) yield held
  } catch (error) {
    throw run.failure ?? error
  } finally {
    run.end()
  }
}

/** What an agent delivers; when it stops in the middle it answers why. */
async function* arriving(
  run: Run,
  { content, asked }: { readonly content: AsyncIterable<Uint8Array>; readonly asked: Promise<unknown> },
): AsyncGenerator<Uint8Array> {
  try {
    yield* content
  } catch (cause) {
    await Promise.race([asked, run.failed])
    throw new PanelError('AGENT_ERROR', 'The node has stopped in the middle of the transfer; try again', { cause })
  }
}

/** What goes to an agent. When its source fails, that is why the transfer failed, whatever the agent makes of it. */
async function* watched(run: Run, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of content) {
      run.move()
      yield piece
      run.move()
      collectAfter(piece.length)
    }
  } catch (error) {
    if (error instanceof Error) run.fail(error)
    throw error
  }
}

function wrong(what: string): PanelError {
  return new PanelError('AGENT_ERROR', `The node has delivered ${what} than it said; try again`)
}

/** Of whoever waited: it is heard only where the daemon stops. */
function gone(): PanelError {
  return new PanelError('SHUTTING_DOWN', 'The transfer has ended before it began; try again in a moment')
}

function noTicket(): PanelError {
  return new PanelError('NOT_FOUND', 'There is no such ticket for this node: it is unknown, used or expired')
}
