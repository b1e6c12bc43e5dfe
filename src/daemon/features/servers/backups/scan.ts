import { z } from 'zod'
import { BackedUpDatabase, scanBackups } from '../../../../shared/api/backups.ts'
import type { Data, Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import { BACKUP_LIMITS, listStored, type StoreAccess } from '../../../../shared/protocol/backups.ts'
import type { ResultOf } from '../../../../shared/protocol/define.ts'
import { recordChange } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import type { Context } from '../../../http/route.ts'
import type { BackupDeps } from './deps.ts'
import { withStore } from './reach-store.ts'
import { findBackup, insertBackup } from './rows.ts'
import type { StoreFacts } from './stores.ts'

type Found = ResultOf<typeof listStored>['backups'][number]
type Added = Data<typeof scanBackups>['added'][number]

/** Backups of one look at most. */
const MOST = 100_000

/** What a manifest says of its backup: of a node, and so of any shape. */
const About = z.object({
  name: z
    .string()
    .min(1)
    .max(120)
    .regex(/^[A-Za-z0-9._-]+$/)
    .catch('backup'),
  label: z
    .string()
    .regex(/^[a-z0-9][a-z0-9._-]{0,39}$/)
    .nullable()
    .catch(null),
  serverName: z.string().min(1).max(100).catch('unknown'),
  locked: z.boolean().catch(false),
  counts: z.boolean().catch(true),
  databases: z
    .array(BackedUpDatabase.pick({ name: true, engine: true }))
    .max(BACKUP_LIMITS.extras)
    .catch([]),
})

/** Looks through a store for backups that the panel does not know, and lists them from then on. */
export async function scan(
  deps: BackupDeps,
  { body: { storeId, nodeId, dryRun } }: Input<typeof scanBackups>,
  context: Pick<Context, 'signal' | 'principal'>,
): Promise<Data<typeof scanBackups>> {
  const { db, stores, gateway } = deps
  const store = await stores.find(db.read, storeId)
  if (store === undefined) throw new PanelError('BACKUP_STORE_NOT_FOUND', 'There is no such backup store')
  const at = await nodeFor(deps, store, nodeId)
  const owners = await stores.owners(store, context.signal)
  const found: Found[] = []
  for (const ownerId of owners ?? [null]) {
    const grant = { nodeId: at, ownerId: ownerId ?? '', mode: 'read', signal: context.signal } as const
    const list = async (access: StoreAccess): Promise<void> => {
      for (let after: string | null = null; ; ) {
        const input = { store: access, ownerId, after, limit: BACKUP_LIMITS.rows }
        const page: ResultOf<typeof listStored> = await gateway.request(at, listStored, input, {
          signal: context.signal,
        })
        found.push(...page.backups)
        after = page.next
        if (after === null || found.length >= MOST) return
      }
    }
    await withStore(deps, storeId, grant, list)
  }
  return await db.write(async (tx) => {
    const added: Added[] = []
    for (const one of found) {
      const row = await take(tx, one, { store, nodeId: at, dryRun })
      if (row !== undefined) added.push(row)
    }
    const missing = await missingIn(tx, store, at, new Set(found.map(({ backupId }) => backupId)))
    if (!dryRun) {
      const details = {
        storeName: store.name,
        nodeId: at,
        found: found.length,
        added: added.length,
        missing: missing.length,
      }
      await recordChange(
        tx,
        { deps, principal: context.principal, endpoint: scanBackups },
        { audit: { resourceId: storeId, details } },
      )
    }
    return { found: found.length, added, missing }
  })
}

async function nodeFor({ db, gateway }: BackupDeps, store: StoreFacts, nodeId: string | undefined): Promise<string> {
  if (nodeId !== undefined) {
    const node = await db.read.selectFrom('node').select('name').where('id', '=', nodeId).executeTakeFirst()
    if (node === undefined) throw new PanelError('NODE_NOT_FOUND', 'There is no such node')
    if (!gateway.isOnline(nodeId)) throw new PanelError('NODE_OFFLINE', `The node ${node.name} is not connected`)
    return nodeId
  }
  const connected = gateway.connected().filter((id) => gateway.can(id, 'backups@1'))
  const [only] = connected
  if (only === undefined) throw new PanelError('NODE_OFFLINE', 'No node is connected that could read the store')
  if (store.kind === 'local' && connected.length > 1) {
    throw new PanelError('NODE_NOT_FOUND', `The store ${store.name} is a folder of each node; name the node`)
  }
  return only
}

async function take(
  tx: Tx,
  { backupId, ownerId, about, createdMs, entries, bytes, storedBytes, sha256, kind, compression }: Found,
  { store, nodeId, dryRun }: { readonly store: StoreFacts; readonly nodeId: string; readonly dryRun: boolean },
): Promise<Added | undefined> {
  if ((await findBackup(tx.q, backupId)) !== undefined) return undefined
  const said = About.parse(about)
  const server = await tx.q.selectFrom('server').select(['id', 'nodeId']).where('id', '=', ownerId).executeTakeFirst()
  const createdAt = isoTime(createdMs)
  const { name, label, serverName, databases } = said
  if (!dryRun) {
    await insertBackup(tx, {
      ...{ id: backupId, serverId: server?.id ?? null, ownerId, serverName, nodeId, storeId: store.id, policyId: null },
      ...{
        name,
        kind,
        compression,
        label,
        locked: said.locked ? 1 : 0,
        counts: said.counts ? 1 : 0,
        status: 'completed',
      },
      databases: JSON.stringify(databases.map((one) => ({ ...one, tables: null, rows: null, left: [] }))),
      ...{ error: null, ignored: '[]', problems: '[]', problemCount: 0 },
      ...{ entries, bytes, storedBytes, sha256, jobId: null, createdBy: null },
      ...{ startedAt: createdAt, completedAt: createdAt, restoredAt: null, verifiedAt: null, damage: null },
      ...{ createdAt, updatedAt: tx.now },
    })
  }
  const ids = { backupId: backupId as Added['backupId'] } // checked by the protocol
  return { ...ids, ownerId, serverName, name, createdAt, storedBytes, orphaned: server === undefined }
}

async function missingIn(tx: Tx, store: StoreFacts, nodeId: string, there: ReadonlySet<string>) {
  let known = tx.q
    .selectFrom('backup')
    .select(['id', 'name', 'serverName'])
    .where('storeId', '=', store.id)
    .where('status', '=', 'completed')
  if (store.kind === 'local') known = known.where('nodeId', '=', nodeId)
  const rows = (await known.execute()).filter(({ id }) => !there.has(id))
  return rows.map(({ id, ...row }) => ({ backupId: id as Added['backupId'], ...row }))
}
