import { PanelError } from '../../../../shared/kernel/errors.ts'
import { missingFrom } from '../../../../shared/kernel/permissions.ts'
import type { Origin } from '../../../access/caller.ts'
import { recordFact, unauthenticated } from '../../../access/operation.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import { assignmentsOfRoles, PASSED_ON } from '../auth/node-cap.ts'
import type { SsoDeps } from './deps.ts'
import type { ProviderEntry } from './provider-rows.ts'

/** The group that everybody is in whom the provider signs in. */
const EVERYBODY = '*'

/** Whose roles follow which groups. */
interface Synced {
  readonly provider: ProviderEntry
  readonly identityId: string
  readonly userId: string
  readonly groups: readonly string[]
  readonly origin: Origin
}

type SyncDeps = Pick<SsoDeps, 'audit' | 'bus' | 'credentials' | 'log'>

/**
 * Gives the roles of a person's groups, and takes those back that a group gave before and gives no longer. Roles that
 * somebody has given by hand stay, and a role that gives more than the provider's configurer may give is not given.
 */
export async function syncRoles(tx: Tx, deps: SyncDeps, synced: Synced): Promise<void> {
  const { provider, identityId, userId, groups } = synced
  const wanted = await wantedRoles(tx, provider, groups)
  const held = await tx.q.selectFrom('userRole').select('roleId').where('userId', '=', userId).execute()
  const has = new Set(held.map(({ roleId }) => roleId))
  const rows = await tx.q.selectFrom('identityRole').select('roleId').where('identityId', '=', identityId).execute()
  const given = new Set(rows.map(({ roleId }) => roleId))
  for (const [roleId, name] of wanted) {
    if (has.has(roleId)) continue
    await tx.q.insertInto('userRole').values({ userId, roleId }).execute()
    if (!given.has(roleId)) await tx.q.insertInto('identityRole').values({ identityId, roleId }).execute()
    await record(tx, deps, synced, { action: 'user.role_assign', change: 'role_assigned', roleId, name })
  }
  for (const roleId of given) {
    if (!wanted.has(roleId)) await takeBack(tx, deps, synced, { roleId, has: has.has(roleId) })
  }
}

/** Takes all roles back that an identity gave; fails with LAST_ADMIN when nobody would be left who may do everything. */
export async function takeBackRoles(tx: Tx, identityId: string, userId: string): Promise<number> {
  const rows = await tx.q.selectFrom('identityRole').select('roleId').where('identityId', '=', identityId).execute()
  for (const { roleId } of rows) {
    await tx.q.deleteFrom('userRole').where('userId', '=', userId).where('roleId', '=', roleId).execute()
  }
  if (rows.length > 0) await ensureAdminLeft(tx)
  return rows.length
}

async function wantedRoles(
  tx: Tx,
  { roleMapping, vouched }: ProviderEntry,
  groups: readonly string[],
): Promise<Map<string, string>> {
  const mine = new Set([...groups, EVERYBODY])
  const ids = [...new Set(roleMapping.filter(({ group }) => mine.has(group)).map(({ roleId }) => roleId))]
  if (ids.length === 0) return new Map()
  const roles = await tx.q.selectFrom('role').select(['id', 'name', 'permissions']).where('id', 'in', ids).execute()
  const may = new Set(vouched)
  const assigned = new Set((await assignmentsOfRoles(tx, ids)).map(({ roleId }) => roleId))
  const within = roles.filter(({ id, permissions }) => {
    const given = [...parseJson(PermissionList, permissions), ...(assigned.has(id) ? PASSED_ON : [])]
    return missingFrom(may, given).length === 0
  })
  return new Map(within.map(({ id, name }) => [id, name]))
}

async function takeBack(
  tx: Tx,
  deps: SyncDeps,
  synced: Synced,
  { roleId, has }: { roleId: string; has: boolean },
): Promise<void> {
  const { identityId, userId } = synced
  const role = await tx.q.selectFrom('role').select('name').where('id', '=', roleId).executeTakeFirst()
  await tx.q.deleteFrom('userRole').where('userId', '=', userId).where('roleId', '=', roleId).execute()
  try {
    await ensureAdminLeft(tx)
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    await tx.q.insertInto('userRole').values({ userId, roleId }).execute()
    deps.log.warn({ userId, roleId }, 'last administrator keeps role without matching group')
    return
  }
  await tx.q.deleteFrom('identityRole').where('identityId', '=', identityId).where('roleId', '=', roleId).execute()
  if (!has) return
  await record(tx, deps, synced, {
    action: 'user.role_remove',
    change: 'role_removed',
    roleId,
    name: role?.name ?? roleId,
  })
}

async function record(
  tx: Tx,
  deps: SyncDeps,
  { provider, userId, origin }: Synced,
  { action, change, roleId, name }: { action: string; change: string; roleId: string; name: string },
): Promise<void> {
  const { username } = await tx.q
    .selectFrom('user')
    .select('username')
    .where('id', '=', userId)
    .executeTakeFirstOrThrow()
  const details = { roleId, role: name, username, provider: provider.id }
  await recordFact(
    tx,
    { deps, principal: unauthenticated(origin) },
    {
      audit: { action, resource: 'user', resourceId: userId, details },
      events: [{ type: 'user_updated', data: { userId, username, updatedBy: null, change, roleId } }],
    },
  )
  tx.onCommit(() => deps.credentials.changed())
}
