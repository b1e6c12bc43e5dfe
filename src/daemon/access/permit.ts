import type { Access } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import { ASSIGNEE_PERMISSIONS, grants, OWNER_PERMISSIONS, type Permission } from '../../shared/kernel/permissions.ts'
import type { IsoTime } from '../../shared/kernel/time.ts'
import { frozen } from '../core/frozen.ts'
import type { Caller } from './caller.ts'
import { type At, heldAssignments, nodeSources, type Rooted, relationsTo, serverSources } from './relations.ts'

/** Whose rights are asked for: a caller, or a user as without a key. */
export type Holder = Pick<Caller, 'userId' | 'permissions' | 'scope'>

const EVERYTHING = frozen<Permission[]>([...OWNER_PERMISSIONS])

/**
 * Decides whether the caller may call at all, before the body is read. Throws UNAUTHENTICATED or
 * PERMISSION_DENIED; whether the named resource exists makes no difference to a caller without the right.
 */
export async function permit(
  at: At,
  access: Access,
  caller: Caller | undefined,
  params: Readonly<Record<string, string>>,
): Promise<void> {
  if (access === 'public') return
  if (caller === undefined) throw new PanelError('UNAUTHENTICATED', 'Sign in first: send an API key or a session')
  if (access === 'session') return
  if (access === 'agent') throw new PanelError('UNAUTHENTICATED', 'This endpoint is for agents of nodes')
  if ('orSelf' in access && access.orSelf !== undefined && params[access.orSelf] === caller.userId) return
  if ('panel' in access) return ensure(grants(caller.permissions, access.panel), [access.panel])
  if ('anyOf' in access) {
    const held = access.anyOf.some((permission) => grants(caller.permissions, permission))
    const near = !held && access.orOnNode !== undefined && (await mayOnSomeNode(at, caller, access.orOnNode))
    return ensure(held || near, access.anyOf)
  }
  if ('node' in access) {
    return ensure(await mayOnNode(at, caller, params['nodeId'] ?? '', access.node), [access.node])
  }
  const serverId = params['serverId'] ?? ''
  if ('server' in access) return permitServer(at, caller, serverId, access.server)
  const held = await serverPermissions(at, caller, serverId, access.serverByBody.possible)
  ensure(held.length > 0, access.serverByBody.possible)
}

/** What {@link permit} has left open until the body is read. Throws PERMISSION_DENIED. */
export async function permitByBody(
  at: At,
  access: Access,
  caller: Caller | undefined,
  input: { readonly params: unknown; readonly body: unknown },
): Promise<void> {
  if (typeof access === 'string' || caller === undefined) return
  if ('serverByBody' in access) {
    const { serverId } = input.params as { serverId: string } // every serverByBody path has :serverId
    return permitServer(at, caller, serverId, access.serverByBody.exact(input.body))
  }
  if (!('orOnNode' in access) || access.orOnNode === undefined) return
  if (access.anyOf.some((permission) => grants(caller.permissions, permission))) return
  const { nodeId } = input.body as { nodeId: string } // every body of an orOnNode endpoint has it
  ensure(await mayOnNode(at, caller, nodeId, access.orOnNode), access.anyOf)
}

/** Refuses a caller who does not hold all of `permissions` on the server. */
export async function permitServer(
  at: At,
  caller: Holder,
  serverId: string,
  permissions: readonly Permission[],
): Promise<void> {
  const held = await serverPermissions(at, caller, serverId, permissions)
  ensure(held.length === permissions.length, permissions)
}

/**
 * Which of `wanted` the caller holds on the server: panel-wide or for this server by role or key, or as its
 * owner, by a grant or by an assignment of its node, within what their key may do. `all-servers` counts as a server that
 * everybody may read: its stream shows each caller only the servers that are visible to them.
 */
export async function serverPermissions(
  at: At,
  caller: Holder,
  serverId: string,
  wanted: readonly Permission[],
): Promise<Permission[]> {
  if (serverId === 'all-servers') {
    return wanted.filter((permission) => permission === 'server.read' || grants(caller.permissions, permission))
  }
  const byRole = new Set(wanted.filter((permission) => grants(caller.permissions, permission, serverId)))
  const possible = wanted.filter((permission) => !byRole.has(permission) && within(caller, permission, serverId))
  if (possible.length === 0) return wanted.filter((permission) => byRole.has(permission))
  const sources = await serverSources(at, caller.userId, serverId)
  const related = new Set(sources.flatMap(({ permissions }) => permissions))
  return wanted.filter(
    (permission) => byRole.has(permission) || (related.has(permission) && possible.includes(permission)),
  )
}

/** What the caller may do with each of these servers, for answers that show several. */
export async function permissionsOnServers(
  at: At,
  caller: Holder,
  servers: readonly Rooted[],
): Promise<(server: Rooted) => Permission[]> {
  if (OWNER_PERMISSIONS.every((permission) => grants(caller.permissions, permission))) {
    return () => EVERYTHING
  }
  const related = await relationsTo(at, caller.userId, servers)
  return (server) =>
    OWNER_PERMISSIONS.filter(
      (permission) =>
        grants(caller.permissions, permission, server.id) ||
        (within(caller, permission, server.id) && related(server, permission)),
    )
}

/** Whether the caller holds the permission on the node: by role or key, or by an assignment. */
export async function mayOnNode(at: At, caller: Holder, nodeId: string, permission: Permission): Promise<boolean> {
  return grants(caller.permissions, permission, nodeId) || mayAsAssignee(at, caller, nodeId, permission)
}

/** Whether the caller holds the permission on the node because it is assigned to them, within what their key may do. */
export async function mayAsAssignee(at: At, caller: Holder, nodeId: string, permission: Permission): Promise<boolean> {
  if (!ASSIGNEE_PERMISSIONS.some((name) => name === permission) || !within(caller, permission, nodeId)) return false
  return (await nodeSources(at, caller.userId, nodeId)).length > 0
}

/** Whether there may be a node on which the caller holds the permission, by a scoped one or by an assignment. */
async function mayOnSomeNode(at: At, { userId, permissions, scope }: Holder, permission: Permission): Promise<boolean> {
  const scoped = (held: ReadonlySet<string>): boolean => [...held].some((text) => text.startsWith(`${permission}:`))
  if (scoped(permissions)) return true
  if (scope !== null && !grants(scope, permission) && !scoped(scope)) return false
  return (await heldAssignments(at, userId)).length > 0
}

/**
 * The servers that a list shows to the caller: all, or those with these ids together with those that `userId` owns, was
 * granted or is assigned to at `now` (`null`: their key does not reach so far).
 */
export type Visibility =
  | 'all'
  | { readonly ids: readonly string[]; readonly related: { readonly userId: string; readonly now: IsoTime } | null }

/** Which servers the caller may see in lists, by `server.read`. */
export async function visibleServers(at: At, caller: Holder): Promise<Visibility> {
  return visibleBy(at, caller, 'server.read')
}

/** Which nodes the caller may see in lists, by `node.read`. */
export async function visibleNodes(at: At, caller: Holder): Promise<Visibility> {
  return visibleBy(at, caller, 'node.read')
}

async function visibleBy(at: At, caller: Holder, permission: 'server.read' | 'node.read'): Promise<Visibility> {
  if (grants(caller.permissions, permission)) return 'all'
  const prefix = `${permission}:`
  const ids = [...caller.permissions].flatMap((text) => (text.startsWith(prefix) ? [text.slice(prefix.length)] : []))
  if (caller.scope !== null && !grants(caller.scope, permission)) return { ids, related: null }
  const assignments = await heldAssignments(at, caller.userId, [])
  return assignments.length > 0 ? 'all' : { ids, related: { userId: caller.userId, now: at.now } }
}

/** Whether the caller's key, if they call by one, may do that on the resource. */
function within(caller: Holder, permission: Permission, id: string): boolean {
  return caller.scope === null || grants(caller.scope, permission, id)
}

function ensure(allowed: boolean, needed: readonly Permission[]): void {
  if (allowed) return
  throw new PanelError('PERMISSION_DENIED', `This needs the permission ${needed.join(' or ')}`, {
    meta: { missing: [...needed] },
  })
}
