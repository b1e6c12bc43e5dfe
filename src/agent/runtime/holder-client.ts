import { spawn } from 'node:child_process'
import { mkdir, rm } from 'node:fs/promises'
import { newIdSuffix } from '../../shared/kernel/ids.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { takeLock } from '../../shared/platform/file-lock.ts'
import type { LineStream } from '../../shared/protocol/console.ts'
import { MAX_LINE_BYTES } from '../console/log/record.ts'
import { LogWriter } from '../console/log/writer.ts'
import { AgentFailure } from '../failure.ts'
import { childKindOf } from '../holder/child-kinds.ts'
import { type HolderPaths, type HolderRecord, holderPaths, type LaunchFile } from '../holder/holder-files.ts'
import { readOwnJson, writeOwnJson } from '../state/json-file.ts'
import { ControlClient } from './control-client.ts'
import { HOLDER_ENV, HOLDER_NODE_OPTIONS } from './holder-process.ts'
import type { RunExit, ServerPlace } from './runtime.ts'

const BEGIN_MS = 45_000
const NOTE_MS = 5000
const BEGIN_ATTEMPTS = 3
const LOOK_MS = 10
const RETRY_MS = 500
const DEFAULT_LOG_MB = 64

/** What the client is made with. */
export interface HolderClientOptions {
  readonly execArgv: readonly [string, ...string[]]
  readonly clock: Clock
}

/** The way to a server's holder: starts it, finds it, replaces a dead one, and stands in for it where none is needed. */
export class HolderClient {
  private readonly options: HolderClientOptions

  constructor(options: HolderClientOptions) {
    this.options = options
  }

  /**
   * Starts a holder for the launch file and waits until the program is alive, or has ended. A holder that is killed before
   * that gets a successor, which begins the run, or takes it over when it has begun.
   */
  async begin(place: ServerPlace, launchId: string, socket: string): Promise<ControlClient | RunExit> {
    const deadline = this.options.clock.monotonicMs() + BEGIN_MS
    for (let attempt = 1; attempt <= BEGIN_ATTEMPTS && this.options.clock.monotonicMs() <= deadline; attempt++) {
      const begun = await this.beginOnce(place, { launchId, socket, deadline })
      if (begun !== undefined) return begun
    }
    await this.withdraw(holderPaths(place.state), true)
    throw new AgentFailure('SPAWN_FAILED', 'The process that holds the server could not be started')
  }

  /**
   * The living run or its exit. A run whose holder is gone gets another one. A launch file that no holder has taken is
   * withdrawn under the lock, so that a holder that comes too late finds nothing to start.
   */
  async find(place: ServerPlace): Promise<ControlClient | RunExit | undefined> {
    const paths = holderPaths(place.state)
    const deadline = this.options.clock.monotonicMs() + BEGIN_MS
    let holder: { ended(): boolean } | undefined
    while (true) {
      const exit = await readOwnJson<RunExit>(paths.exit)
      if (exit !== undefined) return exit
      // In this order: a holder that begins writes the record before it takes the launch file away.
      const file = await readOwnJson<LaunchFile>(paths.launch)
      const record = await readOwnJson<HolderRecord>(paths.record)
      // A holder may still answer there, in the moment before it goes.
      if (file === undefined && record?.forgotten === true) return undefined
      const socket = file?.run.socket ?? record?.run.socket
      const client = socket === undefined ? undefined : await ControlClient.open(socket)
      if (client !== undefined) return client
      if (file !== undefined) await this.withdraw(paths)
      else if (record === undefined) return undefined
      else if (holder === undefined || holder.ended()) holder = this.startHolder(place.state)
      if (this.options.clock.monotonicMs() > deadline) {
        const failure = await readOwnJson<{ message: string }>(paths.failure)
        throw new AgentFailure('TIMEOUT', failure?.message ?? 'The process that holds the server does not answer')
      }
      await this.options.clock.sleep(holder?.ended() ? RETRY_MS : LOOK_MS)
    }
  }

  /** Makes an exit forgotten and lets its holder end. */
  async forget(place: ServerPlace, launchId: string): Promise<void> {
    const paths = holderPaths(place.state)
    const record = await readOwnJson<HolderRecord>(paths.record)
    if (record?.launchId !== launchId || record.forgotten) return
    const client = await ControlClient.open(record.run.socket)
    if (client !== undefined) {
      await client.ask({ op: 'ack', launchId }).finally(() => client.close())
      return
    }
    await this.locked(paths, async () => {
      // As in the holder: without room for the remark the record goes.
      const forgotten: HolderRecord = { ...record, forgotten: true }
      await writeOwnJson(paths.record, forgotten).catch(() => rm(paths.record, { force: true }))
      await rm(paths.exit, { force: true })
    })
  }

  /** `undefined` when the holder has gone without a word, or time is over. */
  private async beginOnce(
    place: ServerPlace,
    run: { launchId: string; socket: string; deadline: number },
  ): Promise<ControlClient | RunExit | undefined> {
    const paths = holderPaths(place.state)
    const { clock } = this.options
    const holder = this.startHolder(place.state)
    for (let last = false; ; ) {
      const client = await ControlClient.open(run.socket)
      if (client?.record.launchId === run.launchId) return client
      client?.close()
      const failure = await readOwnJson<{ launchId: string; message: string }>(paths.failure)
      if (failure?.launchId === run.launchId) throw new AgentFailure('SPAWN_FAILED', failure.message)
      const exit = await readOwnJson<RunExit>(paths.exit)
      if (exit?.launchId === run.launchId) return exit
      if (last) return undefined
      last = holder.ended() || clock.monotonicMs() > run.deadline
      if (!last) await clock.sleep(LOOK_MS)
    }
  }

  /** Writes lines into the log: by the holder when one lives, else under its lock, so that there are never two writers. */
  async note(place: ServerPlace, text: string, stream: LineStream): Promise<void> {
    const paths = holderPaths(place.state)
    await mkdir(place.state, { recursive: true, mode: 0o700 })
    const deadline = this.options.clock.monotonicMs() + NOTE_MS
    do {
      const record = await readOwnJson<HolderRecord>(paths.record)
      const isHeld = record !== undefined && !record.forgotten
      const client = isHeld ? await ControlClient.open(record.run.socket) : undefined
      if (client !== undefined) {
        if (await heard(client, { text, stream })) return
        continue
      }
      const lock = await takeLock(paths.lock, 0)
      if (lock === undefined) {
        // A holder is just beginning or ending.
        await this.options.clock.sleep(LOOK_MS)
        continue
      }
      try {
        return this.write(paths, record?.run.logMb ?? DEFAULT_LOG_MB, text.split('\n'), stream)
      } finally {
        await lock.close()
      }
    } while (this.options.clock.monotonicMs() < deadline)
    throw new AgentFailure('TIMEOUT', 'The console log of the server stays locked')
  }

  private write(paths: HolderPaths, logMb: number, lines: readonly string[], stream: LineStream): void {
    const { clock } = this.options
    const writer = new LogWriter({ dir: paths.log, logMb, newEpoch: newIdSuffix(clock) })
    for (const line of lines) {
      writer.append({ stream, ms: clock.nowMs(), text: Buffer.from(line).subarray(0, MAX_LINE_BYTES), flags: 0 })
    }
    writer.close()
  }

  /**
   * Takes a launch file away unless a holder is at work on it, and with it what is on record of a run that did not begin; of
   * one that did begin too when `evenBegun`.
   */
  private async withdraw(paths: HolderPaths, evenBegun = false): Promise<void> {
    const lock = await takeLock(paths.lock, 0)
    if (lock === undefined) return
    try {
      const file = await readOwnJson<LaunchFile>(paths.launch)
      const record = await readOwnJson<HolderRecord>(paths.record)
      const isLost = record !== undefined && record.launchId === file?.run.launchId
      const kind = isLost ? await childKindOf(record.run) : undefined
      if (kind !== undefined && isLost && (evenBegun || !(await kind.hasBegun(record, paths, this.options.clock)))) {
        await kind.endUnbegun(record, this.options.clock)
        await rm(paths.record, { force: true })
      }
      await rm(paths.launch, { force: true })
    } finally {
      await lock.close()
    }
  }

  private async locked(paths: HolderPaths, work: () => Promise<void>): Promise<void> {
    const lock = await takeLock(paths.lock, 10)
    if (lock === undefined) throw new AgentFailure('TIMEOUT', 'The state of the server stays locked')
    try {
      await work()
    } finally {
      await lock.close()
    }
  }

  private startHolder(state: string): { ended(): boolean } {
    const [program, ...args] = this.options.execArgv
    let over = false
    const options = program === process.execPath ? HOLDER_NODE_OPTIONS : []
    const child = spawn(program, [...options, ...args, state], {
      detached: true,
      stdio: 'ignore',
      cwd: '/',
      env: HOLDER_ENV,
    })
    child.once('error', () => {
      over = true // the caller looks, finds no holder, and says so
    })
    child.once('exit', () => {
      over = true
    })
    child.unref()
    return { ended: () => over }
  }
}

/** Has a holder write a remark; false when it has ended before it heard of it. */
async function heard(client: ControlClient, remark: { text: string; stream: LineStream }): Promise<boolean> {
  try {
    await client.ask({ op: 'note', ...remark })
    return true
  } catch (error) {
    if (error instanceof AgentFailure && error.code === 'INTERRUPTED') return false
    throw error
  } finally {
    client.close()
  }
}
