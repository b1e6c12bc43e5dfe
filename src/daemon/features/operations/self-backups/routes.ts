import { join } from 'node:path'
import * as api from '../../../../shared/api/self-backups.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { transact } from '../../../access/operation.ts'
import type { Queries } from '../../../db/db.ts'
import { type Route, route } from '../../../http/route.ts'
import { findStore, type StoreRow } from '../stores/rows.ts'
import { clearFolder } from './archive.ts'
import { examineBackup } from './backup-file.ts'
import { removeBackup } from './create-job.ts'
import type { SelfBackupDeps } from './deps.ts'
import * as operations from './operations.ts'
import { placeIn } from './places.ts'
import * as rows from './rows.ts'

/** The routes of backups of the panel itself. */
export function selfBackupRoutes(deps: SelfBackupDeps): Route[] {
  const { db } = deps
  let checks = 0
  return [
    route(api.listSelfBackups, async ({ query }) => {
      const { items, total } = await rows.listBackups(db.read, query)
      const stores = new Map<string, StoreRow>()
      for (const { storeId } of items) {
        if (!stores.has(storeId)) stores.set(storeId, await storeOf(db.read, storeId))
      }
      return { items: items.map((row) => operations.shown(deps, row, found(stores.get(row.storeId)))), total }
    }),
    route(api.getSelfBackup, async ({ params }, context) => {
      const row = await rows.findBackup(db.read, params.selfBackupId)
      if (row === undefined) return context.fail('SELF_BACKUP_NOT_FOUND', operations.GONE)
      return operations.shown(deps, row, await storeOf(db.read, row.storeId))
    }),
    route(api.createSelfBackup, async (input, { principal }) => {
      const sealed = await operations.sealOwnKey(deps, input.body.passphrase)
      return transact(operations.createSelfBackup, { deps: { ...deps, sealed }, principal, input })
    }),
    route(api.deleteSelfBackup, async (input, { principal, signal }) => {
      const row = await goodBackup(db.read, input.params.selfBackupId, ['completed', 'failed'])
      await removeBackup(deps, row, signal)
      return transact(operations.deleteSelfBackup, { deps: { ...deps, sealed: undefined }, principal, input })
    }),
    route(api.verifySelfBackup, async ({ params }, { signal }) => {
      const row = await goodBackup(db.read, params.selfBackupId)
      const place = placeIn(await storeOf(db.read, row.storeId), deps)
      checks += 1
      const folder = join(deps.workDir, `check-${checks}`)
      try {
        const { sha256 } = await examineBackup(await place.read(row.name, null, signal), folder, signal)
        if (sha256 === row.sha256) return { ok: true, problem: null }
        return {
          ok: false,
          problem: 'It is a backup of a panel, but not the one that was made: its hash is another one',
        }
      } catch (error) {
        signal.throwIfAborted()
        const isDamage = error instanceof PanelError && DAMAGED.has(String(error.meta['reason'] ?? error.code))
        if (!isDamage) throw error
        return { ok: false, problem: error.message }
      } finally {
        await clearFolder(folder)
      }
    }),
    route(api.downloadSelfBackup, async ({ params }, { principal, signal }) => {
      const row = await goodBackup(db.read, params.selfBackupId)
      const place = placeIn(await storeOf(db.read, row.storeId), deps)
      await operations.recordDownload(deps, principal, row)
      return {
        contentType: 'application/gzip',
        fileName: row.name,
        size: row.bytes,
        etag: row.sha256,
        read: (range) => place.read(row.name, range, signal),
      }
    }),
    route(api.getSelfBackupSchedule, () => operations.schedule(db.read, deps)),
    route(api.setSelfBackupSchedule, async (input, { principal }) => {
      const sealed = await operations.sealOwnKey(deps, input.body.passphrase)
      return transact(operations.setSelfBackupSchedule, { deps: { ...deps, sealed }, principal, input })
    }),
  ]
}

/** What says that the archive is not whole, or not there any more; anything else says nothing of it. */
const DAMAGED = new Set(['VALIDATION_ERROR', 'NOT_FOUND', 'missing'])

async function goodBackup(
  q: Queries,
  id: string,
  statuses: readonly rows.SelfBackupRow['status'][] = ['completed'],
): Promise<rows.SelfBackupRow> {
  const row = await rows.findBackup(q, id)
  if (row === undefined) throw new PanelError('SELF_BACKUP_NOT_FOUND', operations.GONE)
  if (statuses.includes(row.status)) return row
  const what =
    row.status === 'pending' ? 'is still being made; cancel its job, or wait' : 'has failed: there is nothing'
  throw new PanelError('SELF_BACKUP_NOT_READY', `This backup ${what}`, { meta: { jobId: row.jobId } })
}

async function storeOf(q: Queries, id: string): Promise<StoreRow> {
  return found(await findStore(q, id))
}

/** A store that a backup refers to cannot be removed. */
function found(store: StoreRow | undefined): StoreRow {
  if (store !== undefined) return store
  throw new Error('the store of a self-backup is gone')
}
