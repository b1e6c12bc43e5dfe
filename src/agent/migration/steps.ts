import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../shared/kernel/time.ts'
import { MIGRATION_LIMITS, type PulledFiles } from '../../shared/protocol/migration.ts'
import { placeStaged, whileStopped } from '../backups/restore.ts'
import { AgentFailure } from '../failure.ts'
import { FolderHandle } from '../files/folder-handle.ts'
import { cancelled } from '../files/list.ts'
import { removeFolder } from '../files/tree.ts'
import { type AgentLog, errorText } from '../logger.ts'
import type { GameServer } from '../server/server.ts'
import type { AgentLayout } from '../state/layout.ts'
import { type Checked, checkFiles } from './check.ts'
import { type StepRecord, StepRecords } from './records.ts'

/** Beside the folders of servers, so that they are on one file system. */
const STAGED = '.migration-'
/** What one node fetches at the same time. */
const PULLS_AT_ONCE = 4
/** Whoever waits hears at least so often that it goes on. */
const REPORT_MS = 10_000

/** How far a pull is. */
export interface Coming {
  readonly entries: number
  readonly bytes: number
  readonly archiveBytes: number
  readonly totalBytes: number | null
}

/** What somebody who waits watches by. */
export interface Watch<Report> {
  readonly signal: AbortSignal
  progress(report: Report): void
}

/** What a pull works with. */
export interface PullWork {
  /** The folder to be made. */
  readonly staged: string
  readonly listPath: string
  readonly signal: AbortSignal
  progress(report: Coming): void
}

interface Running {
  readonly serverId: string
  readonly ending: AbortController
  readonly done: Promise<PulledFiles>
  readonly watching: Set<(report: Coming) => void>
  last: Coming
}

interface StepDeps {
  readonly layout: AgentLayout
  readonly clock: Clock
  readonly log: AgentLog
  readonly ending: AbortSignal
}

/**
 * The steps of moves that this node knows, by the ids that the daemon has given them. Work belongs to its step and not to whoever has asked
 * for it: a daemon that was away finds it again, and asks the source a second time only when the first time has failed.
 */
export class MigrationSteps {
  readonly records: StepRecords
  readonly #deps: StepDeps
  readonly #running = new Map<string, Running>()
  readonly #turns = new Map<string, Promise<void>>()

  constructor(deps: StepDeps) {
    this.#deps = deps
    this.records = new StepRecords(deps.layout)
  }

  /** After a start: finds out what was reached, and removes what was on its way. Runs when the exchanges of folders are finished. */
  async begin(): Promise<void> {
    const { layout, log } = this.#deps
    const kept = new Set<string>()
    await this.records.sweep()
    for (const record of await this.records.all()) {
      const staged = this.#staged(record.stepId)
      const isThere = existsSync(staged)
      if (this.#isOver(record) || (record.state === 'ready' && !isThere)) {
        await this.records.remove(record.stepId)
        continue
      }
      if (record.state === 'placing') await this.records.write({ ...record, state: isThere ? 'ready' : 'placed' })
      kept.add(staged)
    }
    const left = (await readdir(layout.serversDir)).filter((name) => name.startsWith(STAGED))
    const unknown = left.map((name) => join(layout.serversDir, name)).filter((path) => !kept.has(path))
    const removed: string[] = []
    for (const path of unknown) {
      // Its step may be asked for anew while the old files are still being removed.
      const aside = join(layout.serversDir, `${STAGED}removed-${randomBytes(6).toString('hex')}`)
      await rename(path, aside)
      removed.push(aside)
    }
    void Promise.all(removed.map((path) => removeFolder(path))).catch((error: unknown) => {
      log.warn({ err: errorText(error) }, 'cannot remove what a move has left, trying again at the next start')
    })
  }

  /** Starts the pull of a step, waits for the one that is under way, or answers what has come. Ending `watch` ends the waiting alone. */
  async pull(
    { stepId, serverId }: { readonly stepId: string; readonly serverId: string },
    work: (options: PullWork) => Promise<PulledFiles>,
    watch: Watch<Coming>,
  ): Promise<PulledFiles> {
    const running =
      this.#running.get(stepId) ?? (await this.#turn(stepId, () => this.#startPull({ stepId, serverId }, work)))
    if (running.serverId !== serverId) throw otherServer()
    return 'pulled' in running ? running.pulled : await this.#wait(running, watch)
  }

  /** What is known of a step. */
  async ask(stepId: string): Promise<{
    state: 'none' | 'pulling' | 'ready' | 'placed'
    progress: Coming | null
    pulled: PulledFiles | null
  }> {
    const running = this.#running.get(stepId)
    if (running !== undefined) return { state: 'pulling', progress: running.last, pulled: null }
    const record = await this.records.read(stepId)
    if (record === undefined) return { state: 'none', progress: null, pulled: null }
    const isPlaced = record.state === 'placed' || (record.state === 'placing' && !existsSync(this.#staged(stepId)))
    return { state: isPlaced ? 'placed' : 'ready', progress: null, pulled: record.pulled }
  }

  /** Where what has come of a step lies. Throws NOT_FOUND. */
  async readyFolder(stepId: string): Promise<string> {
    const record = await this.#known(stepId)
    if (record.state === 'ready') return this.#staged(stepId)
    throw new AgentFailure('NOT_FOUND', 'What has come of this step lies in its place already')
  }

  /** Compares what has come with what was unpacked. Throws NOT_FOUND. */
  async check(
    stepId: string,
    mode: 'full' | 'sample',
    { signal, progress }: Watch<{ entries: number; bytes: number }>,
  ): Promise<Checked> {
    return await this.#turn(stepId, async () => {
      const record = await this.#known(stepId)
      const root =
        record.state === 'placed' ? join(this.#deps.layout.serversDir, record.serverId) : this.#staged(stepId)
      return await checkFiles({
        root,
        listPath: this.records.listPath(stepId),
        files: record.pulled.files,
        mode,
        isAll: !(record.state === 'placed' && record.isMerged),
        signal,
        progress,
      })
    })
  }

  /** Puts what has come into the place of the server's folder. Answers false for what is there already. Throws NOT_FOUND, CONFLICT_STATE. */
  async place(
    server: GameServer,
    { stepId, existing }: { readonly stepId: string; readonly existing: 'fail' | 'replace' | 'merge' },
    { signal, progress }: Watch<{ entries: number; bytes: number }>,
  ): Promise<boolean> {
    return await this.#turn(stepId, async () => {
      const record = await this.#known(stepId)
      if (record.serverId !== server.id) throw otherServer()
      if (record.state === 'placed') return false
      // The exchange is done, and what came after it was not.
      if (record.state === 'placing' && !existsSync(this.#staged(stepId))) {
        await this.records.write({ ...record, state: 'placed', atMs: this.#deps.clock.nowMs() })
        return false
      }
      const { entries, bytes } = record.pulled
      return await this.#reporting(
        () => progress({ entries, bytes }),
        () =>
          whileStopped(server, async (ended) => {
            if (existing === 'fail' && hasFiles(server.place.files)) {
              const message = 'The server has files already; replace them, or keep those that have not come'
              throw new AgentFailure('CONFLICT_STATE', message)
            }
            if (signal.aborted || ended.aborted) throw cancelled()
            const isMerged = existing === 'merge'
            await this.records.write({ ...record, state: 'placing', isMerged })
            await placeStaged(server, this.#staged(stepId), { keepOthers: isMerged, kept: [] })
            await this.records.write({ ...record, state: 'placed', isMerged, atMs: this.#deps.clock.nowMs() })
            return true
          }),
      )
    })
  }

  /** Ends the work of a step and forgets it; what lies ready is removed. False when there was nothing. */
  async wipe(stepId: string, progress: (report: { entries: number; bytes: number }) => void): Promise<boolean> {
    const running = this.#running.get(stepId)
    running?.ending.abort()
    return await this.#reporting(
      () => progress({ entries: 0, bytes: 0 }),
      async () => {
        await running?.done.catch(() => {}) // its end is all that matters
        return await this.#turn(stepId, async () => {
          const record = await this.records.read(stepId)
          if (record !== undefined && record.state !== 'placed') await removeFolder(this.#staged(stepId))
          await this.records.remove(stepId)
          return record !== undefined || running !== undefined
        })
      },
    )
  }

  async #startPull(
    { stepId, serverId }: { readonly stepId: string; readonly serverId: string },
    work: (options: PullWork) => Promise<PulledFiles>,
  ): Promise<Running | StepRecord> {
    const before = this.#running.get(stepId) ?? (await this.records.read(stepId))
    if (before !== undefined) return before
    await this.#forgetOld()
    if (this.#running.size >= PULLS_AT_ONCE) {
      const message = `${PULLS_AT_ONCE} servers are on their way to this node; try again when one has come`
      throw new AgentFailure('CONFLICT_STATE', message)
    }
    const ending = new AbortController()
    const running: Running = {
      serverId,
      ending,
      watching: new Set(),
      last: { entries: 0, bytes: 0, archiveBytes: 0, totalBytes: null },
      done: this.#carryOut({ stepId, serverId }, ending, (options) =>
        work({
          ...options,
          progress: (report) => {
            running.last = report
            for (const notify of running.watching) notify(report)
          },
        }),
      ),
    }
    running.done.catch(() => {}) // whoever waits hears of it
    this.#running.set(stepId, running)
    return running
  }

  async #carryOut(
    { stepId, serverId }: { readonly stepId: string; readonly serverId: string },
    ending: AbortController,
    work: (options: Omit<PullWork, 'progress'>) => Promise<PulledFiles>,
  ): Promise<PulledFiles> {
    const staged = this.#staged(stepId)
    const signal = AbortSignal.any([ending.signal, this.#deps.ending])
    try {
      await removeFolder(staged)
      const pulled = await work({ staged, listPath: this.records.listPath(stepId), signal })
      const atMs = this.#deps.clock.nowMs()
      await this.records.write({ stepId, serverId, state: 'ready', isMerged: false, pulled, atMs })
      return pulled
    } catch (error) {
      await removeFolder(staged)
      await this.records.remove(stepId)
      throw signal.aborted ? cancelled() : error
    } finally {
      this.#running.delete(stepId)
    }
  }

  async #wait(running: Running, { signal, progress }: Watch<Coming>): Promise<PulledFiles> {
    const gone = new Promise<never>((_, reject) => {
      if (signal.aborted) reject(cancelled())
      signal.addEventListener('abort', () => reject(cancelled()), { once: true })
    })
    gone.catch(() => {}) // it may come after the end
    running.watching.add(progress)
    try {
      return await this.#reporting(
        () => progress(running.last),
        () => Promise.race([running.done, gone]),
      )
    } finally {
      running.watching.delete(progress)
    }
  }

  /** Reports again and again while something is under way that says nothing by itself: the source, or a disk, may be slow. */
  async #reporting<T>(report: () => void, work: () => Promise<T>): Promise<T> {
    const over = new AbortController()
    const repeat = async (): Promise<void> => {
      while (!over.signal.aborted) {
        report()
        await this.#deps.clock.sleep(REPORT_MS, over.signal)
      }
    }
    void repeat()
    try {
      return await work()
    } finally {
      over.abort()
    }
  }

  /** One thing at a time is done with what has come of a step. */
  async #turn<T>(stepId: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(stepId) ?? Promise.resolve()
    const mine = before.then(work)
    const ended = mine.then(
      () => undefined,
      () => undefined,
    )
    this.#turns.set(stepId, ended)
    try {
      return await mine
    } finally {
      if (this.#turns.get(stepId) === ended) this.#turns.delete(stepId)
    }
  }

  async #known(stepId: string): Promise<StepRecord> {
    const record = this.#running.has(stepId) ? undefined : await this.records.read(stepId)
    if (record === undefined)
      throw new AgentFailure('NOT_FOUND', 'Nothing of this step has come to the node; begin it anew')
    return record
  }

  async #forgetOld(): Promise<void> {
    for (const record of await this.records.all()) {
      if (!this.#isOver(record) || this.#turns.has(record.stepId)) continue
      await this.#turn(record.stepId, async () => {
        if (record.state !== 'placed') await removeFolder(this.#staged(record.stepId))
        await this.records.remove(record.stepId)
      })
    }
  }

  #isOver({ atMs }: StepRecord): boolean {
    return this.#deps.clock.nowMs() - atMs > MIGRATION_LIMITS.keptMs
  }

  #staged(stepId: string): string {
    return join(this.#deps.layout.serversDir, `${STAGED}${stepId}`)
  }
}

function hasFiles(path: string): boolean {
  const folder = FolderHandle.open(path)
  if (folder === undefined) return false
  try {
    return folder.names().next().done !== true
  } finally {
    folder.close()
  }
}

function otherServer(): AgentFailure {
  return new AgentFailure('CONFLICT_STATE', 'This step is of another server')
}
