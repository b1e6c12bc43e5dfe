import type { Socket } from 'node:net'
import { connectPrivately } from '../../shared/platform/private-folder.ts'
import type { LineStream } from '../../shared/protocol/console.ts'
import type { TerminalKey } from '../../shared/protocol/server-spec.ts'
import { AgentFailure } from '../failure.ts'
import type { Ask, Say } from '../holder/holder-files.ts'
import type { RunExit, RunRecord } from './runtime.ts'

const ANSWER_MS = 60_000
const GREETING_MS = 10_000

type Question =
  | { op: 'input'; line: string }
  | { op: 'signal'; name: string; key?: TerminalKey }
  | { op: 'expect'; withinMs?: number }
  | { op: 'note'; text: string; stream: LineStream }
  | { op: 'ack'; launchId: string }

/** A connection to a living holder. */
export class ControlClient {
  /** What the holder said of its run when it greeted. */
  readonly record: RunRecord
  /** Resolves with the exit when it comes, with `undefined` when the connection ends before it. */
  readonly ended: Promise<RunExit | undefined>
  private readonly socket: Socket
  private readonly waiting = new Map<number, { resolve: () => void; reject: (error: Error) => void }>()
  private nextId = 1
  private closing = false
  private livingPid: number
  private pidChanged: () => void = () => undefined

  private constructor(socket: Socket, record: RunRecord, feed: Feed) {
    this.socket = socket
    this.record = record
    this.livingPid = record.pid
    this.ended = new Promise((resolve) => {
      const lost = (): void => {
        const gone = new AgentFailure('INTERRUPTED', 'The holder of the server went away')
        for (const one of this.waiting.values()) one.reject(gone)
        this.waiting.clear()
        resolve(undefined)
      }
      feed.hear((say) => {
        if (say === undefined) lost()
        else if ('exit' in say) resolve(say.exit)
        else if ('id' in say) this.settle(say)
        else if ('pid' in say) this.setPid(say.pid)
      })
    })
  }

  /**
   * Connects and waits for the greeting; `undefined` when no holder listens there. One that says nothing, such as a stopped
   * process, counts as none: nobody must wait for it for ever.
   */
  static async open(path: string, withinMs = GREETING_MS): Promise<ControlClient | undefined> {
    // Its folder is closed to others, which is what counts; holders of earlier versions leave the socket's own mode as it is.
    const socket = await connectPrivately(path, false).catch(() => undefined) // nobody's, or not ours: no holder of ours
    if (socket === undefined) return undefined
    const feed = new Feed(socket)
    const timer = setTimeout(() => socket.destroy(), withinMs)
    const first = await feed.first
    clearTimeout(timer)
    if (first === undefined || !('hello' in first)) {
      socket.destroy()
      return undefined
    }
    return new ControlClient(socket, first.hello, feed)
  }

  /** A living process of the run. */
  get pid(): number {
    return this.livingPid
  }

  onPid(changed: () => void): void {
    this.pidChanged = changed
  }

  /** Asks and waits for the answer; rejects with an AgentFailure. */
  ask(question: Question): Promise<void> {
    const id = this.nextId++
    const ask: Ask = { id, ...question }
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) return reject(new AgentFailure('INTERRUPTED', 'The holder of the server went away'))
      const timer = setTimeout(() => {
        this.waiting.delete(id)
        reject(new AgentFailure('TIMEOUT', 'The holder of the server does not answer'))
      }, ANSWER_MS)
      this.waiting.set(id, {
        resolve: () => {
          clearTimeout(timer)
          resolve()
        },
        reject: (error) => {
          clearTimeout(timer)
          reject(error)
        },
      })
      this.socket.write(`${JSON.stringify(ask)}\n`)
    })
  }

  /** Hangs up as soon as every question has its answer. */
  close(): void {
    this.closing = true
    if (this.waiting.size === 0) this.socket.destroy()
  }

  private setPid(pid: number): void {
    this.livingPid = pid
    this.pidChanged()
  }

  private settle(say: Extract<Say, { id: number }>): void {
    const one = this.waiting.get(say.id)
    this.waiting.delete(say.id)
    if (say.ok) one?.resolve()
    else one?.reject(new AgentFailure(say.code, say.message))
    if (this.closing) this.close()
  }
}

/** The holder's words, kept until somebody hears them; `undefined` stands for the end of the connection. */
class Feed {
  readonly first: Promise<Say | undefined>
  private readonly kept: (Say | undefined)[] = []
  private hearer: ((say: Say | undefined) => void) | undefined

  constructor(socket: Socket) {
    let greeted = false
    let text = ''
    this.first = new Promise((resolve) => {
      const take = (say: Say | undefined): void => {
        if (!greeted) {
          greeted = true
          resolve(say)
        } else if (this.hearer !== undefined) this.hearer(say)
        else this.kept.push(say)
      }
      socket.setEncoding('utf8')
      socket.on('data', (chunk: string) => {
        const lines = (text + chunk).split('\n')
        text = lines.pop() ?? ''
        for (const line of lines) take(JSON.parse(line) as Say) // the holder is this same program
      })
      socket.on('error', () => undefined) // 'close' follows and reports it
      socket.once('close', () => take(undefined))
    })
  }

  hear(hearer: (say: Say | undefined) => void): void {
    this.hearer = hearer
    for (const say of this.kept.splice(0)) hearer(say)
  }
}
