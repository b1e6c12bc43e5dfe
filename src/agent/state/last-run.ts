import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import { type HolderRecord, holderPaths } from '../holder/holder-files.ts'
import { freshFacts, newLaunch, type ServerFacts } from './journal-record.ts'
import { readOwnJson } from './json-file.ts'

const STOP_MS = 30_000

/** The holder's record of the last run below a state folder; `undefined` without one, and for one that cannot be read. */
export async function lastRun(state: string): Promise<HolderRecord | undefined> {
  try {
    return await readOwnJson<HolderRecord>(holderPaths(state).record)
  } catch {
    return undefined // damaged: the run is looked for by its holder's socket, as without a record
  }
}

/** The runs on record below `stateDir`, by the names of their folders. */
export async function recordedRuns(stateDir: string): Promise<Map<string, HolderRecord>> {
  const found = new Map<string, HolderRecord>()
  for (const name of await readdir(stateDir)) {
    const record = await lastRun(join(stateDir, name))
    if (record?.run.serverId === name) found.set(name, record)
  }
  return found
}

/**
 * As much of a specification as a run shows of itself, for a server whose own is lost. It has generation 0, so that any
 * other replaces it; nothing is ever started by it.
 */
export function specOfRun({ run }: HolderRecord): ServerSpec {
  const { serverId, limits, logMb } = run
  return {
    serverId,
    uuid: serverId,
    name: serverId,
    generation: 0,
    runtime: 'process',
    startup: 'false',
    stop: { type: 'signal', value: 'SIGTERM', timeoutMs: STOP_MS },
    done: [],
    stripAnsi: false,
    env: {},
    limits: { ...limits, diskMb: 0 },
    ports: [],
    restart: { policy: 'never', maxCrashes: 1 },
    suspended: false,
    install: null,
    console: { logMb },
  }
}

/** What a run shows of a server's state before it is adopted. */
export function factsOfRun({ kind, launchId, bootId, startedAtMs, forgotten }: HolderRecord): ServerFacts {
  const isGame = kind === 'game'
  return {
    ...freshFacts(),
    desired: isGame && !forgotten ? 'running' : 'stopped',
    installed: isGame,
    launch: { ...newLaunch(launchId, kind, bootId), ended: forgotten, readyAtMs: startedAtMs },
  }
}
