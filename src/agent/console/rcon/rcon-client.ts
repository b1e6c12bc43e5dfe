import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Clock } from '../../../shared/kernel/time.ts'
import { AgentFailure } from '../../failure.ts'
import { NoRcon, PACKET, type Packet, PacketReader, packetOf } from './packets.ts'

/** All of one command has so long, with the wait for its turn: whoever asks waits for 5 s. */
const COMMAND_MS = 4000
/** A command whose turn comes with less left than this is not sent: a game would hardly answer in that time. */
const LEAST_MS = 500
/** A game that does not say where its answer ends has said all after so much quiet. */
const QUIET_MS = 400
const IDLE_MS = 60_000
const MOST_ANSWER_BYTES = 1024 * 1024
/** What a game may send for one command, heads of small packets with it: the agent reads for all servers of its node. */
const MOST_COMMAND_READ = 2 * MOST_ANSWER_BYTES
/** The same for a login, and between two commands, where only what comes late is due. */
const MOST_OTHER_READ = 64 * 1024
const MOST_WAITING = 20
const FIRST_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 30_000
/** A part of an answer of Minecraft that is so long is followed by another one. */
const PART_CHARS = 4096
/** Source fills packets of 4 KiB, less their heads, before it goes on in another one. */
const LEAST_FULL_PART = 4000
const CLOSED = 'the game has closed the connection'
/** What Minecraft takes in one packet, and more than Source does. */
const MOST_COMMAND_BYTES = 1446

/** A command left for the game, and no answer came: it may have been carried out. */
export class RconUnanswered extends AgentFailure {}

/** How a command is sent. */
interface SendOptions {
  /** The stop command of an order: it goes before those that wait, its time begins with its turn, and it is tried after failures too. */
  readonly isStop?: boolean
  /** Aborts when nobody waits for the answer any more: a command that has not left by then never does. */
  readonly signal?: AbortSignal | undefined
}

/** The time of one command. */
interface Deadline {
  readonly dueMs: number
  readonly over: AbortSignal
}

interface Waiting {
  readonly isStop: boolean
  go(): void
}

/** Where a client logs in. */
export interface RconTarget {
  readonly protocol: 'source' | 'minecraft'
  readonly host: string
  readonly port: number
  readonly password: string
  /** What people know the password by. */
  readonly passwordVariable: string
}

/** What a game has answered. */
export interface RconAnswer {
  readonly text: string
  /** It was longer than is kept. */
  readonly isCut: boolean
  /** Why its end did not come; `undefined`: it did, as far as anybody can see. */
  readonly brokenOff?: string
}

/**
 * A client of RCON as Source games and Minecraft speak it. It connects for the first command, keeps the connection for a minute without
 * one, and connects again after it was lost. After a failure nothing is tried for a while, longer each time: games ban
 * an address that gives wrong passwords. No error of it holds the password.
 */
export class RconClient {
  readonly #clock: Clock
  readonly #target: () => Promise<RconTarget>
  #connection: Connection | undefined
  /** Stop commands first. */
  readonly #waiting: Waiting[] = []
  #isBusy = false
  #failures = 0
  #notBeforeMs = 0
  #lastFailure = ''
  #idle: NodeJS.Timeout | undefined
  #isClosed = false

  /** `target` is asked for each connection, and rejects with an AgentFailure while there is none. */
  constructor(target: () => Promise<RconTarget>, clock: Clock) {
    this.#target = target
    this.#clock = clock
  }

  /** Sends a command when those before it are answered; resolves with the answer. Rejects with an AgentFailure, within 4 s. */
  async send(command: string, { isStop = false, signal }: SendOptions = {}): Promise<RconAnswer> {
    if (Buffer.byteLength(command) > MOST_COMMAND_BYTES) {
      throw new AgentFailure(
        'BAD_REQUEST',
        `must have at most ${MOST_COMMAND_BYTES} bytes, as the game takes it by RCON`,
      )
    }
    if (!isStop && this.#waiting.length >= MOST_WAITING)
      throw new AgentFailure('RCON_FAILED', 'Too many commands wait for RCON')
    const ended = new AbortController()
    try {
      const asked = isStop ? undefined : this.#deadline(ended.signal)
      const cuts = [asked?.over, signal].filter((cut) => cut !== undefined)
      const isTurn = await this.#turn(isStop, AbortSignal.any(cuts))
      try {
        const deadline = asked ?? this.#deadline(ended.signal)
        if (!isTurn || deadline.dueMs - this.#clock.monotonicMs() < LEAST_MS)
          throw new AgentFailure('RCON_FAILED', 'The command was not sent: RCON was busy with those before it')
        return await this.#sendNow(command, { isStop, signal, deadline })
      } finally {
        if (isTurn) this.#next()
      }
    } finally {
      ended.abort()
    }
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#idle)
    this.#connection?.end('The program has ended')
  }

  #deadline(ended: AbortSignal): Deadline {
    const over = new AbortController()
    void this.#clock.sleep(COMMAND_MS, ended).then(() => over.abort())
    return { dueMs: this.#clock.monotonicMs() + COMMAND_MS, over: over.signal }
  }

  /** Waits for its turn; false when it was cut before that. */
  #turn(isStop: boolean, cut: AbortSignal): Promise<boolean> {
    if (cut.aborted) return Promise.resolve(false)
    if (!this.#isBusy) {
      this.#isBusy = true
      return Promise.resolve(true)
    }
    return new Promise((resolve) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        resolve(false)
      }
      const waiting: Waiting = {
        isStop,
        go: () => {
          cut.removeEventListener('abort', leave)
          resolve(true)
        },
      }
      cut.addEventListener('abort', leave, { once: true })
      const behind = isStop ? this.#waiting.findIndex((other) => !other.isStop) : -1
      this.#waiting.splice(behind === -1 ? this.#waiting.length : behind, 0, waiting)
    })
  }

  #next(): void {
    const next = this.#waiting.shift()
    this.#isBusy = next !== undefined
    next?.go()
  }

  async #sendNow(
    command: string,
    { deadline, isStop = false, signal }: SendOptions & { readonly deadline: Deadline },
  ): Promise<RconAnswer> {
    const beganMs = this.#clock.monotonicMs()
    const expire = (): void => this.#connection?.expire(Math.round((this.#clock.monotonicMs() - beganMs) / 1000))
    deadline.over.addEventListener('abort', expire, { once: true })
    try {
      const connection = await this.#connected(deadline, isStop)
      if (signal?.aborted === true)
        throw new AgentFailure('RCON_FAILED', 'The command was not sent: nobody waits for it any more')
      return await connection.command(command)
    } finally {
      deadline.over.removeEventListener('abort', expire)
      clearTimeout(this.#idle)
      this.#idle = setTimeout(() => this.#connection?.end('idle'), IDLE_MS)
      this.#idle.unref()
    }
  }

  async #connected({ dueMs, over }: Deadline, isStop: boolean): Promise<Connection> {
    if (this.#isClosed) throw new AgentFailure('NOT_RUNNING', 'The program has ended')
    if (this.#connection !== undefined && !this.#connection.isOver) return this.#connection
    const waitMs = this.#notBeforeMs - this.#clock.monotonicMs()
    if (waitMs > 0 && !isStop) {
      const seconds = Math.ceil(waitMs / 1000)
      throw new AgentFailure('RCON_FAILED', `${this.#lastFailure}; the next attempt is possible in ${seconds} s`)
    }
    const target = await Promise.race([this.#target(), aborted(over)])
    // Nobody would end a connection that begins behind the deadline.
    if (target === undefined || this.#clock.monotonicMs() >= dueMs)
      throw new AgentFailure('RCON_FAILED', 'The node is too busy to look for RCON')
    const connection = new Connection(target, this.#clock)
    this.#connection = connection
    try {
      await connection.login()
      this.#failures = 0
      return connection
    } catch (error) {
      const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures)
      this.#failures++
      this.#notBeforeMs = this.#clock.monotonicMs() + pauseMs
      this.#lastFailure = error instanceof AgentFailure ? error.message : 'RCON cannot be reached'
      throw error
    }
  }
}

/** One connection: a login, and then a command at a time. */
class Connection {
  readonly #target: RconTarget
  readonly #clock: Clock
  readonly #socket: Socket
  readonly #reader = new PacketReader()
  readonly #packets: Packet[] = []
  #wake: () => void = () => undefined
  #why: string | undefined
  #id = 0
  #mirrors = false
  /** Whether somebody waits for packets; what comes otherwise belongs to nothing. */
  #isAsking = true
  #hasParts = false
  /** How much more may come before the game is taken for one that floods. */
  #mayCome = MOST_OTHER_READ

  constructor(target: RconTarget, clock: Clock) {
    this.#target = target
    this.#clock = clock
    this.#socket = connect({ host: target.host, port: target.port, noDelay: true })
    this.#socket.on('data', (chunk: Buffer) => this.#take(chunk))
    this.#socket.on('error', (error) => this.end('code' in error ? String(error.code) : 'the connection failed'))
    this.#socket.on('close', () => this.end(CLOSED))
    this.#socket.unref()
  }

  get isOver(): boolean {
    return this.#why !== undefined
  }

  end(why: string): void {
    this.#why ??= why
    this.#socket.destroy()
    this.#wake()
  }

  /** Ends it because the time of a command is over. */
  expire(seconds: number): void {
    this.end(`${this.#hasParts ? 'no end of it' : 'no answer'} came in ${Math.max(1, seconds)} s`)
  }

  async login(): Promise<void> {
    const id = ++this.#id
    await Promise.race([once(this.#socket, 'connect'), this.#changed()]).catch(() => undefined) // an error ends it
    this.#refuseWhenOver('RCON cannot be reached')
    this.#socket.write(packetOf(id, PACKET.login, this.#target.password))
    while (true) {
      const packet = await this.#next()
      if (packet === undefined) this.#refuseWhenOver('RCON did not accept the login')
      // Source sends an empty answer before the one that counts.
      if (packet?.type !== PACKET.loginAnswer) continue
      if (packet.id === id) return
      this.end('wrong password')
      const { passwordVariable } = this.#target
      throw new AgentFailure(
        'RCON_FAILED',
        `The game refuses the RCON password; check the variable ${passwordVariable}, and start the server again after a change`,
      )
    }
  }

  async command(text: string): Promise<RconAnswer> {
    this.#isAsking = true
    this.#mayCome = MOST_COMMAND_READ
    try {
      return await this.#answerTo(text)
    } finally {
      this.#isAsking = false
      this.#hasParts = false
      this.#packets.length = 0
      this.#mayCome = MOST_OTHER_READ
    }
  }

  async #answerTo(text: string): Promise<RconAnswer> {
    const id = ++this.#id
    let last = ++this.#id
    const isSource = this.#target.protocol === 'source'
    this.#socket.write(packetOf(id, PACKET.command, text))
    // Source gives an empty packet back when all before it is answered. Minecraft reads one packet at a time and loses a second one.
    let isMarked = isSource
    if (isSource) this.#socket.write(packetOf(last, PACKET.answer, ''))
    const parts: Buffer[] = []
    let bytes = 0
    while (true) {
      const isQuietAnEnd = parts.length > 0 && !(isMarked && this.#mirrors)
      const packet = await this.#next(isQuietAnEnd ? QUIET_MS : undefined)
      if (packet === undefined && this.isOver) {
        if (parts.length > 0 && bytes > 0) {
          const brokenOff = this.#brokenOff(parts)
          return { text: textOf(parts), isCut: false, ...(brokenOff === undefined ? {} : { brokenOff }) }
        }
        throw new RconUnanswered(
          'RCON_FAILED',
          `The command may have been carried out, but RCON gave no answer: ${this.#why}`,
        )
      }
      if (packet === undefined) break
      if (packet.id === last && isMarked) {
        this.#mirrors = true
        break
      }
      if (packet.id !== id) continue
      parts.push(packet.body)
      this.#hasParts = true
      bytes += packet.body.length
      if (bytes > MOST_ANSWER_BYTES) {
        this.end('its answer is too long')
        return { text: textOf(parts, MOST_ANSWER_BYTES), isCut: true }
      }
      if (isSource) continue
      if (packet.body.toString('utf8').length < PART_CHARS) break
      if (!isMarked) {
        last = ++this.#id
        isMarked = true
        this.#socket.write(packetOf(last, PACKET.answer, ''))
      }
    }
    return { text: textOf(parts), isCut: false }
  }

  /** Why an answer has no end whose connection is over. Many games close it behind the last answer, which has its end then. */
  #brokenOff(parts: readonly Buffer[]): string | undefined {
    const isWhole = !this.#reader.isWithin && (parts.at(-1)?.length ?? 0) < LEAST_FULL_PART
    return this.#why === CLOSED && isWhole ? undefined : this.#why
  }

  /** The next packet; `undefined` after so much quiet, or when the connection is over. */
  async #next(quietMs?: number): Promise<Packet | undefined> {
    // Many small packets that came together are dear enough without a timer for each.
    const here = this.#packets.shift()
    if (here !== undefined) return here
    const over = new AbortController()
    let isQuiet = false
    const quiet =
      quietMs === undefined
        ? undefined
        : this.#clock.sleep(quietMs, over.signal).then(() => {
            isQuiet = true
          })
    // A part of a packet is a wake-up without a packet.
    while (this.#packets.length === 0 && !this.isOver && !isQuiet) {
      const came = this.#changed()
      await (quiet === undefined ? came : Promise.race([came, quiet]))
    }
    over.abort()
    return this.#packets.shift()
  }

  /** Resolves when something has come, or the connection is over. */
  #changed(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }

  #take(chunk: Buffer): void {
    this.#mayCome -= chunk.length
    if (this.#mayCome < 0) {
      this.end('it sends much more than it was asked for')
      return
    }
    try {
      const packets = this.#reader.push(chunk)
      if (this.#isAsking) this.#packets.push(...packets)
    } catch (error) {
      if (!(error instanceof NoRcon)) throw error
      this.end(`what answers there does not speak RCON (${error.message})`)
    }
    this.#wake()
  }

  #refuseWhenOver(what: string): void {
    if (this.#why !== undefined) throw new AgentFailure('RCON_FAILED', `${what}: ${this.#why}`)
  }
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(undefined), { once: true }))
}

function textOf(parts: readonly Buffer[], bytes?: number): string {
  return Buffer.concat(parts).toString('utf8', 0, bytes)
}
