import { constants, openSync, readFileSync, statSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { ChildEnd } from '../child.ts'
import type { HolderPaths, HolderRecord } from '../holder-files.ts'
import { isAlive } from '../proc.ts'

/** How often is looked although nothing was reported; in the moment after a report; and where nothing can be reported. */
const NET_MS = 30_000
const QUICK_MS = 1000
const OFTEN_MS = 1000
const ORPHAN_MS = 200

/**
 * Resolves when the child has ended. The launcher is its parent and writes its exit code down, whether or not a holder
 * lives; with the launcher killed too, only the end itself is known.
 */
export async function childEnded(record: HolderRecord, paths: HolderPaths, wake: Wake): Promise<ChildEnd> {
  const stop = watchLauncher(paths.alive, wake)
  try {
    while (true) {
      const launched = isAlive(record.launcherPid, record.launcherStart)
      if (!launched && !isAlive(record.pid, record.start)) break
      // Without its launcher nothing reports the end of the child.
      await (launched ? wake.next() : wake.clock.sleep(ORPHAN_MS))
    }
  } finally {
    stop()
  }
  const code = readCode(paths.code)
  if (code === undefined) return { code: null, signal: null, atMs: wake.clock.nowMs() }
  const { signals } = (await import('node:os')).constants // loaded when it is needed: once in the life of a holder
  return { ...meaningOf(code, readDiagnosis(paths.diagnosis), signals), atMs: statSync(paths.code).mtimeMs }
}

/** Wakes when the launcher ends, also for a holder whose child it is not. Call the result when nobody waits any more. */
function watchLauncher(path: string, wake: Wake): () => void {
  let fd: number
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch {
    wake.lookOften() // the run was begun by an older program, which makes no such FIFO
    return () => undefined
  }
  const socket = new Socket({ fd, readable: true, writable: false })
  socket.once('close', () => wake.now())
  socket.on('error', () => undefined) // it closes then, and whoever waits looks
  socket.resume()
  return () => socket.destroy()
}

/** Waits until something is known to have happened, with a look from time to time in case that a report was lost. */
export class Wake {
  readonly clock: Clock
  private controller = new AbortController()
  private netMs = NET_MS
  private quickUntilMs = 0

  constructor(clock: Clock) {
    this.clock = clock
  }

  now(): void {
    // A process closes its files a moment before it counts as ended.
    this.quickUntilMs = this.clock.monotonicMs() + QUICK_MS
    this.controller.abort()
    this.controller = new AbortController()
  }

  lookOften(): void {
    this.netMs = OFTEN_MS
  }

  async next(): Promise<void> {
    const quick = this.clock.monotonicMs() < this.quickUntilMs
    await this.clock.sleep(quick ? 5 : this.netMs, quick ? undefined : this.controller.signal)
  }
}

/**
 * A shell gives 128 + n for a child that signal n ended, which is also what a program can return by itself. The shell says
 * something on its own stderr only for the signal; it is silent for SIGINT, SIGPIPE and in some shells SIGTERM, and for
 * those 128 + n is taken as the signal, which is what programs mean by it.
 */
function meaningOf(
  code: number,
  diagnosis: string,
  signals: Readonly<Record<string, number>>,
): { code: number | null; signal: string | null } {
  const signal = Object.entries(signals).find(([, number]) => number === code - 128)?.[0]
  const silent = signal === 'SIGINT' || signal === 'SIGPIPE' || signal === 'SIGTERM'
  if (signal === undefined || (diagnosis === '' && !silent)) return { code, signal: null }
  return { code: null, signal }
}

function readCode(path: string): number | undefined {
  try {
    return Number(readFileSync(path, 'latin1'))
  } catch {
    return undefined // the launcher was ended before it could write
  }
}

function readDiagnosis(path: string): string {
  try {
    return readFileSync(path, 'latin1').trim()
  } catch {
    return '' // there is none to help with
  }
}
