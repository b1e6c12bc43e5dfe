import { existsSync } from 'node:fs'
import type { Clock } from '../../shared/kernel/time.ts'
import type { LineStream } from '../../shared/protocol/console.ts'
import type { TerminalKey } from '../../shared/protocol/server-spec.ts'
import { MAX_LINE_BYTES } from '../console/log/record.ts'
import type { LogWriter } from '../console/log/writer.ts'
import type { RunExit } from '../runtime/runtime.ts'
import { type Child, type ChildEnd, InputFailure } from './child.ts'
import { ControlServer } from './control-server.ts'
import { type Ask, type HeldRun, type HolderPaths, type HolderRecord, isOrdered, type Say } from './holder-files.ts'
import type { LogTail } from './log-tail.ts'
import { MemoryTidy } from './memory-tidy.ts'
import type { Sink } from './output-lines.ts'
import { removeFile, replaceJson } from './own-files.ts'
import { ReadingBudget } from './pacing.ts'
import { oldestOf } from './run-processes.ts'

/** How long a holder waits for the agent to take note of an exit; the exit stays on disk after that. */
const LINGER_MS = 600_000
const KEEP_AGAIN_MS = 1000
/** How often is looked whether the last process of a run has gone: when its end is ordered, and when it runs on. */
const ENDING_LOOK_MS = 100
const BACKGROUND_LOOK_MS = 1000
/** How long a game has to save after SIGTERM. */
const TERM_MS = 10_000
/** The kernel stamps files by a coarse clock. */
const STAMP_SLACK_MS = 50

/** One run from the moment its outputs are read until the agent has taken note of its end. */
export class Holder {
  private readonly paths: HolderPaths
  private readonly writer: LogWriter
  private readonly clock: Clock
  private control: ControlServer | undefined
  private exit: RunExit | undefined
  private tail: LogTail | undefined
  private readonly memory = new MemoryTidy()
  /** The process that stands for the run once its first one has ended. */
  private successor: number | undefined
  private readonly acknowledged = new AbortController()
  private saving: Promise<void> = Promise.resolve()
  private kept: Promise<void> = Promise.resolve()

  constructor(paths: HolderPaths, writer: LogWriter, clock: Clock) {
    this.paths = paths
    this.writer = writer
    this.clock = clock
  }

  /** Where the output of a run's child goes: into the log, and to whoever is connected. */
  sink(run: HeldRun): Sink {
    const { writer, clock } = this
    const budget = new ReadingBudget(run.limits.cpuCores, clock)
    const written = (): void => {
      this.control?.announce(writer.last)
      this.memory.written(writer.last)
    }
    return { writer, clock, written, budget, masked: run.masked ?? [] }
  }

  /** Holds the run until its end is acknowledged or 10 minutes have passed since. `tail` reads its log file, where it has one. */
  async hold(record: HolderRecord, child: Child, tail?: LogTail): Promise<void> {
    const life = new Life(this.paths, record, child)
    this.tail = tail
    tail?.follow()
    this.control = await ControlServer.listen(record.run.socket, {
      hello: () => this.hello(record),
      answer: (ask) => this.answer(ask, life),
    })
    this.memory.started()
    const over = new AbortController()
    this.guardMemory(life, over.signal)
    const end = await this.lastEnded(life, await child.ended())
    over.abort()
    await this.finish(life, end)
    this.memory.stop()
    await this.clock.sleep(LINGER_MS, this.acknowledged.signal)
    await this.kept
    await this.saving
    this.control.close()
    this.writer.close()
    removeFile(record.run.socket)
  }

  private hello(record: HolderRecord): Say[] {
    const { kind, launchId, startedAtMs, firstSeq } = record
    const pid = this.successor ?? record.pid
    const first: Say = { hello: { kind, launchId, pid, startedAtMs, firstSeq }, last: this.writer.last }
    return this.exit === undefined ? [first] : [first, { exit: this.exit }]
  }

  private async answer(ask: Ask, life: Life): Promise<Say> {
    switch (ask.op) {
      case 'input':
        return await this.input(ask, life)
      case 'signal': {
        if (this.exit !== undefined) return ended(ask)
        // The agent's schema allows only names of signals.
        const name = ask.name as NodeJS.Signals
        if (ask.key !== undefined && (await this.key(life.child, ask.key))) return { id: ask.id, ok: true }
        if (name === 'SIGKILL') await life.child.kill()
        else if (!(await life.child.signal(name))) return ended(ask)
        return { id: ask.id, ok: true }
      }
      case 'expect':
        await this.save(() => life.change(this.expectation(life.record, ask.withinMs)))
        return { id: ask.id, ok: true }
      case 'note':
        for (const line of ask.text.split('\n')) this.write(ask.stream, line)
        return { id: ask.id, ok: true }
      case 'ack':
        if (this.exit?.launchId === ask.launchId) {
          await this.save(() => life.forget())
          this.acknowledged.abort()
        }
        return { id: ask.id, ok: true }
    }
  }

  private expectation(record: HolderRecord, withinMs: number | undefined): Partial<Expectation> {
    const nowMs = this.clock.nowMs()
    if (withinMs !== undefined) return { orderedUntilMs: nowMs + withinMs }
    return { ordered: true, orderedAtMs: record.orderedAtMs ?? nowMs }
  }

  private async input(ask: Ask & { op: 'input' }, { child }: Life): Promise<Say> {
    if (this.exit !== undefined) return ended(ask)
    try {
      await child.input(ask.line, () => this.write('stdin', ask.line))
      return { id: ask.id, ok: true }
    } catch (error) {
      if (!(error instanceof InputFailure)) throw error
      if (this.exit !== undefined || error.closed) return ended(ask)
      return { id: ask.id, ok: false, code: 'TIMEOUT', message: error.message }
    }
  }

  /** A key that does not get into the terminal leaves it to the signal. */
  private async key(child: Child, key: TerminalKey): Promise<boolean> {
    try {
      return await child.key(key)
    } catch (error) {
      if (error instanceof InputFailure) return false
      throw error
    }
  }

  private write(stream: LineStream, line: string): void {
    const text = Buffer.from(line)
    this.writer.append({ stream, ms: this.clock.nowMs(), text: text.subarray(0, MAX_LINE_BYTES), flags: 0 })
    this.writer.flush()
    this.control?.announce(this.writer.last)
  }

  /** Where the kernel does not limit memory, this does. */
  private guardMemory(life: Life, signal: AbortSignal): void {
    const { limits } = life.record.run
    void life.child.memoryExceeded(signal).then(async () => {
      await this.save(() => life.change({ by: 'memory limit' }))
      this.write('system', `The server used more than ${limits.memoryMb} MiB of memory and is ended`)
      await life.child.kill()
    })
  }

  /**
   * The end of the run, whose first process has ended. One that was asked to end has ended with its last process: a game
   * behind a script may be saving. One that went into the background (its first process ended well by itself) runs on where
   * its processes cannot escape; elsewhere nobody could follow it.
   */
  private async lastEnded(life: Life, first: ChildEnd): Promise<RunEnd> {
    const wasAsked = isOrdered(life.record, first.atMs)
    if (life.record.kind !== 'game') return { ...first, ordered: wasAsked }
    const isWell = first.code === 0 && life.record.by === null
    let background: RunExit['background']
    let atMs = first.atMs
    for (let looks = 0; ; looks++) {
      const living = life.child.living()
      if (living.length === 0) break
      const isAsked = isAwaited(life.record, first, { wasAsked, nowMs: this.clock.nowMs() })
      if (!isAsked && background === undefined) {
        if (wasAsked && !life.record.ordered && life.record.by === null) {
          const forced = await this.endLeft(life)
          return { ...first, atMs: this.clock.nowMs(), ordered: true, forced }
        }
        if (wasAsked || life.record.ordered || !isWell) break
        if (!life.child.isEnclosed) return { ...first, ordered: false, background: 'lost' }
        background = 'followed'
        this.write('system', 'The program went into the background; the server runs until its last process has ended')
      }
      // What ends in the moment after its first process is not worth a word.
      if (background !== undefined || looks > 0) this.announceSuccessor(living)
      await this.clock.sleep(isAsked ? ENDING_LOOK_MS : BACKGROUND_LOOK_MS)
      atMs = this.clock.nowMs()
    }
    // Of a process that is nobody's child here the exit code is not to be had.
    const ordered = wasAsked || life.record.ordered
    if (background !== undefined) return { code: null, signal: null, atMs, ordered, background }
    return { ...first, atMs, ordered }
  }

  /** What a typed stop command has left running in its time goes the way of an ordered stop. */
  private async endLeft(life: Life): Promise<'SIGTERM' | 'SIGKILL'> {
    this.write('system', 'Server has not stopped in the time of its stop command, sending SIGTERM')
    await life.child.signal('SIGTERM')
    for (const until = this.clock.nowMs() + TERM_MS; this.clock.nowMs() < until; ) {
      if (life.child.living().length === 0) return 'SIGTERM'
      await this.clock.sleep(ENDING_LOOK_MS)
    }
    this.write('system', 'Server has not stopped after SIGTERM, sending SIGKILL')
    return 'SIGKILL'
  }

  private announceSuccessor(living: readonly number[]): void {
    if (this.successor !== undefined && living.includes(this.successor)) return
    const pid = oldestOf(living)
    if (pid === undefined) return
    this.successor = pid
    this.control?.sayToAll({ pid })
  }

  /** What the program left behind goes with it; then its last words are read and the exit is written down. */
  private async finish(life: Life, end: RunEnd): Promise<void> {
    const { record, child } = life
    const left = child.living().length > 0 ? await child.kill() : 0
    await child.finish()
    this.tail?.finish()
    const killed = child.oomKills()
    const failed = end.signal === 'SIGKILL' || (end.code !== 0 && end.code !== null) || end.background === 'followed'
    if (left > 0 && record.by === null && !end.ordered) {
      this.write('system', `${left} processes that the program left behind were ended`)
    }
    await this.saving
    const exit: RunExit = {
      launchId: record.launchId,
      kind: record.kind,
      code: end.code,
      signal: end.signal,
      oom: record.by === 'memory limit' || (killed > 0 && failed),
      ordered: end.ordered,
      by: life.record.by ?? end.by ?? null,
      endedAtMs: Math.round(end.atMs),
      uptimeMs: Math.max(0, Math.round(end.atMs - record.startedAtMs)),
      lastSeq: this.writer.last,
      ...(end.background === undefined ? {} : { background: end.background }),
      ...(end.forced === undefined ? {} : { forced: end.forced }),
    }
    await this.keep(exit)
    this.exit = exit
    this.control?.announce(this.writer.last)
    this.control?.sayToAll({ exit })
    await child.remove()
  }

  /**
   * Writes the exit down. When that fails (a full disk), the agent gets it all the same, and it is tried again until
   * the exit is written or the agent has taken note of it. Whoever takes this run over meanwhile finds the exit code.
   */
  private async keep(exit: RunExit): Promise<void> {
    try {
      replaceJson(this.paths.exit, exit)
    } catch {
      this.kept = this.keepLater(exit) // nothing is lost: see above
    }
  }

  private async keepLater(exit: RunExit): Promise<void> {
    while (true) {
      await this.clock.sleep(KEEP_AGAIN_MS, this.acknowledged.signal)
      // Without its folder the server has been removed, and nobody will ask.
      if (this.acknowledged.signal.aborted || !existsSync(this.paths.record)) return
      try {
        return await this.save(async () => replaceJson(this.paths.exit, exit))
      } catch {} // it is tried again
    }
  }

  /** The record has one writer at a time. */
  private save(work: () => Promise<void>): Promise<void> {
    const mine = this.saving.then(work)
    this.saving = mine.catch(() => undefined) // whoever asked gets the failure
    return mine
  }
}

type Expectation = Pick<HolderRecord, 'ordered' | 'orderedAtMs' | 'orderedUntilMs'>

/** How a run ended: as its first process did, unless that went into the background. */
type RunEnd = ChildEnd & Pick<RunExit, 'ordered' | 'background' | 'forced'>

/** The run that is held, with its record, which is kept on disk at each change. */
class Life {
  record: HolderRecord
  readonly child: Child
  private readonly paths: HolderPaths

  constructor(paths: HolderPaths, record: HolderRecord, child: Child) {
    this.paths = paths
    this.record = record
    this.child = child
  }

  async change(part: Partial<Expectation & Pick<HolderRecord, 'by' | 'forgotten'>>): Promise<void> {
    this.record = { ...this.record, ...part }
    replaceJson(this.paths.record, this.record)
  }

  /** Without room for the remark (a full disk) the record goes as a whole: the agent's journal knows of the end. */
  async forget(): Promise<void> {
    await this.change({ forgotten: true }).catch(() => removeFile(this.paths.record))
    removeFile(this.paths.exit)
  }
}

/**
 * Whether the end of what is left of a run is waited for: it was asked to end. Where its first process failed before that, it
 * is no game that saves.
 */
function isAwaited(
  record: HolderRecord,
  first: ChildEnd,
  { wasAsked, nowMs }: { readonly wasAsked: boolean; readonly nowMs: number },
): boolean {
  if (!record.ordered) return wasAsked && isOrdered(record, nowMs)
  return first.code === 0 || first.atMs > (record.orderedAtMs ?? 0) - STAMP_SLACK_MS
}

function ended(ask: Ask): Say {
  return { id: ask.id, ok: false, code: 'NOT_RUNNING', message: 'The program has ended' }
}
