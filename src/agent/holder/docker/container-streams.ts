import type { Duplex } from 'node:stream'
import type { ConsoleLine } from '../../../shared/protocol/console.ts'
import { LogReader } from '../../console/log/reader.ts'
import { containerState } from '../../engine/container-state.ts'
import { type Attached, type Engine, isMissing } from '../../engine/engine.ts'
import { OutputFrames } from '../../engine/output-frames.ts'
import { type ChildDeps, InputFailure } from '../child.ts'
import { OutputLines } from '../output-lines.ts'
import { SecretMask } from '../secret-mask.ts'
import { type EngineLine, EngineLog, type Output } from './engine-log.ts'
import { firstNewLine, linesOf } from './missed-output.ts'

const RETRY_MS = 500
/** A container counts as running for a moment after its output has ended. */
const SETTLE_MS = 2000
const LOOK_MS = 50
const INPUT_MS = 5000
/** More than that of input is not kept for a program that does not read. */
const MOST_UNREAD_INPUT = 64 * 1024
/** How far before the last line of the console the engine's log is read, to find that line in it. */
const OVERLAP_MS = 60_000
/** How many lines of the console are compared. */
const COMPARED_LINES = 200
const COMPARED_BYTES = 1024 * 1024
const OUTPUTS: readonly Output[] = ['stdout', 'stderr']

/** What the streams of a container are made with. */
export interface StreamsDeps extends ChildDeps {
  readonly engine: Engine
  readonly id: string
  /** It has a terminal: one output, as it comes. */
  readonly isTerminal: boolean
}

/**
 * Input and output of a container. Output comes by an attachment, whose reader's pace the program feels, as with a pipe. An
 * attachment ends with the engine's process or with the holder; from then on output comes from the engine's log, from the line
 * on that follows the last one in the console.
 */
export class ContainerStreams {
  readonly #deps: StreamsDeps
  #lines: Readonly<Record<Output, OutputLines>>
  #input: Duplex | undefined
  #firstSeq = 1
  #resumeReading: NodeJS.Timeout | undefined
  /** Settles when the container has ended and everything that it has said is in the console. */
  #done: Promise<void> = Promise.resolve()
  #abandoned = false

  constructor(deps: StreamsDeps) {
    this.#deps = deps
    this.#lines = this.#freshLines()
  }

  /** Attaches to a container that has not started yet. */
  async attach(): Promise<void> {
    const { engine, id, sink } = this.#deps
    this.#firstSeq = sink.writer.last + 1
    const attached = await engine.attach(`/containers/${id}/attach?stream=1&stdin=1&stdout=1&stderr=1`)
    this.#takeInput(attached.socket)
    this.#done = this.#readAttached(attached).then(async () => {
      if (!(await this.#isOver())) await this.#goOn()
    })
  }

  /** Goes on with a run whose first line in the console has this number. */
  resume(firstSeq: number): void {
    this.#firstSeq = firstSeq
    this.#done = this.#goOn()
  }

  /** Resolves when the line has left for the program. Rejects with an InputFailure. */
  input(line: string): Promise<void> {
    return this.type(`${line}\n`)
  }

  /** The same for bytes as they are. */
  async type(text: string): Promise<void> {
    const socket = this.#input ?? (await this.#attachInput())
    if (socket.writableLength > MOST_UNREAD_INPUT) throw new InputFailure('The program does not read its input', false)
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new InputFailure('The program does not read its input', false)), INPUT_MS)
      socket.write(text, (error) => {
        clearTimeout(timer)
        if (error == null) resolve()
        else reject(new InputFailure('The connection to the container was lost; try again', false))
      })
    })
  }

  /** The container has ended: waits for its last words, but not for ever. */
  async finish(withinMs: number): Promise<void> {
    const enough = new AbortController()
    await Promise.race([this.#done, this.#deps.clock.sleep(withinMs, enough.signal)])
    enough.abort()
    this.abandon()
  }

  /** Nothing more is read; what has come is in the console. */
  abandon(): void {
    this.#abandoned = true
    clearTimeout(this.#resumeReading)
    this.#input?.destroy()
    for (const output of OUTPUTS) this.#lines[output].end([])
  }

  async #attachInput(): Promise<Duplex> {
    const { engine, id } = this.#deps
    try {
      const { socket } = await engine.attach(`/containers/${id}/attach?stream=1&stdin=1`)
      socket.resume()
      this.#takeInput(socket)
      return socket
    } catch {
      throw new InputFailure('The container engine is away; try again', false)
    }
  }

  #takeInput(socket: Duplex): void {
    this.#input = socket
    socket.on('error', () => socket.destroy()) // the next line attaches anew
    socket.once('close', () => {
      if (this.#input === socket) this.#input = undefined
    })
  }

  /** Resolves when the attachment has ended, for whatever reason. */
  #readAttached({ socket, early }: Attached): Promise<void> {
    let pauseMs = 0
    const output = (name: Output, bytes: Buffer): void => {
      pauseMs = Math.max(pauseMs, this.#lines[name].push(bytes))
    }
    const frames = this.#deps.isTerminal ? undefined : new OutputFrames(output)
    const take = (chunk: Buffer): void => {
      pauseMs = 0
      if (frames === undefined) output('stdout', chunk)
      else frames.push(chunk)
      if (pauseMs === 0) return
      socket.pause()
      this.#resumeReading = setTimeout(() => socket.resume(), pauseMs)
    }
    return new Promise((resolve) => {
      socket.once('close', resolve)
      socket.once('end', () => socket.destroy())
      socket.on('data', (chunk: Buffer) => {
        try {
          take(chunk)
        } catch {
          socket.destroy() // not our protocol: the engine's log has it
        }
      })
      if (early.length > 0) take(early)
    })
  }

  /** Whether an attachment has ended because the container has, and not because its engine has: then it has brought everything. */
  async #isOver(): Promise<boolean> {
    const { engine, id, clock } = this.#deps
    for (const deadline = clock.monotonicMs() + SETTLE_MS; clock.monotonicMs() < deadline; await clock.sleep(LOOK_MS)) {
      try {
        if (!(await containerState(engine, id)).running) return true
      } catch (error) {
        return isMissing(error)
      }
    }
    return false
  }

  /** Reads what the console lacks, and follows the engine's log until the container has ended. */
  async #goOn(): Promise<void> {
    const { engine, id, clock, isTerminal } = this.#deps
    const log = new EngineLog(engine, id, isTerminal)
    for (let isBehind = true; !this.#abandoned; ) {
      try {
        const { running } = await containerState(engine, id)
        if (isBehind) await this.#catchUp(log)
        isBehind = false
        if (!running && !this.#abandoned) {
          await log.read((lines) => this.#push(lines), { follow: false })
          return
        }
        await log.read((lines) => this.#push(lines), { follow: true })
        // It counts as running for a moment after its log has ended.
        await clock.sleep(LOOK_MS)
      } catch (error) {
        if (isMissing(error)) return
        await clock.sleep(RETRY_MS)
      }
    }
  }

  /** Finds the end of the console in the engine's log, and takes over what follows. */
  async #catchUp(log: EngineLog): Promise<void> {
    const { sink } = this.#deps
    for (const output of OUTPUTS) this.#lines[output].detach()
    this.#lines = this.#freshLines()
    const tail = await this.#consoleTail()
    const lastMs = tail.at(-1)?.[1]
    const history: EngineLine[] = []
    const take = (lines: readonly EngineLine[]): void => {
      for (const line of lines) history.push({ ...line, bytes: Buffer.from(line.bytes) })
    }
    await log.read(take, { follow: false, sinceMs: lastMs === undefined ? 0 : lastMs - OVERLAP_MS })
    for (const output of OUTPUTS) {
      const said = linesOf(
        history.filter((line) => line.output === output),
        new SecretMask(sink.masked),
      )
      const known = tail.filter(([, , stream]) => stream === output)
      const { index, openBytes } = firstNewLine(known, said)
      const missed = Buffer.concat(said.slice(index).map(({ bytes }) => bytes))
      if (missed.length > openBytes) this.#lines[output].push(missed.subarray(openBytes))
    }
  }

  /** The last lines of this run's output in the console. */
  async #consoleTail(): Promise<readonly ConsoleLine[]> {
    const { paths, sink } = this.#deps
    sink.writer.flush()
    const { lines } = await new LogReader(paths.log).readBefore(sink.writer.last + 1, {
      maxLines: COMPARED_LINES,
      maxBytes: COMPARED_BYTES,
    })
    return lines.filter(([seq]) => seq >= this.#firstSeq)
  }

  /** Each push is a write and a word to whoever is connected, so what comes at once is pushed at once. */
  #push(lines: readonly EngineLine[]): void {
    for (let from = 0; from < lines.length; ) {
      const output = lines[from]?.output ?? 'stdout'
      const end = lines.findIndex((line, at) => at > from && line.output !== output)
      const run = lines.slice(from, end < 0 ? lines.length : end)
      this.#lines[output].push(Buffer.concat(run.map(({ bytes }) => bytes)))
      from += run.length
    }
  }

  #freshLines(): Readonly<Record<Output, OutputLines>> {
    return { stdout: new OutputLines('stdout', this.#deps.sink), stderr: new OutputLines('stderr', this.#deps.sink) }
  }
}
