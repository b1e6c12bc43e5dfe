import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { AgentFailure } from '../failure.ts'
import type { ServerPlace } from '../runtime/runtime.ts'

/** The parts of an agent's data folder. */
export interface AgentLayout {
  readonly dataDir: string
  readonly journalDir: string
  readonly serversDir: string
  readonly stateDir: string
  /** What restores are at when they exchange a server's folder. */
  readonly restoresDir: string
  /** What has come from another panel, by its steps. */
  readonly migrationsDir: string
  /** What backups have on its way. */
  readonly backupWorkDir: string
  /** Which folders for backups have been used. */
  readonly backupMarksFile: string
  readonly lockFile: string
  readonly nodeFile: string
}

export function agentLayout(dataDir: string): AgentLayout {
  return {
    dataDir,
    journalDir: join(dataDir, 'journal'),
    serversDir: join(dataDir, 'servers'),
    stateDir: join(dataDir, 'state'),
    restoresDir: join(dataDir, 'restores'),
    migrationsDir: join(dataDir, 'migrations'),
    backupWorkDir: join(dataDir, 'backup-work'),
    backupMarksFile: join(dataDir, 'backup-folders.json'),
    lockFile: join(dataDir, 'agent.lock'),
    nodeFile: join(dataDir, 'node.json'),
  }
}

/** Makes the folders. `servers` and the data folder may be entered by the servers' own users, the others may not. */
export async function makeLayout(layout: AgentLayout): Promise<void> {
  await mkdir(layout.dataDir, { recursive: true, mode: 0o711 })
  await mkdir(layout.serversDir, { recursive: true, mode: 0o711 })
  await mkdir(layout.journalDir, { recursive: true, mode: 0o700 })
  await mkdir(layout.stateDir, { recursive: true, mode: 0o700 })
  await mkdir(layout.restoresDir, { recursive: true, mode: 0o700 })
  await mkdir(layout.migrationsDir, { recursive: true, mode: 0o700 })
}

/** The two folders of a server. An id that is not a plain name is refused, because it becomes part of a path. */
export function placeOf(layout: AgentLayout, serverId: string): ServerPlace {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(serverId))
    throw new AgentFailure('BAD_REQUEST', 'The server id is not a plain name')
  return { serverId, files: join(layout.serversDir, serverId), state: join(layout.stateDir, serverId) }
}
