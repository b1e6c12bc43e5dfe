import { readFileSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import type { Clock } from '../../shared/time.ts'
import type { HolderPaths, HolderRecord } from './holder-files.ts'
import { isAlive } from './proc.ts'

/** How the child ended, as its launcher wrote it down. */
export interface ChildEnd {
  readonly code: number | null
  readonly signal: string | null
  readonly atMs: number
}

/**
 * Resolves when the child has ended. The launcher is its parent and writes its exit code down, whether or not a holder
 * lives; with the launcher killed too, only the end itself is known.
 */
export async function childEnded(record: HolderRecord, paths: HolderPaths, wake: Wake): Promise<ChildEnd> {
  while (isAlive(record.launcherPid, record.launcherStart) || isAlive(record.pid, record.start)) await wake.next()
  const code = readCode(paths.code)
  if (code === undefined) return { code: null, signal: null, atMs: wake.clock.nowMs() }
  return { ...meaningOf(code, readDiagnosis(paths.diagnosis)), atMs: statSync(paths.code).mtimeMs }
}

/** Waits a moment, less when something is known to have happened. */
export class Wake {
  readonly clock: Clock
  private controller = new AbortController()

  constructor(clock: Clock) {
    this.clock = clock
  }

  now(): void {
    this.controller.abort()
  }

  async next(): Promise<void> {
    await this.clock.sleep(
      this.controller.signal.aborted ? 5 : 200,
      this.controller.signal.aborted ? undefined : this.controller.signal,
    )
  }
}

/**
 * A shell gives 128 + n for a child that signal n ended, which is also what a program can return by itself. The shell says
 * something on its own stderr only for the signal; it is silent for SIGINT, SIGPIPE and in some shells SIGTERM, and for
 * those 128 + n is taken as the signal, which is what programs mean by it.
 */
function meaningOf(code: number, diagnosis: string): { code: number | null; signal: string | null } {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0]
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
