import * as api from '../../../../shared/api/backups.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { ACTION_GATES } from '../../../../shared/kernel/server-life.ts'
import { changes } from '../../../access/audit.ts'
import { operationsOver, type Work } from '../../../access/operation.ts'
import { type Holder, permitServer } from '../../../access/permit.ts'
import type { Tx } from '../../../db/db.ts'
import { refuseUnmanaged } from '../databases/change.ts'
import { deniedTo, refuseDenied } from '../files/denied-files.ts'
import { offline, refuseSuspended } from '../servers/orders.ts'
import { findServerRow, type ServerRow } from '../servers/rows.ts'
import { statusOf } from '../servers/view.ts'
import { cleanUp, forget, startDelete } from './delete-job.ts'
import type { BackupDeps } from './deps.ts'
import { backupOf, refuseUnready } from './find.ts'
import { refuseHeld } from './held.ts'
import { laneFor } from './lanes.ts'
import { addBackup, type NewBackup } from './new-backup.ts'
import { PRUNE_STORE } from './prune-job.ts'
import { checkCommands } from './quiesce.ts'
import { beginRestore, RESTORE_BACKUP, refuseRunning } from './restore-job.ts'
import { outlivedOf } from './retention.ts'
import { findShown, type ShownBackup, setBackup } from './rows.ts'
import { keepSettings, settingsOf, toSettings } from './settings.ts'
import { sightOf, sightOfAll } from './sight.ts'
import { VERIFY_BACKUP } from './verify-job.ts'
import { databasesOf, shownTo, toStarted } from './view.ts'

const operation = operationsOver<BackupDeps>()

const NO_SERVER = 'There is no such server'
const NO_BACKUP = 'There is no such backup'

/** The server, when its backups may be changed; throws SERVER_NOT_FOUND and SERVER_SUSPENDED. */
async function serverOf(tx: Tx, serverId: string): Promise<ServerRow> {
  const row = await findServerRow(tx.q, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', NO_SERVER)
  refuseSuspended(row)
  return row
}

export const createBackup = operation(api.createBackup, (work, { params: { serverId }, body }) =>
  requestBackup(work.tx, work.deps, serverId, { ...body, by: work, cause: 'backup' }),
)

/** Has a backup of a server made now, for the endpoint and for steps of schedules; throws what the endpoint refuses. */
export async function requestBackup(tx: Tx, deps: BackupDeps, serverId: string, wanted: NewBackup) {
  const row = await serverOf(tx, serverId)
  const status = statusOf(row)
  if (row.installed === 0 || row.deletingAt !== null || row.activity !== null) {
    const message = `A server that is ${status} cannot be backed up; wait until it is done`
    throw new PanelError('SERVER_INVALID_STATE', message, {
      meta: { currentStatus: status, allowed: [...ACTION_GATES.stop, 'stopped', 'crashed'] },
    })
  }
  if (!deps.gateway.isOnline(row.nodeId)) throw offline(row)
  const { backupId, name, jobId } = await addBackup(tx, deps, row, wanted)
  const details = { name, serverId, jobId, ...(wanted.label == null ? {} : { label: wanted.label }) }
  return {
    answer: toStarted({ id: backupId, name, status: 'pending' }, jobId),
    audit: { resourceId: backupId, details },
  }
}

export const updateBackup = operation(
  api.updateBackup,
  async ({ tx, holder }, { params: { serverId, backupId }, body }) => {
    await serverOf(tx, serverId)
    const backup = await backupOf(tx.q, serverId, backupId)
    const { name = backup.name, label = backup.label } = body
    const locked = body.locked === undefined ? backup.locked : body.locked ? 1 : 0
    if (locked !== backup.locked) refuseHosts(holder, backup)
    await setBackup(tx, backupId, { name, label, locked })
    const after = await backupOf(tx.q, serverId, backupId)
    const seen = ({ name, label, locked }: ShownBackup) => ({ name, label, locked: locked === 1 })
    const changed = changes(seen(backup), seen(after))
    return {
      answer: shownTo(await sightOf({ q: tx.q, now: tx.now }, holder, serverId), after),
      ...(changed === undefined ? {} : { audit: { resourceId: backupId, details: { serverId, ...changed } } }),
    }
  },
)

export const deleteBackup = operation(api.deleteBackup, async (work, { params: { serverId, backupId } }) => {
  const { tx, deps, holder } = work
  await serverOf(tx, serverId)
  const backup = await backupOf(tx.q, serverId, backupId)
  refuseHosts(holder, backup)
  return await removal(work, deps, backup, false)
})

export const deleteAnyBackup = operation(
  api.deleteAnyBackup,
  async (work, { params: { backupId }, query: { force } }) => {
    const { tx, deps } = work
    const backup = await findShown(tx.q, backupId)
    if (backup === undefined) return work.fail('BACKUP_NOT_FOUND', NO_BACKUP)
    if (!force) return await removal(work, deps, backup, true)
    refuseLocked(backup)
    const open = await openJobOf(tx, backup)
    if (open !== undefined) {
      return work.fail('CONFLICT', `A job about this backup is open; cancel it first: panel jobs cancel ${open}`)
    }
    await forget(tx, deps, backup, work.userId)
    return {
      answer: toStarted({ ...backup, status: 'deleting' }, null),
      audit: { resourceId: backupId, details: { name: backup.name, serverId: backup.serverId, force } },
    }
  },
)

async function openJobOf(tx: Tx, { jobId }: ShownBackup): Promise<string | undefined> {
  if (jobId === null) return undefined
  const job = await tx.q
    .selectFrom('job')
    .select('id')
    .where('id', '=', jobId)
    .where('endedAt', 'is', null)
    .executeTakeFirst()
  return job?.id
}

/** What a policy has made is the host's, who pays for it and goes back to it: members neither lock nor delete it. */
function refuseHosts(holder: Holder, { policyId, counts, name }: ShownBackup): void {
  if ((policyId === null && counts === 1) || grants(holder.permissions, 'admin.write')) return
  throw new PanelError(
    'PERMISSION_DENIED',
    `The backup ${name} was made by a policy of the host, who alone locks, unlocks and deletes it`,
    { meta: { missing: ['admin.write'] } },
  )
}

function refuseLocked({ locked, name }: ShownBackup): void {
  if (locked === 1) throw new PanelError('BACKUP_LOCKED', `The backup ${name} is locked; unlock it first`)
}

/** A failed one is only forgotten, with what may be left of it. */
async function removal(
  { tx, userId, caller }: Pick<Work<typeof api.deleteBackup, BackupDeps>, 'tx' | 'userId' | 'caller'>,
  deps: BackupDeps,
  backup: ShownBackup,
  asAdmin: boolean,
) {
  refuseLocked(backup)
  const audit = { resourceId: backup.id, details: { name: backup.name, serverId: backup.serverId } }
  if (backup.status === 'deleting') return { answer: toStarted(backup, backup.jobId) }
  if (backup.status === 'failed') {
    await cleanUp(tx, deps, backup)
    await forget(tx, deps, backup, userId)
    return { answer: toStarted({ ...backup, status: 'deleting' }, null), audit }
  }
  refuseUnready(backup)
  const jobId = await startDelete(tx, deps, backup, { by: { userId, caller }, cause: 'backup', asAdmin })
  return { answer: toStarted({ ...backup, status: 'deleting' }, jobId), audit }
}

export const restoreBackup = operation(api.restoreBackup, async (work, { params, body }) => {
  const { tx, deps, holder } = work
  const source = await serverOf(tx, params.serverId)
  const backup = await backupOf(tx.q, source.id, params.backupId)
  const { toServerId = params.serverId, paths = null, replace, preBackup, files } = body
  const keepOthers = body.truncate === undefined ? body.keepOthers : !body.truncate
  if (body.databaseMap !== undefined && !body.databases) {
    throw fieldError('body.databaseMap', 'is for databases that are restored; give databases as well')
  }
  if (body.forceDatabases && !body.databases) {
    throw fieldError('body.forceDatabases', 'is for databases that are restored; give databases as well')
  }
  if (!files && (paths !== null || keepOthers)) {
    const field = paths === null ? (body.truncate === undefined ? 'keepOthers' : 'truncate') : 'paths'
    throw fieldError(`body.${field}`, 'is for files that are restored, and files is false')
  }
  if (toServerId !== params.serverId) {
    await permitTarget(tx, holder, toServerId)
    // What is restored to another server is read there.
    await permitServer({ q: tx.q, now: tx.now }, holder, source.id, ['backup.read'])
  }
  // Databases are replaced as a whole by whoever could do so with their passwords, and what was in them is read where they go.
  if (body.databases) {
    for (const serverId of new Set([source.id, toServerId])) {
      await permitServer({ q: tx.q, now: tx.now }, holder, serverId, ['database.read'])
    }
  }
  for (const serverId of new Set([source.id, toServerId])) await refuseHeld(tx, holder, serverId)
  refuseUnready(backup)
  const target = toServerId === source.id ? source : await serverOf(tx, toServerId)
  for (const path of paths ?? []) {
    refuseDenied(source, path, holder)
    refuseDenied(target, path, holder)
  }
  if (files && paths === null) refuseRunning(target)
  if (target.deletingAt !== null) return work.fail('SERVER_INVALID_STATE', 'The server is being deleted')
  if (files && !deps.gateway.isOnline(target.nodeId)) throw offline(target)
  const databases = body.databases ? await databasesFor(tx, { backup, target, ...body }) : []
  if (!files && databases.length === 0) {
    return work.fail('CONFLICT', 'Neither files nor databases are asked for, or the backup has no databases')
  }
  const input = {
    backupId: backup.id,
    name: backup.name,
    lane: await laneFor(tx, target.nodeId, target.id),
    serverId: target.id,
    ...{ paths, replace, keepOthers, preBackup, files, databases },
    denied: [...new Set([...deniedTo(source, holder), ...deniedTo(target, holder)])],
  }
  const jobId = await deps.jobs.queue.add(tx, RESTORE_BACKUP, {
    input,
    cause: 'restore',
    serverId: target.id,
    nodeId: target.nodeId,
    key: `${RESTORE_BACKUP.kind} ${target.id}`,
    onBehalfOf: work.caller,
  })
  if (jobId === undefined) return work.fail('CONFLICT', 'A backup is being restored to this server already')
  await beginRestore(tx, deps, backup, { jobId, serverId: target.id })
  const names = paths === null ? {} : { paths: paths.slice(0, 50), pathCount: paths.length }
  const details = {
    serverId: source.id,
    toServerId: target.id,
    name: backup.name,
    jobId,
    ...names,
    keepOthers,
    preBackup,
  }
  return {
    answer: toStarted({ ...backup, status: 'restoring' }, jobId),
    audit: { resourceId: backup.id, details: { ...details, databases: databases.map(({ name }) => name) } },
  }
})

/** Who may not see a server does not learn that there is one. */
async function permitTarget(tx: Tx, holder: Holder, serverId: string): Promise<void> {
  const at = { q: tx.q, now: tx.now }
  try {
    await permitServer(at, holder, serverId, ['server.read'])
  } catch {
    throw new PanelError('SERVER_NOT_FOUND', NO_SERVER)
  }
  await permitServer(at, holder, serverId, ['backup.restore'])
}

/** Which dump goes into which database of the server: by its name, or as the caller says. */
async function databasesFor(
  tx: Tx,
  {
    backup,
    target,
    databaseMap: map = {},
    forceDatabases,
  }: Pick<Input<typeof api.restoreBackup>['body'], 'databaseMap' | 'forceDatabases'> & {
    readonly backup: ShownBackup
    readonly target: ServerRow
  },
): Promise<{ name: string; databaseId: string }[]> {
  const rows = await tx.q
    .selectFrom('serverDatabase')
    .innerJoin('databaseHost', 'databaseHost.id', 'serverDatabase.hostId')
    .select(['serverDatabase.id', 'serverDatabase.name', 'serverDatabase.managed', 'databaseHost.engine'])
    .where('serverDatabase.serverId', '=', target.id)
    .where('serverDatabase.state', '=', 'ready')
    .execute()
  const named = Object.keys(map)
  const kept = databasesOf(backup).filter(({ name }) => named.length === 0 || named.includes(name))
  const unknown = named.find((name) => !kept.some((one) => one.name === name))
  if (unknown !== undefined)
    throw new PanelError('DATABASE_NOT_FOUND', `The backup has no database ${unknown.slice(0, 64)}`)
  return kept.map(({ name, engine }) => {
    const into = rows.find((row) => (map[name] === undefined ? row.name === name : row.id === map[name]))
    if (into === undefined) {
      const how = 'make one, and name it for the dump (databaseMap)'
      throw new PanelError(
        'DATABASE_NOT_FOUND',
        `The server ${target.name} has no database for the dump of ${name}; ${how}`,
      )
    }
    if (into.engine !== engine) {
      throw new PanelError(
        'DATABASE_NOT_FOUND',
        `The dump of ${name} is of ${engine}, and ${into.name} is of ${into.engine}`,
      )
    }
    if (!forceDatabases) refuseUnmanaged(into, 'what is written there from elsewhere would be replaced')
    return { name, databaseId: into.id }
  })
}

export const verifyBackup = operation(api.verifyBackup, async (work, { params: { serverId, backupId }, body }) => {
  const { tx, deps } = work
  if ((await findServerRow(tx.q, serverId)) === undefined) return work.fail('SERVER_NOT_FOUND', NO_SERVER)
  const backup = await backupOf(tx.q, serverId, backupId)
  refuseUnready(backup)
  const lane = await laneFor(tx, backup.nodeId ?? backup.storeId, serverId)
  const jobId = await deps.jobs.queue.add(tx, VERIFY_BACKUP, {
    input: { backupId, name: backup.name, lane, serverId, deep: body.deep },
    cause: 'backup',
    serverId,
    ...(backup.nodeId === null ? {} : { nodeId: backup.nodeId }),
    onBehalfOf: work.caller,
  })
  const details = { name: backup.name, serverId, deep: body.deep, jobId: jobId ?? null }
  return { answer: toStarted(backup, jobId ?? null), audit: { resourceId: backupId, details } }
})

export const pruneBackups = operation(api.pruneBackups, async (work, { params: { serverId }, body }) => {
  const { tx, deps, holder } = work
  await serverOf(tx, serverId)
  const { dryRun, orphans, retentionCount, retentionDays } = body
  const instead = {
    ...(retentionCount === undefined ? {} : { retentionCount }),
    ...(retentionDays === undefined ? {} : { retentionDays }),
  }
  const backups: ShownBackup[] = []
  for (const id of await outlivedOf(tx.q, serverId, Date.parse(tx.now), instead)) {
    const backup = await findShown(tx.q, id)
    if (backup !== undefined) backups.push(backup)
  }
  const sight = await sightOf({ q: tx.q, now: tx.now }, holder, serverId)
  const answer = backups.map((backup) => shownTo(sight, backup))
  if (dryRun) return { answer: { backups: answer, jobIds: [] } }
  const jobIds: string[] = []
  for (const backup of backups) {
    const jobId = await startDelete(tx, deps, backup, { by: work, cause: 'prune' })
    if (jobId !== null) jobIds.push(jobId)
  }
  if (orphans) jobIds.push(...(await pruneStores(work, serverId)))
  const details = { ...body, backups: backups.map(({ name }) => name).slice(0, 100), count: backups.length }
  return { answer: { backups: answer, jobIds }, audit: { resourceId: serverId, resource: 'server', details } }
})

/** One job for each store that has something of the server. */
async function pruneStores(
  { tx, deps, caller }: Pick<Work<typeof api.pruneBackups, BackupDeps>, 'tx' | 'deps' | 'caller'>,
  serverId: string,
) {
  const row = await findServerRow(tx.q, serverId)
  const own = row === undefined ? undefined : await deps.stores.ofServer(tx.q, serverId)
  const places = await tx.q
    .selectFrom('backup')
    .innerJoin('backupStore', 'backupStore.id', 'backup.storeId')
    .select(['backup.ownerId', 'backup.storeId', 'backup.nodeId', 'backupStore.kind as storeKind'])
    .where('backup.serverId', '=', serverId)
    .groupBy(['backup.ownerId', 'backup.storeId', 'backup.nodeId', 'backupStore.kind'])
    .execute()
  if (own !== undefined && row !== undefined && !places.some(({ storeId }) => storeId === own.id)) {
    places.push({ ownerId: serverId, storeId: own.id, nodeId: row.nodeId, storeKind: own.kind })
  }
  const ids: string[] = []
  for (const { ownerId, storeId, nodeId, storeKind } of places) {
    const lane = await laneFor(tx, nodeId ?? storeId, serverId)
    const jobId = await deps.jobs.queue.add(tx, PRUNE_STORE, {
      input: { serverId, ownerId, storeId, storeKind, nodeId, lane },
      cause: 'prune',
      serverId,
      key: `${PRUNE_STORE.kind} ${ownerId} ${storeId} ${nodeId ?? ''}`,
      onBehalfOf: caller,
    })
    if (jobId !== undefined) ids.push(jobId)
  }
  return ids
}

export const reattachBackup = operation(
  api.reattachBackup,
  async (work, { params: { backupId }, body: { serverId } }) => {
    const { tx } = work
    const backup = await findShown(tx.q, backupId)
    if (backup === undefined) return work.fail('BACKUP_NOT_FOUND', NO_BACKUP)
    refuseUnready(backup)
    const row = await findServerRow(tx.q, serverId)
    if (row === undefined || row.deletingAt !== null) return work.fail('SERVER_NOT_FOUND', NO_SERVER)
    if (backup.serverId !== null) {
      if (backup.serverId === serverId) return { answer: shownTo(sightOfAll(work.holder), backup) }
      return work.fail('CONFLICT', 'This backup belongs to a server that is there; restore it to the other one instead')
    }
    await setBackup(tx, backupId, { serverId })
    const after = (await findShown(tx.q, backupId)) ?? backup
    const details = { name: backup.name, ownerId: backup.ownerId, serverId, serverName: row.name }
    return { answer: shownTo(sightOfAll(work.holder), after), audit: { resourceId: backupId, details } }
  },
)

export const updateSettings = operation(api.updateBackupSettings, async (work, { params: { serverId }, body }) => {
  const { tx, deps, holder } = work
  const row = await serverOf(tx, serverId)
  const { storeId, quiesceCommands, resumeCommands, backupAllocationMb, ...plain } = body
  if (backupAllocationMb !== undefined && !grants(holder.permissions, 'admin.write')) {
    throw new PanelError('PERMISSION_DENIED', 'Only administrators change how much backups may take', {
      meta: { missing: ['admin.write'] },
    })
  }
  if (storeId != null && (await deps.stores.find(tx.q, storeId)) === undefined) {
    return work.fail('BACKUP_STORE_NOT_FOUND', 'There is no such backup store')
  }
  // They are typed into the console, whoever makes the backup.
  if (quiesceCommands !== undefined || resumeCommands !== undefined) {
    const typed = await settingsOf(tx.q, serverId)
    const isSame = (now: readonly unknown[] | undefined, then: readonly unknown[]): boolean =>
      now === undefined || now.length === 0 || JSON.stringify(now) === JSON.stringify(then)
    if (!isSame(quiesceCommands, typed.quiesce) || !isSame(resumeCommands, typed.resume)) {
      await permitServer({ q: tx.q, now: tx.now }, holder, serverId, ['console.write'])
    }
  }
  checkCommands(quiesceCommands ?? [], 'quiesceCommands')
  checkCommands(resumeCommands ?? [], 'resumeCommands')
  const before = await toSettings(tx.q, deps.stores, serverId)
  await keepSettings(tx, serverId, {
    ...(await settingsOf(tx.q, serverId)),
    ...given(plain),
    ...(quiesceCommands === undefined ? {} : { quiesce: quiesceCommands }),
    ...(resumeCommands === undefined ? {} : { resume: resumeCommands }),
    ...(backupAllocationMb === undefined ? {} : { allocationMb: backupAllocationMb }),
  })
  if (storeId !== undefined) {
    await tx.q
      .updateTable('server')
      .set({ backupStoreId: storeId, updatedAt: tx.now })
      .where('id', '=', row.id)
      .execute()
  }
  const answer = await toSettings(tx.q, deps.stores, serverId)
  const names = Object.keys(body) as (keyof typeof body)[] // no more than the contract has
  const asked = (settings: typeof answer) => Object.fromEntries(names.map((name) => [name, settings[name]]))
  const changed = changes(asked(before), asked(answer))
  if (changed === undefined) return { answer }
  const data = { updatedBy: work.userId, change: 'backup_settings_updated' }
  return {
    answer,
    audit: { resourceId: serverId, details: changed },
    events: [{ type: 'server_updated', serverId, data }],
  }
})

/** The fields that are given. */
function given<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never // only those
}
