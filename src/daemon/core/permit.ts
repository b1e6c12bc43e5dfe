import type { Access } from '../../shared/contract.ts'
import { PanelError } from '../../shared/errors.ts'
import { grants, OWNER_PERMISSIONS, type Permission } from '../../shared/permissions.ts'
import { constant } from './answer-json.ts'
import type { Caller } from './caller.ts'
import type { Queries } from './db.ts'

const EVERYTHING = constant<Permission[]>([...OWNER_PERMISSIONS])
const owned: ReadonlySet<string> = new Set(OWNER_PERMISSIONS)

/**
 * Decides whether the caller may call at all, before the body is read (decisions #9). Throws UNAUTHENTICATED or
 * PERMISSION_DENIED; whether the named resource exists makes no difference to a caller without the right.
 */
export async function permit(
  q: Queries,
  access: Access,
  caller: Caller | undefined,
  params: Readonly<Record<string, string>>,
): Promise<void> {
  if (access === 'public') return
  if (caller === undefined) throw new PanelError('UNAUTHENTICATED', 'Sign in first: send an API key or a session')
  if (access === 'session') return
  if ('panel' in access) return ensure(grants(caller.permissions, access.panel), [access.panel])
  if ('anyOf' in access) {
    return ensure(
      access.anyOf.some((permission) => grants(caller.permissions, permission)),
      access.anyOf,
    )
  }
  if ('node' in access) {
    return ensure(grants(caller.permissions, access.node, params['nodeId']), [access.node])
  }
  const serverId = params['serverId'] ?? ''
  if ('server' in access) return permitServer(q, caller, serverId, access.server)
  const held = await serverPermissions(q, caller, serverId, access.serverByBody.possible)
  ensure(held.length > 0, access.serverByBody.possible)
}

/** Refuses a caller who does not hold all of `permissions` on the server. */
export async function permitServer(
  q: Queries,
  caller: Caller,
  serverId: string,
  permissions: readonly Permission[],
): Promise<void> {
  const held = await serverPermissions(q, caller, serverId, permissions)
  ensure(held.length === permissions.length, permissions)
}

/**
 * Which of `wanted` the caller holds on the server (api.md §4.1): panel-wide or for this server by role or key, or as its
 * owner within what his key may do. `all-servers` counts as a server that everybody may read: its stream shows each
 * caller only the servers that are visible to him.
 */
export async function serverPermissions(
  q: Queries,
  caller: Caller,
  serverId: string,
  wanted: readonly Permission[],
): Promise<Permission[]> {
  if (serverId === 'all-servers') {
    return wanted.filter((permission) => permission === 'server.read' || grants(caller.permissions, permission))
  }
  const byRole = wanted.filter((permission) => grants(caller.permissions, permission, serverId))
  if (byRole.length === wanted.length) return byRole
  const row = await q.selectFrom('server').select('ownerId').where('id', '=', serverId).executeTakeFirst()
  return wanted.filter(
    (permission) => byRole.includes(permission) || ownerMay(caller, row?.ownerId, serverId, permission),
  )
}

/** All that the caller may do with a server of this owner. */
export function permissionsOnServer(caller: Caller, server: { id: string; ownerId: string }): Permission[] {
  if (caller.permissions.has('*')) return EVERYTHING
  return OWNER_PERMISSIONS.filter(
    (permission) =>
      grants(caller.permissions, permission, server.id) || ownerMay(caller, server.ownerId, server.id, permission),
  )
}

/** The servers that a list shows to the caller: all, or those of an owner together with some named ones. */
export type Visibility = 'all' | { readonly ownerId: string | null; readonly ids: readonly string[] }

/** Which servers the caller may see in lists, by `server.read`. */
export function visibleServers(caller: Caller): Visibility {
  if (grants(caller.permissions, 'server.read')) return 'all'
  const named = (set: ReadonlySet<string>): string[] =>
    [...set].flatMap((text) => (text.startsWith('server.read:') ? [text.slice('server.read:'.length)] : []))
  const ids = named(caller.permissions)
  if (caller.scope === null || grants(caller.scope, 'server.read')) return { ownerId: caller.userId, ids }
  return { ownerId: null, ids }
}

function ownerMay(caller: Caller, ownerId: string | undefined, serverId: string, permission: Permission): boolean {
  if (ownerId !== caller.userId || !owned.has(permission)) return false
  return caller.scope === null || grants(caller.scope, permission, serverId)
}

function ensure(allowed: boolean, needed: readonly Permission[]): void {
  if (allowed) return
  throw new PanelError('PERMISSION_DENIED', `This needs the permission ${needed.join(' or ')}`, {
    meta: { missing: [...needed] },
  })
}
