import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { BackupKind, Compression } from '../../../../shared/protocol/backups.ts'
import type { Tx } from '../../../db/db.ts'
import type { ServerRow } from '../servers/rows.ts'
import { announce } from './announce.ts'
import { CREATE_BACKUP } from './create-job.ts'
import type { BackupDeps, By } from './deps.ts'
import { laneFor } from './lanes.ts'
import { insertBackup, setBackup, storedBytesOf } from './rows.ts'
import { settingsOf } from './settings.ts'

const MIB = 1024 * 1024

/** A backup that is about to be made. What is not given is as the settings of its server say. */
export interface NewBackup {
  readonly by: By
  /** What has started it, for people. */
  readonly cause: string
  readonly name?: string | undefined
  readonly kind?: BackupKind | undefined
  readonly compression?: Compression | undefined
  readonly ignored?: readonly string[] | undefined
  readonly label?: string | null | undefined
  readonly locked?: boolean | undefined
  readonly storeId?: string | undefined
  readonly databases?: boolean | undefined
  /** The policy that makes it, with what its backups of one server may take. */
  readonly policy?: { readonly id: string; readonly allocationMb: number | null } | undefined
  /** The job that waits for it. */
  readonly parentId?: string | undefined
  /** All of the server, whatever its settings and its `.panelignore` leave out: it is made before the folder is exchanged. */
  readonly wholeOnly?: boolean | undefined
}

/** Lists a backup as `pending` and has it made. Throws BACKUP_DISABLED, BACKUP_QUOTA_EXCEEDED and BACKUP_STORE_NOT_FOUND. */
export async function addBackup(
  tx: Tx,
  deps: BackupDeps,
  row: ServerRow,
  wanted: NewBackup,
): Promise<{ readonly backupId: string; readonly name: string; readonly jobId: string }> {
  const settings = await settingsOf(tx.q, row.id)
  const { policy = null, by } = wanted
  if (policy === null) await refuseBeyondQuota(tx, row.id, settings.allocationMb)
  const store =
    wanted.storeId === undefined
      ? await deps.stores.ofServer(tx.q, row.id)
      : await deps.stores.find(tx.q, wanted.storeId)
  if (store === undefined) throw new PanelError('BACKUP_STORE_NOT_FOUND', 'There is no such backup store')
  const backupId = newId('bak', deps.clock)
  const name = wanted.name ?? `backup-${tx.now.slice(0, 19).replaceAll(':', '-')}Z`
  const ignored = [...(policy === null && wanted.wholeOnly !== true ? settings.ignored : []), ...(wanted.ignored ?? [])]
  const createdBy = by.userId
  await insertBackup(tx, {
    id: backupId,
    serverId: row.id,
    ownerId: row.id,
    serverName: row.name,
    nodeId: row.nodeId,
    storeId: store.id,
    policyId: policy?.id ?? null,
    name,
    kind: wanted.kind ?? settings.kind,
    compression: wanted.compression ?? settings.compression,
    label: wanted.label ?? null,
    locked: wanted.locked === true ? 1 : 0,
    counts: policy === null ? 1 : 0,
    status: 'pending',
    error: null,
    ignored: JSON.stringify([...new Set(ignored)]),
    databases: '[]',
    problems: '[]',
    problemCount: 0,
    entries: null,
    bytes: null,
    storedBytes: null,
    sha256: null,
    jobId: null,
    createdBy,
    startedAt: null,
    completedAt: null,
    restoredAt: null,
    verifiedAt: null,
    damage: null,
    createdAt: tx.now,
    updatedAt: tx.now,
  })
  const input = {
    serverId: row.id,
    backupId,
    name,
    lane: await laneFor(tx, row.nodeId, row.id),
    databases: wanted.databases ?? settings.databases,
    whole: wanted.wholeOnly === true,
    allocationMb: policy?.allocationMb ?? null,
  }
  const jobId = await deps.jobs.queue.add(tx, CREATE_BACKUP, {
    input,
    cause: wanted.cause,
    serverId: row.id,
    nodeId: row.nodeId,
    key: `${CREATE_BACKUP.kind} ${backupId}`,
    ...(wanted.parentId === undefined ? {} : { parentId: wanted.parentId }),
    onBehalfOf: by.caller,
  })
  if (jobId === undefined) throw new Error('a job of a new key was not added')
  await setBackup(tx, backupId, { jobId })
  const data = { backupId, backupName: name, backupServerId: row.id, createdBy }
  await announce(tx, deps, { type: 'backup_created', data })
  return { backupId, name, jobId }
}

async function refuseBeyondQuota(tx: Tx, serverId: string, allocationMb: number | null): Promise<void> {
  if (allocationMb === null) return
  if (allocationMb === 0) throw new PanelError('BACKUP_DISABLED', 'This server may have no backups')
  const used = await storedBytesOf(tx.q, { serverId, policyId: null })
  if (used < allocationMb * MIB) return
  const message = `The backups of this server take ${Math.ceil(used / MIB)} of ${allocationMb} MiB; delete some first`
  throw new PanelError('BACKUP_QUOTA_EXCEEDED', message, {
    meta: { limitMb: allocationMb, usedMb: Math.ceil(used / MIB) },
  })
}
