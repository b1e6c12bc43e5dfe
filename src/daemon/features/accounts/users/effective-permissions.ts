import type * as api from '../../../../shared/api/effective-permissions.ts'
import type { Answer, Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants, PERMISSIONS, type Permission } from '../../../../shared/kernel/permissions.ts'
import { type IsoTime, now } from '../../../../shared/kernel/time.ts'
import { type At, nodeSources, type Source, scoped, serverSources } from '../../../access/relations.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import { parseJson } from '../../../db/json.ts'
import type { Context } from '../../../http/route.ts'
import { callerOf } from '../../../http/route.ts'
import type { AccountDeps } from '../auth/deps.ts'

type Query = Input<typeof api.getEffectivePermissions>['query']
type Row = Answer<typeof api.getEffectivePermissions>['permissions'][number]

/** Explains what an account may do: the same rules as `permit`, with their reasons. */
export async function getEffectivePermissions(
  deps: AccountDeps,
  { params: { userId }, query }: Input<typeof api.getEffectivePermissions>,
  context: Context<typeof api.getEffectivePermissions>,
) {
  const at: At = { q: deps.db.read, now: now(deps.clock) }
  const user = await at.q.selectFrom('user').select(['id', 'username']).where('id', '=', userId).executeTakeFirst()
  if (user === undefined) return context.fail('USER_NOT_FOUND', `There is no account ${userId}`)
  const caller = callerOf(context)
  const own = caller.userId === userId && caller.kind === 'apiKey' ? caller.credentialId : undefined
  const keyId = query.keyId ?? own
  const key = keyId === undefined ? null : await keyOf(at, userId, keyId)
  const roles = await rolesOf(at, userId)
  // Whether a server is there is not for everybody to find out; to others it is one on which they may do nothing.
  if (grants(caller.permissions, 'user.read')) await ensureThere(at, query)
  const sources = await relationsOf(at, userId, query)
  const permissions = names(roles, query).flatMap((permission) => {
    const row = explain({ permission, roles, sources, id: query.serverId ?? query.nodeId, key })
    return row.sources.length === 0 && query.permission === undefined ? [] : [row]
  })
  return { user, serverId: query.serverId ?? null, nodeId: query.nodeId ?? null, key, permissions }
}

interface HeldRole {
  readonly id: string
  readonly name: string
  readonly permissions: readonly string[]
}

interface Key {
  readonly id: string
  readonly name: string
  /** `null`: whatever its user may. */
  readonly permissions: string[] | null
}

/** The permissions to list: one, or the catalogue, and panel-wide also those that roles hold for single resources. */
function names(roles: readonly HeldRole[], query: Query): string[] {
  if (query.permission !== undefined) return [query.permission]
  const catalogue = PERMISSIONS.filter((name) => name !== '*')
  if (query.serverId !== undefined || query.nodeId !== undefined) return catalogue
  const single = roles.flatMap(({ permissions }) => permissions.filter((text) => scoped(text) !== undefined))
  return [...catalogue, ...[...new Set(single)].sort()]
}

interface Question {
  /** A permission of the catalogue, or one for a single resource. */
  readonly permission: string
  readonly roles: readonly HeldRole[]
  readonly sources: readonly Source[]
  readonly id: string | undefined
  readonly key: Key | null
}

function explain({ permission, roles, sources, id, key }: Question): Row {
  const single = scoped(permission)
  const name = single?.permission ?? (permission as Permission) // both come from the catalogue
  const target = single?.id ?? id
  const byRole = roles.flatMap((role) =>
    role.permissions
      .filter((text) => grants(new Set([text]), name, target))
      .map((as) => ({ kind: 'role' as const, id: role.id, roleName: role.name, as, expiresAt: null })),
  )
  const related = sources
    .filter(({ permissions }) => permissions.includes(name))
    .map((source) => ({
      kind: source.kind,
      id: source.id,
      roleName: source.role?.name ?? null,
      as: `${name}:${target}`,
      expiresAt: source.expiresAt,
    }))
  const all = [...byRole, ...related]
  const passes = key === null || key.permissions === null || grants(new Set(key.permissions), name, target)
  const cutBy = all.length > 0 && !passes && key !== null ? { id: key.id, name: key.name } : null
  return { permission, allowed: all.length > 0 && passes, sources: all, cutBy }
}

async function rolesOf(at: At, userId: string): Promise<HeldRole[]> {
  const rows = await at.q
    .selectFrom('userRole')
    .innerJoin('role', 'role.id', 'userRole.roleId')
    .select(['role.id', 'role.name', 'role.permissions'])
    .where('userRole.userId', '=', userId)
    .orderBy('role.name')
    .execute()
  return rows.map((row) => ({ ...row, permissions: parseJson(PermissionList, row.permissions) }))
}

async function keyOf(at: At, userId: string, keyId: string): Promise<Key> {
  const row = await at.q
    .selectFrom('apiKey')
    .select(['id', 'name', 'allPermissions', 'permissions', 'enabled', 'expiresAt'])
    .where('id', '=', keyId)
    .where('userId', '=', userId)
    .executeTakeFirst()
  if (row === undefined) throw new PanelError('API_KEY_NOT_FOUND', `The account has no API key ${keyId}`)
  if (!works(row, at.now)) return { id: row.id, name: row.name, permissions: [] }
  return {
    id: row.id,
    name: row.name,
    permissions: row.allPermissions === 1 ? null : parseJson(PermissionList, row.permissions),
  }
}

function works(key: { enabled: 0 | 1; expiresAt: IsoTime | null }, at: IsoTime): boolean {
  return key.enabled === 1 && (key.expiresAt === null || key.expiresAt > at)
}

async function relationsOf(at: At, userId: string, { serverId, nodeId }: Query): Promise<Source[]> {
  if (serverId !== undefined) return serverSources(at, userId, serverId)
  return nodeId === undefined ? [] : nodeSources(at, userId, nodeId)
}

async function ensureThere(at: At, { serverId, nodeId }: Query): Promise<void> {
  if (serverId !== undefined) {
    const there = await at.q.selectFrom('server').select('id').where('id', '=', serverId).executeTakeFirst()
    if (there === undefined) throw new PanelError('SERVER_NOT_FOUND', `There is no server ${serverId}`)
  }
  if (nodeId !== undefined) {
    const there = await at.q.selectFrom('node').select('id').where('id', '=', nodeId).executeTakeFirst()
    if (there === undefined) throw new PanelError('NODE_NOT_FOUND', `There is no node ${nodeId}`)
  }
}
