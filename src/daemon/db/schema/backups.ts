import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { BackupKind, Compression } from '../../../shared/protocol/backups.ts'
import type { Flag, Json, Stamps } from './columns.ts'

/**
 * Where a backup stands. Only one that is `completed` (or is being restored or deleted, and was) is whole; `restoring` and `deleting` are
 * left when the job of it ends.
 */
export type BackupStatus = 'pending' | 'in_progress' | 'completed' | 'failed' | 'restoring' | 'deleting'

interface BackupTable extends Stamps {
  id: string
  /** `null`: its server is gone. */
  serverId: string | null
  /** The server that it is of, under whose id it lies in its store, for ever. */
  ownerId: string
  /** As the server was called. */
  serverName: string
  /** Where it was made; a backup of a local store lies there. `null`: that node is gone. */
  nodeId: string | null
  storeId: string
  /** The policy that has made it; such a backup does not count for its server. */
  policyId: string | null
  name: string
  kind: BackupKind
  compression: Compression
  label: string | null
  locked: Flag
  /** Whether it counts for what the server may keep. */
  counts: Flag
  status: BackupStatus
  error: string | null
  /** The patterns that were left out. */
  ignored: Json
  /** The databases that are kept with it. */
  databases: Json
  /** What was left out or has changed meanwhile, the first 100. */
  problems: Json
  problemCount: number
  entries: number | null
  bytes: number | null
  /** What the store has taken in for it. */
  storedBytes: number | null
  sha256: string | null
  /** The last job about it. */
  jobId: string | null
  createdBy: string | null
  startedAt: IsoTime | null
  completedAt: IsoTime | null
  restoredAt: IsoTime | null
  verifiedAt: IsoTime | null
  /** What the last verification has found; `null`: nothing. */
  damage: string | null
}

/** How the backups of one server are made; a server without a row has the defaults. */
interface BackupSettingsTable {
  serverId: string
  kind: BackupKind
  compression: Compression
  /** 0: as many as there are. */
  retentionCount: number
  /** 0: for ever. */
  retentionDays: number
  /** Keep rules of labels. */
  labels: Json
  ignored: Json
  /** Console commands before a backup, and after it. */
  quiesce: Json
  resume: Json
  databases: Flag
  /** `null`: no bound; 0: no backups. */
  allocationMb: number | null
  updatedAt: IsoTime
}

interface BackupPolicyTable extends Stamps {
  id: string
  name: string
  enabled: Flag
  target: 'all' | 'location' | 'node' | 'servers'
  /** The location or node. */
  targetId: string | null
  serverIds: Json
  cron: string
  timeZone: string
  kind: BackupKind
  compression: Compression
  /** `null`: the store that each server has. */
  storeId: string | null
  label: string | null
  ignored: Json
  databases: Flag
  keepCount: number
  keepDays: number
  /** Backups at a time on one node. */
  perNode: number
  /** What the backups of one server may take together; `null`: no bound. */
  allocationMb: number | null
  lastRunAt: IsoTime | null
  /** `null`: it is switched off, or its expression has no next time. */
  nextRunAt: IsoTime | null
}

/** How a policy stands with one server. */
interface BackupPolicyServerTable {
  policyId: string
  serverId: string
  /** Since when a backup is due that has not been made; `null`: none is. */
  dueAt: IsoTime | null
  /** The last one that is whole. */
  lastBackupId: string | null
  lastSuccessAt: IsoTime | null
  lastFailureAt: IsoTime | null
  /** Why the last one has failed; `null` since one has not. */
  lastError: string | null
}

/** Where a run of a policy stands; a policy has at most one that is `running`. */
export type PolicyRunStatus = 'running' | 'completed' | 'failed' | 'cancelled' | 'superseded'

/** One time that a policy had its servers backed up. */
interface BackupPolicyRunTable {
  id: string
  policyId: string
  cause: 'schedule' | 'manual'
  /** When it was to begin; earlier than it was made when the daemon was down then. */
  dueAt: IsoTime
  /** Who has asked for it. */
  startedBy: string | null
  status: PolicyRunStatus
  createdAt: IsoTime
  endedAt: IsoTime | null
}

/** `skipped`: it was left to a later run, cancelled, or its server is gone. */
export type PolicyResultState = 'waiting' | 'running' | 'completed' | 'failed' | 'skipped'

/** What became of one server in a run. */
interface BackupPolicyResultTable {
  runId: string
  /** Of a server that may be gone by now. */
  serverId: string
  serverName: string
  state: PolicyResultState
  backupId: string | null
  /** Why it has failed or was skipped; of one that waits again: why its backup before has failed. */
  reason: string | null
  startedAt: IsoTime | null
  endedAt: IsoTime | null
}

/** Backups of servers, and the policies that make them. */
export interface BackupsTables {
  backup: BackupTable
  backupSettings: BackupSettingsTable
  backupPolicy: BackupPolicyTable
  backupPolicyServer: BackupPolicyServerTable
  backupPolicyRun: BackupPolicyRunTable
  backupPolicyResult: BackupPolicyResultTable
}
