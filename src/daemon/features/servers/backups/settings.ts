import type { Selectable } from 'kysely'
import { z } from 'zod'
import { BackupCommand, type BackupSettings, LabelRule } from '../../../../shared/api/backups.ts'
import type { BackupKind, Compression } from '../../../../shared/protocol/backups.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import type { Schema } from '../../../db/schema.ts'
import { storedBytesOf } from './rows.ts'
import type { BackupStores } from './stores.ts'
import { mib } from './view.ts'

/** How the backups of a server are made and kept. */
export interface ServerBackupSettings {
  readonly kind: BackupKind
  readonly compression: Compression
  readonly retentionCount: number
  readonly retentionDays: number
  readonly labels: readonly LabelRule[]
  readonly ignored: readonly string[]
  readonly quiesce: readonly BackupCommand[]
  readonly resume: readonly BackupCommand[]
  readonly databases: boolean
  readonly allocationMb: number | null
}

const DEFAULTS: ServerBackupSettings = {
  kind: 'archive',
  compression: 'gzip',
  retentionCount: 0,
  retentionDays: 0,
  labels: [],
  ignored: [],
  quiesce: [],
  resume: [],
  databases: false,
  allocationMb: null,
}

const Labels = z.array(LabelRule)
const Commands = z.array(BackupCommand)
const Texts = z.array(z.string())

/** The settings of a server; the defaults where it has none. */
export async function settingsOf(q: Queries, serverId: string): Promise<ServerBackupSettings> {
  const row = await q.selectFrom('backupSettings').selectAll().where('serverId', '=', serverId).executeTakeFirst()
  return row === undefined ? DEFAULTS : fromRow(row)
}

function fromRow(row: Selectable<Schema['backupSettings']>): ServerBackupSettings {
  const { kind, compression, retentionCount, retentionDays, allocationMb } = row
  return {
    ...{ kind, compression, retentionCount, retentionDays, allocationMb },
    labels: parseJson(Labels, row.labels),
    ignored: parseJson(Texts, row.ignored),
    quiesce: parseJson(Commands, row.quiesce),
    resume: parseJson(Commands, row.resume),
    databases: row.databases === 1,
  }
}

/** Writes them. */
export async function keepSettings(tx: Tx, serverId: string, settings: ServerBackupSettings): Promise<void> {
  const { kind, compression, retentionCount, retentionDays, allocationMb } = settings
  const row = {
    ...{ kind, compression, retentionCount, retentionDays, allocationMb },
    labels: JSON.stringify(settings.labels),
    ignored: JSON.stringify(settings.ignored),
    quiesce: JSON.stringify(settings.quiesce),
    resume: JSON.stringify(settings.resume),
    databases: settings.databases ? (1 as const) : (0 as const),
    updatedAt: tx.now,
  }
  await tx.q
    .insertInto('backupSettings')
    .values({ serverId, ...row })
    .onConflict((conflict) => conflict.column('serverId').doUpdateSet(row))
    .execute()
}

/** The settings as the API answers them. */
export async function toSettings(q: Queries, stores: BackupStores, serverId: string): Promise<BackupSettings> {
  const { quiesce, resume, allocationMb, labels, ignored, ...settings } = await settingsOf(q, serverId)
  const own = await q.selectFrom('server').select('backupStoreId').where('id', '=', serverId).executeTakeFirst()
  const store = await stores.ofServer(q, serverId)
  return {
    ...settings,
    storeId: (own?.backupStoreId ?? null) as BackupSettings['storeId'],
    effectiveStoreId: store.id as BackupSettings['effectiveStoreId'], // rows hold ids that were checked
    effectiveStoreName: store.name,
    storageMode: store.kind,
    labels: [...labels],
    ignored: [...ignored],
    quiesceCommands: [...quiesce],
    resumeCommands: [...resume],
    backupAllocationMb: allocationMb,
    usedMb: mib(await storedBytesOf(q, { serverId, policyId: null })),
  }
}
