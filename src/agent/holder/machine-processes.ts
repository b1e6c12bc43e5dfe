import { allPids, type ProcessFacts, processFacts, uidOf, valuesOfVariable } from './proc.ts'
import type { RunScope } from './run-processes.ts'

/** A variable in the environment of every process of a run; by it they are found where there is neither group nor user. */
export const RUN_VARIABLE = 'PANEL_LAUNCH_ID'

/**
 * The processes of this machine as they were when they were first asked for, by what says whose they are: one pass over /proc for any
 * number of runs.
 */
export class MachineProcesses {
  #byUser: Map<number, number[]> | undefined
  #living: readonly ProcessFacts[] | undefined
  #byRun: Map<string, number[]> | undefined

  /** Those of a user that live. */
  ofUser(uid: number): number[] {
    this.#byUser ??= grouped(allPids(), userOf)
    return (this.#byUser.get(uid) ?? []).filter((pid) => processFacts(pid) !== undefined)
  }

  /** A run's first process, whatever carries the run's variable, and the descendants of both. */
  ofRun({ launchId, pid, start }: Pick<RunScope, 'launchId' | 'pid' | 'start'>): number[] {
    const living = this.#allLiving()
    this.#byRun ??= grouped(
      living.map((one) => one.pid),
      (one) => valuesOfVariable(one, RUN_VARIABLE),
    )
    const found = new Set(this.#byRun.get(launchId))
    if (living.some((one) => one.pid === pid && one.start === start)) found.add(pid)
    if (found.size === 0) return []
    for (let size = 0; size !== found.size; ) {
      size = found.size
      for (const one of living) if (found.has(one.ppid)) found.add(one.pid)
    }
    return [...found]
  }

  #allLiving(): readonly ProcessFacts[] {
    this.#living ??= allPids().flatMap((pid) => processFacts(pid) ?? [])
    return this.#living
  }
}

function userOf(pid: number): number[] {
  const uid = uidOf(pid)
  return uid === undefined ? [] : [uid]
}

function grouped<K>(pids: readonly number[], keysOf: (pid: number) => readonly K[]): Map<K, number[]> {
  const groups = new Map<K, number[]>()
  for (const pid of pids) {
    for (const key of keysOf(pid)) {
      const group = groups.get(key) ?? []
      groups.set(key, group)
      group.push(pid)
    }
  }
  return groups
}
