import * as api from '../../../../shared/api/self-backups.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import { changes } from '../../../access/audit.ts'
import { operationsOver, type Principal, recordChange } from '../../../access/operation.ts'
import { checkCron } from '../../../core/cron.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { findByRef, findStore, type StoreRow } from '../stores/rows.ts'
import { addBackup, forget } from './create-job.ts'
import type { SelfBackupDeps } from './deps.ts'
import { placeIn } from './places.ts'
import { findBackup, type SelfBackupRow } from './rows.ts'
import { nextTime, reschedule, scheduledStore } from './schedule.ts'
import { fingerprintOf, type SealedKey, sealKey } from './sealed-key.ts'
import { present } from './view.ts'

export const GONE = 'There is no backup of the panel with this id'
const NO_STORE = 'There is no backup store with this id'

/** What is done before the transaction of a change, because it takes half a second: the credential key is sealed. */
export type WithKey = SelfBackupDeps & { readonly sealed: SealedKey | undefined }

const operation = operationsOver<WithKey>()

export const createSelfBackup = operation(
  api.createSelfBackup,
  async ({ tx, deps, caller, fail }, { body: { storeId } }) => {
    const named = storeId === undefined ? await scheduledStore(deps) : await findStore(tx.q, storeId)
    const store = named ?? fail('BACKUP_STORE_NOT_FOUND', NO_STORE)
    const { id, jobId } = await addBackup(tx, deps, { store, cause: 'manual', key: deps.sealed, keep: null, caller })
    const row = await findBackup(tx.q, id)
    if (row === undefined) throw new Error(`self-backup ${id} is gone within the transaction that wrote it`)
    const details = { name: row.name, store: store.name, includesKey: deps.sealed !== undefined }
    return { answer: { backup: shown(deps, row, store), jobId }, audit: { resourceId: id, details } }
  },
)

/** Removes the row; what lies in the store was removed before. */
export const deleteSelfBackup = operation(
  api.deleteSelfBackup,
  async ({ tx, deps, fail }, { params: { selfBackupId } }) => {
    const row = (await findBackup(tx.q, selfBackupId)) ?? fail('SELF_BACKUP_NOT_FOUND', GONE)
    await forget(tx, deps.bus, row.id)
    return { answer: null, audit: { resourceId: row.id, details: { name: row.name, createdAt: row.createdAt } } }
  },
)

/** Writes down who takes a backup away, before the first byte of it goes. */
export async function recordDownload(
  deps: SelfBackupDeps,
  principal: Principal,
  { id, name }: Pick<SelfBackupRow, 'id' | 'name'>,
): Promise<void> {
  const of = { deps, principal, endpoint: api.downloadSelfBackup }
  await deps.db.write((tx) => recordChange(tx, of, { audit: { resourceId: id, details: { name } } }))
}

export const setSelfBackupSchedule = operation(
  api.setSelfBackupSchedule,
  async ({ tx, deps, fail }, { body: { cron, storeId, keep, passphrase } }) => {
    const { settings } = deps
    const timeZone = settings.get('panel.timezone')
    if (typeof cron === 'string') checkCron({ cron, timeZone }, deps.clock.nowMs())
    if (typeof storeId === 'string' && (await findStore(tx.q, storeId)) === undefined) {
      fail('BACKUP_STORE_NOT_FOUND', NO_STORE)
    }
    const before = await readSchedule(tx, deps)
    const after = {
      cron: cron === undefined ? before.cron : cron,
      storeId: storeId === undefined ? before.storeId : storeId,
      keep: keep ?? before.keep,
    }
    if (after.cron !== before.cron) {
      await settings.set(tx, 'selfBackup.cron', after.cron)
      await reschedule(tx, deps, deps.clock.nowMs())
    }
    if (after.storeId !== before.storeId) await settings.set(tx, 'selfBackup.store', after.storeId)
    if (after.keep !== before.keep) await settings.set(tx, 'selfBackup.keep', after.keep)
    const { cron: _, ...rest } = before
    const details = {
      ...changes({ cron: before.cron, storeId: rest.storeId, keep: rest.keep }, after),
      ...(passphrase === undefined ? {} : await setKey(tx, deps)),
    }
    const includesKey = passphrase === undefined ? before.includesKey : passphrase !== null
    const nextAt = nextTime(
      { get: (key) => (key === 'selfBackup.cron' ? after.cron : settings.get(key)) as never },
      deps.clock.nowMs(),
    )
    const answer = { ...after, storeId: after.storeId as api.SelfBackupSchedule['storeId'], includesKey, nextAt }
    if (Object.keys(details).length === 0) return { answer }
    return { answer, audit: { resourceId: 'self-backup', details } }
  },
)

/** The schedule as this transaction sees it. */
async function readSchedule(tx: Tx, { settings }: WithKey) {
  const named = await settings.read(tx, 'selfBackup.store')
  const store = named === null ? undefined : await findByRef(tx.q, named)
  return {
    cron: await settings.read(tx, 'selfBackup.cron'),
    storeId: store?.id ?? null,
    keep: await settings.read(tx, 'selfBackup.keep'),
    includesKey: (await settings.read(tx, 'install.selfBackupKey')) !== null,
  }
}

async function setKey(tx: Tx, { settings, sealed, credentialKey }: WithKey) {
  const had = (await settings.read(tx, 'install.selfBackupKey')) !== null
  const value =
    sealed === undefined || credentialKey === undefined
      ? null
      : { key: sealed, fingerprint: fingerprintOf(credentialKey) }
  if (!had && value === null) return {}
  await settings.set(tx, 'install.selfBackupKey', value)
  return { passphrase: { before: had ? SECRET_MASK : null, after: value === null ? null : SECRET_MASK } }
}

/** Seals the daemon's credential key; CREDENTIAL_ENCRYPTION_KEY_MISSING where it has none. */
export async function sealOwnKey(
  { credentialKey }: Pick<SelfBackupDeps, 'credentialKey'>,
  passphrase: string | null | undefined,
): Promise<SealedKey | undefined> {
  if (passphrase === null || passphrase === undefined) return undefined
  if (credentialKey !== undefined) return sealKey(passphrase, credentialKey)
  throw new PanelError(
    'CREDENTIAL_ENCRYPTION_KEY_MISSING',
    'This panel has no credential key that a backup could have; leave the passphrase out',
  )
}

/** The schedule as it is answered. */
export async function schedule(q: Queries, { settings, clock }: SelfBackupDeps): Promise<api.SelfBackupSchedule> {
  const named = settings.get('selfBackup.store')
  const store = named === null ? undefined : await findByRef(q, named)
  return {
    cron: settings.get('selfBackup.cron'),
    // The column holds ids that newId or a migration made.
    storeId: (store?.id ?? null) as api.SelfBackupSchedule['storeId'],
    keep: settings.get('selfBackup.keep'),
    includesKey: settings.get('install.selfBackupKey') !== null,
    nextAt: nextTime(settings, clock.nowMs()),
  }
}

/** A row as it is answered. */
export function shown(deps: SelfBackupDeps, row: SelfBackupRow, store: StoreRow): api.SelfBackup {
  return present(row, store, placeIn(store, deps).address(row.name))
}
