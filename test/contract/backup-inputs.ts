import { newId } from '../../src/shared/kernel/ids.ts'
import type { World } from './world.ts'

/** Whose backup it is. */
interface Owner {
  readonly id: string
  readonly nodeId: string | null
  /** Whether the server is there. */
  readonly isGone?: boolean
}

/** A server on the node that is there, which was deleted. */
export function gone(world: World): Owner {
  return { id: newId('srv', world.panel.app.core.clock), nodeId: world.panel.nodeId, isGone: true }
}

/** A backup that the panel holds for whole, in a store that has nothing of it. */
export async function keptBackup(
  { panel, next }: Pick<World, 'panel' | 'next'>,
  { id: ownerId, nodeId, isGone = false }: Owner,
): Promise<string> {
  const { db, clock } = panel.app.core
  const id = newId('bak', clock)
  await db.write(async (tx) => {
    const store = await tx.q
      .selectFrom('backupStore')
      .select('id')
      .where('name', '=', 'local')
      .executeTakeFirstOrThrow()
    const none = { error: null, jobId: null, createdBy: null, startedAt: null, restoredAt: null, verifiedAt: null }
    const facts = { entries: 1, bytes: 1, storedBytes: 1, sha256: 'a'.repeat(64), ignored: '[]', problems: '[]' }
    const times = { completedAt: tx.now, createdAt: tx.now, updatedAt: tx.now }
    const row = {
      ...none,
      ...facts,
      ...times,
      databases: '[]',
      problemCount: 0,
      policyId: null,
      label: null,
      damage: null,
    }
    const kind = { kind: 'archive', compression: 'gzip', status: 'completed', locked: 0, counts: 1 } as const
    const owner = { ownerId, serverId: isGone ? null : ownerId, serverName: 'kept', nodeId, storeId: store.id }
    await tx.q
      .insertInto('backup')
      .values({ id, name: `kept-${next()}`, ...row, ...kind, ...owner })
      .execute()
  })
  return id
}
