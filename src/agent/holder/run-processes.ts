import type { Clock } from '../../shared/kernel/time.ts'
import { cgroupPids, killCgroup } from './cgroup.ts'
import type { HolderRecord, Isolation } from './holder-files.ts'
import { MachineProcesses } from './machine-processes.ts'
import { isAlive, processFacts } from './proc.ts'

/** What distinguishes a run's processes from all others. `pid` is the child, the leader of its session and group. */
export interface RunScope {
  readonly launchId: string
  readonly pid: number
  readonly start: string
  readonly isolation: Isolation
}

export function scopeOf({ launchId, pid, start, run }: HolderRecord): RunScope {
  return { launchId, pid, start, isolation: run.isolation }
}

/** The processes of a run, also those that left its process group or lost their parent, out of those of the `machine`. */
export function runPids(scope: RunScope, machine = new MachineProcesses()): number[] {
  const { cgroup, uid } = scope.isolation
  if (cgroup !== null) return cgroupPids(cgroup)
  return uid === null ? machine.ofRun(scope) : machine.ofUser(uid)
}

/** Whether nothing but the run's own processes can be among {@link runPids}, and none of them can leave. */
export function isEnclosed({ isolation }: RunScope): boolean {
  return isolation.cgroup !== null || isolation.uid !== null
}

/** The processes of a run that live: a group may still list one that is a zombie. */
export function livingPids(scope: RunScope): number[] {
  return runPids(scope).filter((pid) => processFacts(pid) !== undefined)
}

/** The one of these processes that has lived longest; `undefined` when none of them lives. */
export function oldestOf(pids: readonly number[]): number | undefined {
  const facts = pids.flatMap((pid) => processFacts(pid) ?? [])
  return facts.sort((one, other) => Number(one.start) - Number(other.start) || one.pid - other.pid)[0]?.pid
}

/**
 * Sends a signal to every process of the run, once: to the child's process group, and to each of those that left it, such as
 * a game that its script has put into a session of its own. False when there is nobody to get it.
 */
export function signalRun(scope: RunScope, signal: NodeJS.Signals): boolean {
  const living = runPids(scope).flatMap((pid) => processFacts(pid) ?? [])
  // When the child has ended, the number of its group may belong to somebody else.
  const hasGroup = isAlive(scope.pid, scope.start) && send(-scope.pid, signal)
  const others = living.filter(({ group }) => !hasGroup || group !== scope.pid)
  return others.filter(({ pid }) => send(pid, signal)).length > 0 || hasGroup
}

/** Ends every process of the run, and looks again until none is left: a process may fork while it is being ended. */
export async function killRun(scope: RunScope, clock: Clock): Promise<number> {
  const ended = new Set<number>()
  for (let round = 0; round < 100; round++) {
    if (isAlive(scope.pid, scope.start)) send(-scope.pid, 'SIGKILL')
    const pids = runPids(scope)
    if (pids.length === 0) break
    const { cgroup } = scope.isolation
    if (cgroup === null || !killCgroup(cgroup)) for (const pid of pids) send(pid, 'SIGKILL')
    for (const pid of pids) ended.add(pid)
    await clock.sleep(round < 20 ? 5 : 50)
  }
  return ended.size
}

/** Sends a signal to a process, or by a negative number to a group; false when there is none. */
export function send(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false
    throw error
  }
}
