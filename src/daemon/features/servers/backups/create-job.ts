import { z } from 'zod'
import type { BackedUpDatabase } from '../../../../shared/api/backups.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import * as protocol from '../../../../shared/protocol/backups.ts'
import type { ResultOf } from '../../../../shared/protocol/define.ts'
import type { Tx } from '../../../db/db.ts'
import { defineJob, type JobOf } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { refuseSuspended } from '../servers/orders.ts'
import { findServerRow, type ServerRow } from '../servers/rows.ts'
import { announce } from './announce.ts'
import { type DatabaseDumps, offerDumps } from './database-dumps.ts'
import { cleanUp } from './delete-job.ts'
import type { BackupDeps } from './deps.ts'
import { afterFailure, DAY_MS, keyOf, reasonOf } from './job-ends.ts'
import { POOL } from './lanes.ts'
import { typeAll } from './quiesce.ts'
import { stored, withStore } from './reach-store.ts'
import { resumeLater } from './resume-job.ts'
import { retire } from './retention.ts'
import { findShown, moveBackup, type ShownBackup, setBackup, storedBytesOf } from './rows.ts'
import { settingsOf } from './settings.ts'
import { ignoredOf, withoutDatabase } from './view.ts'

const MIB = 1024 * 1024
/** A backup whose node stays away longer is given up: the server may have changed its place, and a policy makes another one. */
const PATIENCE_MS = DAY_MS
const PROGRESS_MS = 2000
const RESUME_MS = 120_000
/** Problems that a row keeps. */
const MOST_PROBLEMS = 100

/** Makes a backup: the row of it is there, and says `pending` until the node begins. */
export const CREATE_BACKUP = defineJob({
  kind: 'backups.create',
  input: z.object({
    serverId: z.string(),
    backupId: z.string(),
    name: z.string(),
    lane: z.string(),
    databases: z.boolean(),
    /** All of the server, whatever its settings and its `.panelignore` leave out. */
    whole: z.boolean().default(false),
    /** What the backups of the policy that makes it may take; of others the settings of the server say it. */
    allocationMb: z.number().nullable(),
  }),
  /** `quiesced`: the game may hold still for it, and was not yet asked to go on. */
  state: z.object({ quiesced: z.boolean() }),
  first: () => ({ quiesced: false }),
  title: ({ name }) => `Back up ${name}`,
  pool: POOL,
  lane: ({ lane }) => lane,
  ordered: false,
  background: false,
  plan: () => [{ step: 'pack', name: 'pack' }],
  needs: ({ serverId }) => ({ server: serverId, permissions: ['backup.create'] }),
})

type Job = JobOf<z.output<typeof CREATE_BACKUP.input>, z.output<typeof CREATE_BACKUP.state>>
type Packed = ResultOf<typeof protocol.createBackup>
interface Made {
  readonly packed: Packed
  readonly notes: readonly string[]
  readonly databases: readonly BackedUpDatabase[]
}

/** Gives the engine the step of it. */
export function registerCreate(jobs: Pick<Jobs, 'register'>, deps: BackupDeps): void {
  jobs.register(CREATE_BACKUP, {
    steps: {
      pack: {
        timeoutMs: DAY_MS,
        prepare: async () => ({ quiesced: true }),
        run: async ({ job, signal, progress }) => {
          const backup = await findShown(deps.db.read, job.input.backupId)
          if (backup === undefined || backup.status === 'failed') {
            // Asked for again after its end, by which all that it had left was taken away.
            const error = 'The backup has failed, or is gone, and cannot be gone on with: make a new one'
            return async () => ({ after: { kind: 'fail', error, code: 'BACKUP_NOT_READY' } })
          }
          if (!isOpen(backup)) return undefined // it was made in an attempt that was cut off after its end
          try {
            const made = await pack(deps, { job, backup, signal, progress })
            return async (tx) => {
              await completed(tx, deps, backup, made)
              return { state: { quiesced: false } }
            }
          } catch (error) {
            const after = afterFailure(deps, error, signal)
            if (after === undefined) throw error
            const waitedMs = deps.clock.nowMs() - Date.parse(backup.createdAt)
            if (after.kind !== 'again' || waitedMs < PATIENCE_MS) return async () => ({ after })
            const failure = { error: `its node was away for a day`, code: 'NODE_OFFLINE' } as const
            return async () => ({ after: { kind: 'fail', ...failure } })
          }
        },
      },
    },
    ended: async (tx, job, status) => {
      if (status === 'succeeded') return
      const { backupId, serverId } = job.input
      if (job.state.quiesced) await resumeLater(tx, deps, serverId)
      const backup = await findShown(tx.q, backupId)
      if (backup === undefined || !isOpen(backup)) return
      await failed(tx, deps, backup, { error: await reasonOf(tx, job.id, status), isCancelled: status === 'cancelled' })
    },
  })
}

function isOpen({ status }: Pick<ShownBackup, 'status'>): boolean {
  return status === 'pending' || status === 'in_progress'
}

interface Packing {
  readonly job: Job
  readonly backup: ShownBackup
  readonly signal: AbortSignal
  readonly progress: Parameters<Parameters<Jobs['register']>[1]['steps'][string]['run']>[0]['progress']
}

async function pack(deps: BackupDeps, { job, backup, signal, progress }: Packing): Promise<Made> {
  const { db, gateway } = deps
  const row = await findServerRow(db.read, job.input.serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'The server is gone')
  if (backup.policyId === null && backup.counts === 1) refuseSuspended(row)
  if (!gateway.isOnline(row.nodeId)) throw new PanelError('NODE_OFFLINE', `The node ${row.nodeName} is not connected`)
  await begun(deps, backup, row)
  const settings = await settingsOf(db.read, row.id)
  const maxStoredBytes = await roomOf(deps, job, backup, settings.allocationMb)
  const typing = { principal: job.principal, signal }
  const resume = async (): Promise<string[]> => {
    // Also when the backup was cancelled: the game must go on.
    const after = await findServerRow(db.read, row.id)
    const limit = AbortSignal.timeout(RESUME_MS)
    return after === undefined
      ? []
      : await typeAll(deps, after, { ...typing, commands: settings.resume, signal: limit })
  }
  const isLess = job.input.whole && !gateway.can(row.nodeId, 'backups-whole@1')
  let notes: string[] = []
  let dumps: DatabaseDumps | undefined
  try {
    notes = await typeAll(deps, row, { ...typing, commands: settings.quiesce })
    if (isLess) notes.push('What .panelignore names is not in it: the agent of its node is older than this panel')
    dumps = job.input.databases ? await offerDumps(deps, { serverId: row.id, nodeId: row.nodeId, signal }) : undefined
    const extras = dumps?.extras ?? []
    const grant = { nodeId: row.nodeId, ownerId: backup.ownerId, mode: 'write', signal } as const
    const report = reporter(deps, backup, progress)
    const packed = await withStore(deps, backup.storeId, grant, (store) =>
      gateway.request(
        row.nodeId,
        protocol.createBackup,
        {
          serverId: row.id,
          ...stored(backup, store),
          key: keyOf(job.id),
          compression: backup.compression,
          ignored: ignoredOf(backup),
          whole: job.input.whole,
          extras: [...extras],
          about: aboutOf(backup, row, dumps),
          maxStoredBytes,
        },
        { signal, onProgress: report },
      ),
    )
    return { packed, databases: dumps?.done() ?? [], notes: [...notes, ...(dumps?.notes() ?? []), ...(await resume())] }
  } catch (error) {
    if (settings.resume.length > 0) {
      await resume().catch((failure: unknown) => {
        deps.log.warn({ err: failure, serverId: row.id }, 'cannot type the commands after a backup')
      })
    }
    throw dumps?.failure() ?? error
  } finally {
    dumps?.close()
  }
}

/** What the store may take in; throws BACKUP_QUOTA_EXCEEDED where that is nothing. */
async function roomOf(
  { db }: BackupDeps,
  job: Job,
  { serverId, policyId, counts }: ShownBackup,
  allocationMb: number | null,
): Promise<number | null> {
  const most = counts === 1 ? allocationMb : job.input.allocationMb
  if (most === null || serverId === null) return null
  const left = most * MIB - (await storedBytesOf(db.read, { serverId, policyId }))
  if (left > 0) return left
  throw new PanelError('BACKUP_QUOTA_EXCEEDED', `The ${most} MiB that backups of this server may take are used up`)
}

/** What the store alone says of a backup. */
function aboutOf(backup: ShownBackup, row: ServerRow, dumps: DatabaseDumps | undefined): Record<string, unknown> {
  const { name, label, createdAt, locked, counts } = backup
  const server = { serverId: row.id, serverName: row.name, serverUuid: row.uuid, templateName: row.templateName }
  return {
    version: 1,
    name,
    label,
    createdAt,
    locked: locked === 1,
    counts: counts === 1,
    ...server,
    databases: dumps?.databases ?? [],
  }
}

async function begun(deps: BackupDeps, { id, name }: ShownBackup, row: ServerRow): Promise<void> {
  await deps.db.write(async (tx) => {
    const began = { status: 'in_progress', startedAt: tx.now, nodeId: row.nodeId, error: null } as const
    if (!(await moveBackup(tx, id, ['pending'], began))) return
    const data = { backupId: id, backupName: name }
    await announce(tx, deps, { type: 'backup_started', serverId: row.id, data })
  })
}

/** Shows how far it is in the job, and from time to time in the events of the server. */
function reporter(deps: BackupDeps, { id: backupId, serverId }: ShownBackup, progress: Packing['progress']) {
  let shownMs = deps.clock.monotonicMs()
  return ({ entries, bytes, totalBytes }: { entries: number; bytes: number; totalBytes: number | null }): void => {
    progress({ done: bytes, total: totalBytes, unit: 'bytes', text: `${entries} entries` })
    const nowMs = deps.clock.monotonicMs()
    if (serverId === null || nowMs - shownMs < PROGRESS_MS) return
    shownMs = nowMs
    const percent =
      totalBytes === null || totalBytes === 0 ? null : Math.min(100, Math.round((bytes / totalBytes) * 100))
    const data = { backupId, percent, entries, bytes }
    deps.db
      .write((tx) => announce(tx, deps, { type: 'backup_progress', serverId, data }))
      .catch((err: unknown) => deps.log.debug({ err, backupId }, 'cannot announce the progress of a backup'))
  }
}

async function completed(
  tx: Tx,
  deps: BackupDeps,
  backup: ShownBackup,
  { packed, notes, databases }: Made,
): Promise<void> {
  const { entries, bytes, storedBytes, sha256, problems, problemCount } = packed
  const noted = notes.map((reason) => ({ path: '', reason: reason.slice(0, 300) }))
  const kept = [...noted, ...problems].slice(0, MOST_PROBLEMS)
  const facts = { entries, bytes, storedBytes, sha256, problems: JSON.stringify(kept), error: null }
  const done = { ...facts, problemCount: problemCount + noted.length, databases: JSON.stringify(databases) }
  const at = { status: 'completed', completedAt: tx.now } as const
  // Whoever has deleted it meanwhile gets it removed by a job of its own.
  if (!(await moveBackup(tx, backup.id, ['pending', 'in_progress'], { ...done, ...at }))) return
  const { id: backupId, name: backupName, serverId } = backup
  if (serverId === null) return
  const all = { backupId, percent: 100, entries, bytes }
  await announce(tx, deps, { type: 'backup_progress', serverId, data: all })
  const sizeMb = Math.round((storedBytes / MIB) * 100) / 100
  const data = { backupId, backupName, sizeMb, checksum: sha256, status: 'completed' } as const
  await announce(tx, deps, { type: 'backup_complete', serverId, data })
  await retire(tx, deps, serverId)
}

async function failed(
  tx: Tx,
  deps: BackupDeps,
  backup: ShownBackup,
  { error, isCancelled }: { readonly error: string; readonly isCancelled: boolean },
): Promise<void> {
  await setBackup(tx, backup.id, { status: 'failed', error: error.slice(0, 1000) })
  const { id: backupId, name: backupName, serverId } = backup
  await cleanUp(tx, deps, backup)
  if (serverId === null) return
  const data = {
    backupId,
    backupName,
    sizeMb: null,
    checksum: null,
    status: 'failed',
    error: withoutDatabase(error).slice(0, 500),
    ...(isCancelled ? { cancelled: true } : {}),
  } as const
  await announce(tx, deps, { type: 'backup_complete', serverId, data })
}
