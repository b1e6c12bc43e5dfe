import ignore from 'ignore'
import type * as api from '../../../../shared/api/backups.ts'
import type { Data, Input, StreamAnswer } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { isoTime, now } from '../../../../shared/kernel/time.ts'
import * as protocol from '../../../../shared/protocol/backups.ts'
import { permitServer } from '../../../access/permit.ts'
import { type Context, callerOf } from '../../../http/route.ts'
import { withField } from '../files/agent.ts'
import { deniedTo, refuseDenied } from '../files/denied-files.ts'
import { findServerRow, type ServerRow } from '../servers/rows.ts'
import type { BackupDeps } from './deps.ts'
import { backupOf, refuseUnready } from './find.ts'
import { refuseHeld } from './held.ts'
import { nodeOf, stored, withStore } from './reach-store.ts'
import type { ShownBackup } from './rows.ts'
import { seesDatabases } from './sight.ts'
import { databasesOf } from './view.ts'

type Asking = Pick<Context, 'signal' | 'caller'>

const ENDS = { gzip: 'tar.gz', zstd: 'tar.zst', none: 'tar' } as const
const TYPES = { gzip: 'application/gzip', zstd: 'application/zstd', none: 'application/x-tar' } as const
const DUMP = '.sql'

/** The backup with its server, when it can be read by the caller. */
async function readable(
  { db, clock }: BackupDeps,
  { serverId, backupId }: { readonly serverId: string; readonly backupId: string },
  caller: ReturnType<typeof callerOf>,
): Promise<{ readonly backup: ShownBackup; readonly row: ServerRow }> {
  const row = await findServerRow(db.read, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  const backup = await backupOf(db.read, serverId, backupId)
  await refuseHeld({ q: db.read, now: now(clock) }, caller, serverId)
  if (backup.status !== 'restoring') refuseUnready(backup)
  return { backup, row }
}

/** A page of the manifest, in as many parts as the frames of the node need. What the caller does not get is not among it. */
export async function entriesOf(
  deps: BackupDeps,
  { params, query }: Input<typeof api.listBackupEntries>,
  context: Asking,
): Promise<Data<typeof api.listBackupEntries>> {
  const caller = callerOf(context)
  const { backup, row } = await readable(deps, params, caller)
  refuseDenied(row, query.path, caller)
  const rules = ignore({ ignorecase: true }).add(deniedTo(row, caller))
  const seen = await seesDatabases({ q: deps.db.read, now: now(deps.clock) }, caller, row.id)
  const nodeId = nodeOf(deps, backup, row.nodeId)
  const grant = { nodeId, ownerId: backup.ownerId, mode: 'read', signal: context.signal } as const
  return await withStore(deps, backup.storeId, grant, async (store) => {
    const entries: api.BackupEntry[] = []
    let after = query.after ?? null
    for (;;) {
      const limit = Math.min(query.limit - entries.length, protocol.BACKUP_LIMITS.rows)
      const input = { ...stored(backup, store), path: query.path, recursive: query.recursive, after, limit }
      const page = await deps.gateway
        .request(nodeId, protocol.listBackupEntries, input, { signal: context.signal })
        .catch((error: unknown) => {
          throw withField(error, 'query')
        })
      for (const { modifiedMs, ...entry } of page.entries) {
        if (isHidden(rules, entry.path)) continue
        entries.push({ ...entry, modified: isoTime(modifiedMs) })
      }
      after = page.next
      if (after !== null && entries.length < query.limit) continue
      const dumps = seen ? page.extras : []
      const databases = dumps.map(({ name, size }) => ({ name: name.replace(/\.sql$/, ''), size }))
      return { entries, next: after, databases }
    }
  })
}

function isHidden(rules: ReturnType<typeof ignore>, path: string): boolean {
  const inside = path.replace(/^\/+/, '')
  return inside !== '' && ignore.isPathValid(inside) && (rules.ignores(inside) || rules.ignores(`${inside}/`))
}

/** All of a backup, or a folder of it, as a tar. */
export async function download(
  deps: BackupDeps,
  { params, query }: Input<typeof api.downloadBackup>,
  context: Asking,
): Promise<StreamAnswer> {
  const caller = callerOf(context)
  const { backup, row } = await readable(deps, params, caller)
  if (query.path !== undefined) refuseDenied(row, query.path, caller)
  const denied = deniedTo(row, caller)
  // Dumps of databases are for those who may read these.
  const at = { q: deps.db.read, now: now(deps.clock) }
  const sees = query.path !== undefined || (await seesDatabases(at, caller, row.id))
  const compression = query.compression ?? (backup.kind === 'archive' ? backup.compression : 'gzip')
  const nodeId = nodeOf(deps, backup, row.nodeId)
  const path = query.path ?? (sees || !(await hasDumps(deps, backup, nodeId, context)) ? null : '/')
  const whole = path === null && denied.length === 0 && backup.kind === 'archive' && compression === backup.compression
  const size = whole ? backup.storedBytes : null
  const answer = { contentType: TYPES[compression], fileName: `${fileNameOf(backup)}.${ENDS[compression]}` }
  const open = (content: Omit<Delivery, 'compression'>) =>
    deliver(deps, { backup, nodeId, ...content, compression, denied }, context)
  if (!whole || size === null) {
    return {
      ...answer,
      size: null,
      etag: null,
      read: () => open({ content: 'archive', path, offset: 0, length: null }),
    }
  }
  return {
    ...answer,
    size,
    etag: backup.sha256 ?? backup.id,
    ...(backup.completedAt === null ? {} : { modifiedMs: Date.parse(backup.completedAt) }),
    read: (range) => {
      const { offset, length } = range ?? { offset: 0, length: size }
      return open({ content: 'archive', path: null, offset, length })
    },
  }
}

/** Whether dumps of databases are in a backup. Of one that was found in a store its row need not know them. */
async function hasDumps(deps: BackupDeps, backup: ShownBackup, nodeId: string, { signal }: Asking): Promise<boolean> {
  if (databasesOf(backup).length > 0) return true
  const grant = { nodeId, ownerId: backup.ownerId, mode: 'read', signal } as const
  const { extras } = await withStore(deps, backup.storeId, grant, (store) =>
    deps.gateway.request(nodeId, protocol.describeBackup, stored(backup, store), { signal }),
  )
  return extras !== 0
}

/** One file of a backup, or the dump of one database. */
export async function fileOf(
  deps: BackupDeps,
  { params, query: { path, database } }: Input<typeof api.readBackupFile>,
  context: Asking,
): Promise<StreamAnswer> {
  if ((path === undefined) === (database === undefined)) {
    throw fieldError('query.path', 'or database must be given, and not both')
  }
  const caller = callerOf(context)
  const { backup, row } = await readable(deps, params, caller)
  if (path !== undefined) refuseDenied(row, path, caller)
  else await permitServer({ q: deps.db.read, now: now(deps.clock) }, caller, row.id, ['database.read'])
  const nodeId = nodeOf(deps, backup, row.nodeId)
  const name = path?.split('/').findLast((part) => part !== '') ?? `${database}${DUMP}`
  const what =
    path === undefined ? { content: 'extra' as const, path: `${database}${DUMP}` } : { content: 'file' as const, path }
  return {
    contentType: 'application/octet-stream',
    fileName: name,
    size: null,
    etag: null,
    read: () =>
      deliver(deps, { backup, nodeId, ...what, compression: 'none', offset: 0, length: null, denied: [] }, context),
  }
}

interface Delivery {
  readonly content: 'archive' | 'file' | 'extra'
  readonly path: string | null
  readonly compression: protocol.Compression
  readonly offset: number
  readonly length: number | null
}

/** What a node delivers of a backup. The store stays open as long as it is read. */
export async function deliver(
  deps: Pick<BackupDeps, 'stores' | 'transfers' | 'gateway'>,
  {
    backup,
    nodeId,
    denied,
    ...what
  }: Delivery & { readonly backup: ShownBackup; readonly nodeId: string; readonly denied: string[] },
  { signal }: Pick<Context, 'signal'>,
): Promise<AsyncIterable<Uint8Array>> {
  const ended = new AbortController()
  const either = AbortSignal.any([signal, ended.signal])
  const grant = { nodeId, ownerId: backup.ownerId, mode: 'read', signal: either } as const
  const open = await deps.stores.open(backup.storeId, grant)
  try {
    const content = await deps.transfers
      .from(nodeId, { length: what.length, signal }, (ticket, options) =>
        deps.gateway.request(
          nodeId,
          protocol.deliverBackup,
          { ...stored(backup, open.access), ...what, ticket, denied },
          options,
        ),
      )
      .catch((error: unknown) => {
        throw withField(error, 'query')
      })
    content.once('close', () => {
      open.close()
      ended.abort()
    })
    return content
  } catch (error) {
    open.close()
    throw error
  }
}

function fileNameOf({ name, id }: ShownBackup): string {
  return name.replace(/[^A-Za-z0-9._-]/g, '_') || id
}
