import * as api from '../../../../shared/api/backup-stores.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import { type OperationDeps, operationsOver } from '../../../access/operation.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { Settings } from '../../../core/settings.ts'
import { isForeignKeyViolation, type Tx } from '../../../db/db.ts'
import { secretPlace } from './object-stores.ts'
import * as rows from './rows.ts'
import { present } from './view.ts'

/** What the operations of backup stores need. */
export interface StoreDeps extends OperationDeps {
  readonly clock: Clock
  readonly vault: Vault
  readonly settings: Settings
}

export const GONE = 'There is no backup store with this id'

const operation = operationsOver<StoreDeps>()

type Given = Omit<Input<typeof api.createBackupStore>['body'], 'name' | 'kind' | 'isDefault' | 'secretAccessKey'>

export const createBackupStore = operation(api.createBackupStore, async ({ tx, deps, userId }, { body }) => {
  const { name, kind, isDefault, secretAccessKey, ...given } = body
  const settings = settingsFrom(kind, given)
  if (kind === 's3' && secretAccessKey === undefined) throw fieldError('body.secretAccessKey', 'is needed')
  refuseForeignFields(kind, body)
  await refuseTakenName(tx, name)
  const id = newId('bst', deps.clock)
  const secret = secretAccessKey === undefined ? null : deps.vault.seal(secretPlace(id), secretAccessKey)
  const stamps = { createdAt: tx.now, updatedAt: tx.now }
  await tx.q
    .insertInto('backupStore')
    .values({ id, name, kind, settings: JSON.stringify(settings), secret, ...stamps })
    .execute()
  if (isDefault === true) await deps.settings.set(tx, 'backups.defaultStore', id)
  return {
    answer: await presentIn(tx, deps.settings, id),
    audit: {
      resourceId: id,
      details: {
        name,
        kind,
        ...settings,
        ...(secret === null ? {} : { secretAccessKey: SECRET_MASK }),
        isDefault: isDefault === true,
      },
    },
    events: [{ type: 'backup_store_created', data: { storeId: id, storeName: name, createdBy: userId } }],
  }
})

export const updateBackupStore = operation(
  api.updateBackupStore,
  async ({ tx, deps, userId, fail }, { params: { storeId }, body }) => {
    const before = (await rows.findCounted(tx.q, storeId)) ?? fail('BACKUP_STORE_NOT_FOUND', GONE)
    const { name = before.name, isDefault, secretAccessKey, ...given } = body
    refuseForeignFields(before.kind, body)
    if (before.id === rows.LOCAL_STORE && (name !== before.name || (given.folder ?? null) !== null)) {
      fail(
        'BACKUP_STORE_IN_USE',
        'The built-in store keeps its name and its folder; add a store of the kind local for another folder',
      )
    }
    if (name !== before.name) await refuseTakenName(tx, name, storeId)
    const known = rows.settingsOf(before)
    const settings = settingsFrom(before.kind, { ...known, ...withoutUndefined(given) })
    const moved = LYING_BY.filter((field) => Reflect.get(known, field) !== Reflect.get(settings, field))
    const backups = Number(before.serverBackups) + Number(before.selfBackups)
    if (moved.length > 0 && backups > 0) {
      const why = `${before.name} holds ${backups} backups, which would not be found any more with another ${moved.join(' and ')}`
      fail('BACKUP_STORE_IN_USE', `${why}; add another store`, { backupCount: backups })
    }
    const secret = newSecret(deps.vault, before, secretAccessKey)
    const wasDefault = (await defaultIdOf(tx, deps.settings)) === storeId
    const { kind: _, ...old } = known
    const details = {
      ...changes({ ...old, name: before.name }, { ...settings, name }),
      ...(secret === undefined ? {} : { secretAccessKey: { before: SECRET_MASK, after: SECRET_MASK } }),
      ...(isDefault === undefined || isDefault === wasDefault
        ? {}
        : { isDefault: { before: wasDefault, after: isDefault } }),
    }
    if (Object.keys(details).length === 0) return { answer: await presentIn(tx, deps.settings, storeId) }
    await tx.q
      .updateTable('backupStore')
      .set({ name, settings: JSON.stringify(settings), ...(secret === undefined ? {} : { secret }), updatedAt: tx.now })
      .where('id', '=', storeId)
      .execute()
    if (isDefault === true && !wasDefault) await deps.settings.set(tx, 'backups.defaultStore', storeId)
    if (isDefault === false && wasDefault) await deps.settings.set(tx, 'backups.defaultStore', null)
    return {
      answer: await presentIn(tx, deps.settings, storeId),
      audit: { resourceId: storeId, details },
      events: [{ type: 'backup_store_updated', data: { storeId, storeName: name, updatedBy: userId } }],
    }
  },
)

export const deleteBackupStore = operation(
  api.deleteBackupStore,
  async ({ tx, deps, userId, fail }, { params: { storeId } }) => {
    const row = (await rows.findCounted(tx.q, storeId)) ?? fail('BACKUP_STORE_NOT_FOUND', GONE)
    if (storeId === rows.LOCAL_STORE) fail('BACKUP_STORE_IN_USE', 'The built-in store is always there')
    if ((await defaultIdOf(tx, deps.settings)) === storeId) {
      fail('BACKUP_STORE_IN_USE', `${row.name} is the default store; make another one the default first`)
    }
    await tx.q
      .deleteFrom('backupStore')
      .where('id', '=', storeId)
      .execute()
      .catch((error: unknown) => {
        if (!isForeignKeyViolation(error)) throw error
        const uses = usesOf(row)
        return fail('BACKUP_STORE_IN_USE', `${row.name} is used by ${uses.join(', ')}; change or delete these first`)
      })
    return {
      answer: null,
      audit: { resourceId: storeId, details: { name: row.name } },
      events: [{ type: 'backup_store_deleted', data: { storeId, storeName: row.name, deletedBy: userId } }],
    }
  },
)

export const setBackupStoreDefault = operation(
  api.setBackupStoreDefault,
  async ({ tx, deps, userId, fail }, { body }) => {
    const { scope, id, storeId } = body
    const store = storeId === null ? undefined : await rows.findStore(tx.q, storeId)
    if (storeId !== null && store === undefined) fail('BACKUP_STORE_NOT_FOUND', GONE)
    // What goes back to what is above it goes, in the end, to the store that is always there.
    const resourceId = storeId ?? rows.LOCAL_STORE
    const data = { storeId: resourceId, storeName: store?.name ?? 'local', updatedBy: userId }
    const events = [{ type: 'backup_store_updated', data }] as const
    if (scope === 'panel') {
      if (id !== undefined) throw fieldError('body.id', 'is not for the panel itself')
      const before = await deps.settings.read(tx, 'backups.defaultStore')
      if (before === storeId) return { answer: null }
      await deps.settings.set(tx, 'backups.defaultStore', storeId)
      return { answer: null, audit: { resourceId, details: { scope, storeId: { before, after: storeId } } }, events }
    }
    if (id === undefined) throw fieldError('body.id', `is needed for a ${scope}`)
    const before = await rows.defaultOf(tx.q, scope, id)
    if (before === undefined) fail(NOT_FOUND[scope], `There is no ${scope} with this id`)
    if (before?.backupStoreId === storeId) return { answer: null }
    await tx.q.updateTable(scope).set({ backupStoreId: storeId, updatedAt: tx.now }).where('id', '=', id).execute()
    const change = { before: before?.backupStoreId ?? null, after: storeId }
    return { answer: null, audit: { resourceId, details: { scope, id, storeId: change } }, events }
  },
)

const NOT_FOUND = { location: 'LOCATION_NOT_FOUND', node: 'NODE_NOT_FOUND', server: 'SERVER_NOT_FOUND' } as const

/** Fields that say where backups lie within what the store is. */
const LYING_BY = ['folder', 'bucket', 'prefix'] as const
const OF_KIND = {
  local: ['folder'],
  s3: ['endpoint', 'region', 'bucket', 'prefix', 'pathStyle', 'accessKeyId', 'secretAccessKey'],
} as const

function refuseForeignFields(kind: api.BackupStoreKind, body: Readonly<Record<string, unknown>>): void {
  for (const field of OF_KIND[kind === 's3' ? 'local' : 's3']) {
    if ((body[field] ?? undefined) !== undefined)
      throw fieldError(`body.${field}`, `is not for stores of the kind ${kind}`)
  }
}

function settingsFrom(kind: api.BackupStoreKind, given: Given): rows.LocalSettings | rows.S3Settings {
  if (kind === 'local') return { folder: given.folder ?? null }
  const { endpoint, bucket, accessKeyId, region = 'us-east-1', prefix = '' } = given
  if (endpoint === undefined) throw fieldError('body.endpoint', 'is needed')
  if (bucket === undefined) throw fieldError('body.bucket', 'is needed')
  if (accessKeyId === undefined) throw fieldError('body.accessKeyId', 'is needed')
  if (!URL.canParse(endpoint)) throw fieldError('body.endpoint', 'must be a URL without a path')
  const { hostname } = new URL(endpoint)
  const { pathStyle = !/\.amazonaws\.com(\.cn)?$/i.test(hostname) } = given
  return { endpoint: new URL(endpoint).origin, region, bucket, prefix, pathStyle, accessKeyId }
}

/** The new secret sealed; `undefined` when it stays. */
function newSecret(vault: Vault, { id, secret }: rows.StoreRow, given: string | undefined): string | undefined {
  if (given === undefined || given === SECRET_MASK) return undefined
  try {
    if (secret !== null && vault.open(secretPlace(id), secret) === given) return undefined
  } catch (error) {
    // Without a key nothing can be sealed either; one that another key has sealed must be replaceable.
    if (error instanceof PanelError) throw error
  }
  return vault.seal(secretPlace(id), given)
}

/** Names that differ in case alone count as one. */
async function refuseTakenName(tx: Tx, name: string, besideId = ''): Promise<void> {
  if (!(await rows.hasNamesake(tx.q, name, besideId))) return
  throw new PanelError('BACKUP_STORE_NAME_TAKEN', `There is a backup store named ${name} already`)
}

function usesOf(row: rows.CountedStore): string[] {
  const counts = [
    [row.serverBackups, 'backups of servers'],
    [row.selfBackups, 'backups of the panel'],
    [row.policies, 'backup policies'],
    [row.locations, 'locations'],
    [row.nodes, 'nodes'],
    [row.servers, 'servers'],
  ] as const
  const found = counts.filter(([count]) => Number(count) > 0).map(([count, what]) => `${count} ${what}`)
  return found.length === 0 ? ['something else'] : found
}

/** The id of the default store as this transaction sees it; '' where the setting names none that there is. */
async function defaultIdOf(tx: Tx, settings: Settings): Promise<string> {
  const named = await settings.read(tx, 'backups.defaultStore')
  return (await rows.findByRef(tx.q, named ?? rows.LOCAL_STORE))?.id ?? ''
}

async function presentIn(tx: Tx, settings: Settings, id: string): Promise<api.BackupStore> {
  const row = await rows.findCounted(tx.q, id)
  if (row === undefined) throw new Error(`backup store ${id} is gone within the transaction that wrote it`)
  return present(row, await defaultIdOf(tx, settings))
}

function withoutUndefined<T extends object>(given: T): Partial<T> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Partial<T> // its own fields
}
