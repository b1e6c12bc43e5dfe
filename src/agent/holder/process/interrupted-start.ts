import { readFileSync } from 'node:fs'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { HolderPaths, HolderRecord } from '../holder-files.ts'
import { commandLine, isAlive } from '../proc.ts'
import { killRun, scopeOf, send } from '../run-processes.ts'
import { CHAIN_FAILED, tokenOf } from './launcher.ts'

const SETTLE_MS = 15_000
const LOOK_MS = 2

/** Whether the child has become its program: the chain's own arguments carry a token, the program's do not. */
export function isProgram({ pid, start, launchId }: Pick<HolderRecord, 'pid' | 'start' | 'launchId'>): boolean {
  const line = commandLine(pid)
  return line !== '' && !line.split('\0').includes(tokenOf(launchId)) && isAlive(pid, start)
}

/**
 * Whether a run has begun whose holder was killed while there was a launch file and a record: the child may have got the
 * word or not, which it shows by becoming the program, or by its end. Nobody can give it the word any more, so one of the
 * two comes soon.
 */
export async function hasBegun(record: HolderRecord, paths: HolderPaths, clock: Clock): Promise<boolean> {
  const deadline = clock.monotonicMs() + SETTLE_MS
  while (clock.monotonicMs() <= deadline) {
    if (isProgram(record)) return true
    const lives = isAlive(record.pid, record.start) || isAlive(record.launcherPid, record.launcherStart)
    if (!lives) return hasRun(paths)
    await clock.sleep(LOOK_MS)
  }
  return false
}

/** Ends what a killed holder had prepared for a run that it did not begin. */
export async function endUnbegun(record: HolderRecord, clock: Clock): Promise<void> {
  if (isAlive(record.launcherPid, record.launcherStart)) send(record.launcherPid, 'SIGKILL')
  await killRun(scopeOf(record), clock)
}

function hasRun(paths: HolderPaths): boolean {
  try {
    return Number(readFileSync(paths.code, 'latin1')) !== CHAIN_FAILED
  } catch {
    return false // the launcher was ended too: as after a restart of the machine, nobody knows
  }
}
