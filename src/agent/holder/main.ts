import { closeSync, constants, existsSync, openSync } from 'node:fs'
import { flock } from '../../shared/platform/flock.ts'
import { LogWriter } from '../console/log/writer.ts'
import type { RunExit } from '../runtime/runtime.ts'
import { BeginFailure, type ChildDeps, type ChildKind } from './child.ts'
import { childKindOf } from './child-kinds.ts'
import { holderClock } from './clock.ts'
import { Holder } from './holder.ts'
import {
  type HeldRun,
  type HolderPaths,
  type HolderRecord,
  holderPaths,
  isOrdered,
  type LaunchFile,
  MACHINE_RESTART,
  TAKEN_OVER,
} from './holder-files.ts'
import { closeInherited } from './inherited-files.ts'
import type { LogTail } from './log-tail.ts'
import { readJson, removeFile, replaceJson } from './own-files.ts'
import { bootId } from './proc.ts'

const LOCK_SECONDS = 15

/**
 * The process that holds one run of a server: it reads the program's output into the console log, feeds its input, and
 * writes down how it ended, whether or not an agent is there. `dir` is the server's state folder. With a launch file in it
 * a run is started (one that an earlier holder did not come to begin among them); without one, a run that lost its holder is
 * taken over.
 */
export async function runHolder(dir: string): Promise<void> {
  // Orders reach a holder by its socket only; a signal to the agent's group or terminal is not meant for the game.
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, () => undefined)
  closeInherited()
  const paths = holderPaths(dir)
  const lock = openSync(paths.lock, constants.O_RDWR | constants.O_CREAT, 0o600)
  try {
    if (!(await flock(lock, ['-x', '-w', String(LOCK_SECONDS)]))) return
    const file = readJson<LaunchFile>(paths.launch)
    const record = readJson<HolderRecord>(paths.record)
    const isLost = record !== undefined && record.launchId === file?.run.launchId
    const begun = isLost && (await (await childKindOf(record.run)).hasBegun(record, paths, holderClock))
    if (file !== undefined && !begun) {
      if (isLost) await (await childKindOf(record.run)).endUnbegun(record, holderClock)
      await startRun(paths, file)
    } else if (record !== undefined && !record.forgotten && !existsSync(paths.exit)) {
      await takeOver(paths, record).catch((error: unknown) => reportFailure(paths, record.launchId, error))
    }
  } finally {
    closeSync(lock)
  }
}

async function startRun(paths: HolderPaths, file: LaunchFile): Promise<void> {
  const { run } = file
  try {
    const before = readJson<RunExit>(paths.exit)
    removeFile(paths.record)
    removeFile(paths.exit)
    const { logMb, newEpoch } = run
    const writer = new LogWriter({ dir: paths.log, logMb, newEpoch, written: before?.lastSeq ?? 0 })
    const holder = new Holder(paths, writer, holderClock)
    const { child, record, tail } = await begin(file, { paths, writer, holder })
    await holder.hold(record, child, tail)
  } catch (error) {
    reportFailure(paths, run.launchId, error)
    removeFile(paths.launch)
  }
}

/** A holder has no terminal and no log of its own: the agent finds the reason in this file. */
function reportFailure(paths: HolderPaths, launchId: string, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error)
  replaceJson(paths.failure, {
    launchId,
    message: error instanceof BeginFailure ? message : `The holder failed: ${message}`,
  })
}

/** What a child has said that could not be started is kept in the log. */
async function begin(
  file: LaunchFile,
  at: { paths: HolderPaths; writer: LogWriter; holder: Holder },
): Promise<Awaited<ReturnType<ChildKind['start']>> & { tail?: LogTail }> {
  const { paths, writer, holder } = at
  try {
    const deps = { paths, sink: holder.sink(file.run), clock: holderClock }
    // What the log file holds from earlier runs is not of this one, so its end is looked for before the program begins.
    const tail = await tailOf(file.run, deps)
    tail?.begin()
    const started = await (await childKindOf(file.run)).start(file, writer.last + 1, deps)
    return tail === undefined ? started : { ...started, tail }
  } catch (error) {
    writer.close()
    throw error
  }
}

/** Loaded when it is needed, as most runs have no log file to follow. */
async function tailOf({ console }: HeldRun, deps: ChildDeps): Promise<LogTail | undefined> {
  if (console?.kind !== 'file') return undefined
  return new (await import('./log-tail.ts')).LogTail(console, deps)
}

async function takeOver(paths: HolderPaths, record: HolderRecord): Promise<void> {
  removeFile(paths.launch)
  const writer = new LogWriter({ dir: paths.log, logMb: record.run.logMb, newEpoch: record.run.newEpoch })
  if (record.bootId !== bootId()) {
    // The machine was restarted: nothing of the run is left, and its process numbers belong to others now.
    const at = holderClock.nowMs()
    const { launchId, kind } = record
    const ordered = isOrdered(record, at)
    const end = {
      code: null,
      signal: null,
      oom: false,
      by: MACHINE_RESTART,
      endedAtMs: at,
      lastSeq: writer.last,
    }
    const exit: RunExit = { launchId, kind, ordered, ...end, uptimeMs: Math.max(0, at - record.startedAtMs) }
    replaceJson(paths.exit, exit)
    writer.close()
    return
  }
  writer.append({ stream: 'system', ms: holderClock.nowMs(), text: Buffer.from(TAKEN_OVER), flags: 0 })
  writer.flush()
  const holder = new Holder(paths, writer, holderClock)
  const deps = { paths, sink: holder.sink(record.run), clock: holderClock }
  const kind = await childKindOf(record.run)
  const tail = await tailOf(record.run, deps)
  await tail?.resume(record.firstSeq)
  await holder.hold(record, await kind.resume(record, deps), tail)
}
