import { unlinkSync } from 'node:fs'
import { constants } from 'node:os'
import type { TerminalKey } from '../../../shared/protocol/server-spec.ts'
import { type ContainerState, containerState, record } from '../../engine/container-state.ts'
import { ownContainers, removeContainer } from '../../engine/containers.ts'
import { Engine, EngineAway, EngineRefusal, isMissing, plainText } from '../../engine/engine.ts'
import { endsWithItsContainers } from '../../engine/engine-kind.ts'
import { cgroupOfProcess, cgroupPids, foldersOf, oomKills, setIoWeight } from '../cgroup.ts'
import { BeginFailure, type Child, type ChildDeps, type ChildEnd, type ChildKind, KEY_BYTES } from '../child.ts'
import {
  type CgroupPlace,
  type ContainerPlace,
  ENGINE_RESTART,
  type HeldRun,
  type HolderRecord,
  type LaunchFile,
} from '../holder-files.ts'
import { removeFile, replaceJson } from '../own-files.ts'
import { bootId, isAlive, processFacts } from '../proc.ts'
import { send } from '../run-processes.ts'
import { ContainerStreams } from './container-streams.ts'

const RETRY_MS = 500
/** How long the exit code of a container is waited for whose process has ended while the engine is away. */
const AWAY_MS = 60_000
const KILL_ATTEMPTS = 100
const LOOK_MS = 50
/** The last words of a container that has ended. */
const LAST_WORDS_MS = 15_000
const ID = /^[0-9a-f]{12,64}$/
const MOST_WARNINGS = 10

/** A program in a container of an engine. The container is the run's own and goes with it. */
export const containerKind: ChildKind = {
  async start(file, firstSeq, deps) {
    const place = placeOf(file.run)
    const engine = new Engine(place.socket)
    let id: string | undefined
    let streams: ContainerStreams | undefined
    try {
      await removeEarlier(engine, file.run)
      const created = await create(engine, place.name, file)
      id = created.id
      streams = new ContainerStreams({ engine, id, isTerminal: hasTerminal(file.run), ...deps })
      // Attached before it starts, so that its first line is not missed.
      await streams.attach()
      const record = freshRecord(file, { id, firstSeq }, deps)
      for (const warning of created.warnings) remark(deps, `The container engine warns: ${warning}`)
      replaceJson(deps.paths.record, record)
      await engine.json({ method: 'POST', path: `/containers/${id}/start` })
      const begun = withProcess(record, await containerState(engine, id))
      replaceJson(deps.paths.record, begun)
      weigh(begun)
      unlinkSync(deps.paths.launch)
      await setUpTerminal(engine, begun)
      return { child: new ContainerChild(engine, begun, { streams, deps }), record: begun }
    } catch (error) {
      streams?.abandon()
      removeFile(deps.paths.record)
      if (id !== undefined) await removeContainer(engine, id).catch(() => undefined) // the first failure is the one to report
      throw error instanceof EngineRefusal
        ? new BeginFailure(`The container could not be started: ${error.message}`)
        : error
    }
  },

  async resume(record, deps) {
    const id = idOf(record.run)
    const engine = new Engine(placeOf(record.run).socket)
    const streams = new ContainerStreams({ engine, id, isTerminal: hasTerminal(record.run), ...deps })
    const state = await stateOf(engine, id, deps)
    const known = state === undefined || record.pid !== 0 ? record : withProcess(record, state)
    if (known !== record) replaceJson(deps.paths.record, known)
    streams.resume(record.firstSeq)
    return new ContainerChild(engine, known, { streams, deps })
  },

  async hasBegun({ run }) {
    try {
      return (await containerState(new Engine(placeOf(run).socket), idOf(run))).hasRun
    } catch (error) {
      if (isMissing(error)) return false
      throw error
    }
  },

  async endUnbegun({ run }) {
    await removeContainer(new Engine(placeOf(run).socket), idOf(run))
  },
}

class ContainerChild implements Child {
  readonly isEnclosed = true
  readonly #engine: Engine
  readonly #record: HolderRecord
  readonly #streams: ContainerStreams
  readonly #deps: ChildDeps
  #oomKilled = false
  /** Whether the end of the engine is that of the container; `undefined` until it has been asked. */
  #isEngineBound: boolean | undefined
  /** What the kernel has counted; its groups go with the container. */
  #oomKills = 0

  constructor(engine: Engine, record: HolderRecord, { streams, deps }: { streams: ContainerStreams; deps: ChildDeps }) {
    this.#engine = engine
    this.#record = record
    this.#streams = streams
    this.#deps = deps
  }

  async ended(): Promise<ChildEnd> {
    const { clock, sink } = this.#deps
    let awaySinceMs: number | undefined
    let wasAway = false
    let isGone = false
    while (true) {
      try {
        const state = await containerState(this.#engine, this.#id)
        if (!state.running) {
          const by = isGone && (await this.#endsWithEngine()) ? { by: ENGINE_RESTART } : {}
          // The engine does not keep what is said while it is away by a program that ends before it is back.
          if (wasAway)
            this.#remark('The container engine was away when the program ended; its last lines may be missing')
          return { ...this.#endOf(state), ...by }
        }
        awaySinceMs = undefined
        wasAway = false
        isGone = false
        this.#countOomKills()
        // Asked while it is there: it may be gone when the answer is needed.
        void this.#endsWithEngine()
        await this.#notRunning()
      } catch (error) {
        if (isMissing(error)) {
          this.#remark('The container was removed by somebody else')
          return { code: null, signal: null, atMs: sink.clock.nowMs() }
        }
        if (!(error instanceof EngineAway) && !(error instanceof EngineRefusal)) throw error
        wasAway = true
        isGone ||= error instanceof EngineAway
        this.#countOomKills()
        // A container lives on while its engine is away, where the engine is set to leave it alive.
        if (this.#processLives()) awaySinceMs = undefined
        else awaySinceMs ??= clock.monotonicMs()
        if (awaySinceMs !== undefined && clock.monotonicMs() - awaySinceMs > AWAY_MS) {
          this.#remark('The container has ended while the container engine was away; its exit code is not known')
          const end = { code: null, signal: null, atMs: sink.clock.nowMs() }
          return this.#isEngineBound === true ? { ...end, by: ENGINE_RESTART } : end
        }
        await clock.sleep(RETRY_MS)
      }
    }
  }

  living(): readonly number[] {
    if (!this.#processLives()) return []
    const { cgroup } = this.#record.run.isolation
    const pids = cgroup === null ? [] : cgroupPids(cgroup)
    return pids.length > 0 ? pids : [this.#record.pid]
  }

  async input(line: string, written: () => void): Promise<void> {
    await this.#streams.input(line)
    written()
  }

  async signal(name: NodeJS.Signals): Promise<boolean> {
    await this.#unpause()
    if (process.getuid?.() === 0) {
      // The first process only hands signals on; whoever gets one from it and from here would get two.
      const own = this.living().filter((pid) => pid !== this.#record.pid || this.#record.run.container?.init !== true)
      return own.filter((pid) => send(pid, name)).length > 0
    }
    try {
      await this.#engine.json({ method: 'POST', path: `/containers/${this.#id}/kill?signal=${name}` })
      return true
    } catch (error) {
      if (error instanceof EngineRefusal && (error.status === 409 || error.status === 404)) return false
      throw error
    }
  }

  async key(key: TerminalKey): Promise<boolean> {
    if (!hasTerminal(this.#record.run)) return false
    const { signalsAt } = await import('../process/terminal.ts')
    const signals = key === '^D' || (await signalsAt(terminalOf(this.#record), key))
    await this.#streams.type(KEY_BYTES[key])
    return signals !== false
  }

  async kill(): Promise<number> {
    const count = this.living().length
    if (count > 0) await this.#unpause()
    for (let attempt = 0; attempt < KILL_ATTEMPTS && this.#processLives(); attempt++) {
      if (process.getuid?.() === 0) send(this.#record.pid, 'SIGKILL')
      else await this.signal('SIGKILL')
      await this.#deps.clock.sleep(LOOK_MS)
    }
    return count
  }

  /** The engine has the kernel see to that. */
  memoryExceeded(): Promise<void> {
    return new Promise(() => undefined)
  }

  async finish(): Promise<void> {
    await this.#streams.finish(LAST_WORDS_MS)
  }

  oomKills(): number {
    return Math.max(this.#oomKills, this.#oomKilled ? 1 : 0)
  }

  /** A container that stays because its engine is away is removed by the next run of its server. */
  async remove(): Promise<void> {
    await removeContainer(this.#engine, this.#id).catch(() => undefined)
  }

  get #id(): string {
    return idOf(this.#record.run)
  }

  /**
   * An engine forgets with its own end what the kernel has done to a container, and does not see it while it is away; what it sees
   * it says itself.
   */
  #countOomKills(): void {
    const { cgroup } = this.#record.run.isolation
    if (cgroup !== null) this.#oomKills = Math.max(this.#oomKills, oomKills(cgroup))
  }

  /** An engine that does not say so is taken for one that leaves its containers alive. */
  async #endsWithEngine(): Promise<boolean> {
    this.#isEngineBound ??= await endsWithItsContainers(this.#engine).catch(() => undefined)
    return this.#isEngineBound === true
  }

  #processLives(): boolean {
    return this.#record.pid > 0 && isAlive(this.#record.pid, this.#record.start)
  }

  /** A program that somebody has paused would get no signal, and not end. */
  async #unpause(): Promise<void> {
    try {
      if (!(await containerState(this.#engine, this.#id)).paused) return
      await this.#engine.json({ method: 'POST', path: `/containers/${this.#id}/unpause` })
      this.#remark('The container was paused by somebody else, and goes on for its end')
    } catch (error) {
      // It has ended, goes on already, or its engine is away: the signal itself says what comes of it.
      if (!(error instanceof EngineAway) && !(error instanceof EngineRefusal)) throw error
    }
  }

  async #notRunning(): Promise<void> {
    const answer = await this.#engine.stream({ method: 'POST', path: `/containers/${this.#id}/wait` })
    try {
      for await (const _ of answer) {
        // the answer comes when it has ended; the state says more
      }
    } catch (error) {
      throw new EngineAway('The container engine has gone away', { cause: error })
    }
  }

  #endOf({ exitCode, oomKilled, endedAtMs }: ContainerState): ChildEnd {
    this.#oomKilled = oomKilled
    const atMs = endedAtMs ?? this.#deps.clock.nowMs()
    // What a container's first process returns for a child that a signal has ended, and what the engine says of its own end.
    const signal = Object.entries(constants.signals).find(([, value]) => value === exitCode - 128)?.[0]
    return signal === undefined ? { code: exitCode, signal: null, atMs } : { code: null, signal, atMs }
  }

  #remark(text: string): void {
    remark(this.#deps, text)
  }
}

/** Engines know one of the two files of version 1 that keep a share of disk time; the runtime has said where there is none. */
function weigh({ pid, run: { limits, isolation } }: HolderRecord): void {
  if (limits.ioWeight !== undefined && isolation.cgroup !== null) setIoWeight(pid, limits.ioWeight)
}

/** A word of the panel in the server's console. */
function remark({ sink }: Pick<ChildDeps, 'sink'>, text: string): void {
  sink.writer.append({ stream: 'system', ms: sink.clock.nowMs(), text: Buffer.from(text), flags: 0 })
  sink.writer.flush()
  sink.written()
}

function hasTerminal({ console }: HeldRun): boolean {
  return console?.kind === 'pty'
}

/** The terminal of a container is open in its first process. */
function terminalOf({ pid }: HolderRecord): string {
  return `/proc/${pid}/fd/0`
}

/** Size and echo of a terminal can be set as soon as it is there; a program that has ended already needs neither. */
async function setUpTerminal(engine: Engine, record: HolderRecord): Promise<void> {
  const { console } = record.run
  if (console?.kind !== 'pty') return
  if (record.pid > 0) await (await import('../process/terminal.ts')).turnOffEcho(terminalOf(record))
  const path = `/containers/${idOf(record.run)}/resize?h=${console.rows}&w=${console.columns}`
  await engine.json({ method: 'POST', path }).catch(() => undefined) // the engine's own size will do
}

function placeOf({ container }: HolderRecord['run']): ContainerPlace {
  if (container === undefined) throw new BeginFailure('The run on record names no container')
  return container
}

/** What the container is spoken of by: its name may be changed by hand. Records of before have the name alone. */
function idOf(run: HolderRecord['run']): string {
  const { id, name } = placeOf(run)
  return id ?? name
}

/** Starts that were cut off have left containers, which nobody has renamed or has. */
async function removeEarlier(engine: Engine, run: HolderRecord['run']): Promise<void> {
  const { agent } = placeOf(run)
  if (agent === undefined) return
  for (const { id } of await ownContainers(engine, { agent, serverId: run.serverId })) await removeContainer(engine, id)
}

async function create(
  engine: Engine,
  name: string,
  { container }: LaunchFile,
): Promise<{ id: string; warnings: readonly string[] }> {
  if (container === undefined) throw new BeginFailure('The launch file describes no container')
  const path = `/containers/create?name=${name}`
  const { Id: id, Warnings: warnings } = record(await engine.json({ method: 'POST', path, body: container }))
  if (typeof id !== 'string' || !ID.test(id)) throw new BeginFailure('The container engine names no container')
  const said = Array.isArray(warnings) ? warnings.filter((one) => typeof one === 'string') : []
  return { id, warnings: said.slice(0, MOST_WARNINGS).map(plainText) }
}

/** The state of a container whose holder has gone; `undefined` when the container is gone too. Waits for an engine that is away. */
async function stateOf(engine: Engine, id: string, { clock }: ChildDeps): Promise<ContainerState | undefined> {
  for (const deadline = clock.monotonicMs() + AWAY_MS; ; await clock.sleep(RETRY_MS)) {
    try {
      return await containerState(engine, id)
    } catch (error) {
      if (isMissing(error)) return undefined
      if (!(error instanceof EngineAway) || clock.monotonicMs() > deadline) throw error
    }
  }
}

function freshRecord(
  { run }: LaunchFile,
  { id, firstSeq }: { readonly id: string; readonly firstSeq: number },
  { clock }: ChildDeps,
): HolderRecord {
  return {
    kind: run.kind,
    launchId: run.launchId,
    pid: 0,
    start: '',
    launcherPid: 0,
    launcherStart: '',
    startedAtMs: clock.nowMs(),
    firstSeq,
    run: { ...run, container: { ...placeOf(run), id } },
    bootId: bootId(),
    ordered: false,
    by: null,
    forgotten: false,
  }
}

/** The record with the first process of the container as this machine sees it. */
function withProcess(record: HolderRecord, { pid }: ContainerState): HolderRecord {
  const facts = pid > 0 ? processFacts(pid) : undefined
  if (facts === undefined) return record
  const isolation = { ...record.run.isolation, cgroup: ownCgroup(pid, idOf(record.run)) }
  return { ...record, pid, start: facts.start, run: { ...record.run, isolation } }
}

/** Its groups bear its id; an engine that makes none leaves it in those of others, whose processes are not the container's. */
function ownCgroup(pid: number, id: string): CgroupPlace | null {
  const place = cgroupOfProcess(pid)
  return place !== null && foldersOf(place).every((folder) => folder.includes(id)) ? place : null
}
