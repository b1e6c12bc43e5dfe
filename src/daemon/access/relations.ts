import { expressionBuilder } from 'kysely'
import { z } from 'zod'
import { ASSIGNEE_PERMISSIONS, OWNER_PERMISSIONS, type Permission } from '../../shared/kernel/permissions.ts'
import type { IsoTime } from '../../shared/kernel/time.ts'
import type { Queries } from '../db/db.ts'
import { parseJson } from '../db/json.ts'
import type { Schema } from '../db/schema.ts'

/** Where and when rights are looked up: a reader with the present time, or a transaction. */
export interface At {
  readonly q: Queries
  readonly now: IsoTime
}

/** One reason why a user may do something with a server or node, beside their roles. */
export interface Source {
  readonly kind: 'owner' | 'grant' | 'assignment'
  /** The id of the grant or assignment; of an owner that of the server. */
  readonly id: string
  readonly permissions: readonly string[]
  /** When it ends; `null`: it does not. */
  readonly expiresAt: IsoTime | null
  /** The role by which a user has an assignment. */
  readonly role: { readonly id: string; readonly name: string } | null
}

/** An assignment that holds now. `nodeId` is `null` for every node. */
export interface HeldAssignment {
  readonly id: string
  readonly nodeId: string | null
  readonly expiresAt: IsoTime | null
  readonly role: { readonly id: string; readonly name: string } | null
}

const Permissions = z.array(z.string())
const owned: ReadonlySet<string> = new Set(OWNER_PERMISSIONS)
const forAssignees: ReadonlySet<string> = new Set(ASSIGNEE_PERMISSIONS)

/** What the user may do with a server by owning it, by a grant, and by assignments of its node; nothing when it is not there. */
export async function serverSources(at: At, userId: string, serverId: string): Promise<Source[]> {
  const row = await at.q
    .selectFrom('server')
    .leftJoin('serverAccess', (join) =>
      join.onRef('serverAccess.serverId', '=', 'server.id').on('serverAccess.userId', '=', userId),
    )
    .select(['server.ownerId', 'server.nodeId', 'serverAccess.id as grantId'])
    .select(['serverAccess.permissions', 'serverAccess.expiresAt'])
    .where('server.id', '=', serverId)
    .executeTakeFirst()
  if (row === undefined) return []
  const sources: Source[] = []
  if (row.ownerId === userId) {
    sources.push({ kind: 'owner', id: serverId, permissions: OWNER_PERMISSIONS, expiresAt: null, role: null })
  }
  if (row.grantId !== null && row.permissions !== null && holds(row.expiresAt, at.now)) {
    const permissions = parseJson(Permissions, row.permissions)
    sources.push({ kind: 'grant', id: row.grantId, permissions, expiresAt: row.expiresAt, role: null })
  }
  const assignments = await heldAssignments(at, userId, [row.nodeId])
  return [...sources, ...assignments.map((one) => fromAssignment(one, OWNER_PERMISSIONS))]
}

/** What the user may do with a node by assignments. */
export async function nodeSources(at: At, userId: string, nodeId: string): Promise<Source[]> {
  const assignments = await heldAssignments(at, userId, [nodeId])
  return assignments.map((one) => fromAssignment(one, ASSIGNEE_PERMISSIONS))
}

/** The user's present assignments, their own and those of their roles: all, or those that cover one of the nodes. */
export async function heldAssignments(at: At, userId: string, nodeIds?: readonly string[]): Promise<HeldAssignment[]> {
  let query = at.q
    .selectFrom('nodeAssignment')
    .leftJoin('role', 'role.id', 'nodeAssignment.roleId')
    .select(['nodeAssignment.id', 'nodeAssignment.nodeId', 'nodeAssignment.expiresAt'])
    .select(['role.id as roleId', 'role.name as roleName'])
    .where((eb) => eb.or([eb('nodeAssignment.expiresAt', 'is', null), eb('nodeAssignment.expiresAt', '>', at.now)]))
    .where((eb) =>
      eb.or([eb('nodeAssignment.userId', '=', userId), eb('nodeAssignment.roleId', 'in', rolesOf(userId))]),
    )
  if (nodeIds !== undefined) {
    query = query.where((eb) => {
      const every = eb('nodeAssignment.nodeId', 'is', null)
      return nodeIds.length === 0 ? every : eb.or([every, eb('nodeAssignment.nodeId', 'in', [...nodeIds])])
    })
  }
  const rows = await query.orderBy('nodeAssignment.id').execute()
  return rows.map(({ id, nodeId, expiresAt, roleId, roleName }) => ({
    id,
    nodeId,
    expiresAt,
    role: roleId === null || roleName === null ? null : { id: roleId, name: roleName },
  }))
}

/** A server as far as rights on it depend on its row. */
export interface Rooted {
  readonly id: string
  readonly ownerId: string
  readonly nodeId: string
}

/** What the user may do with each of the servers beside their roles, by three small reads however many they are. */
export async function relationsTo(
  at: At,
  userId: string,
  servers: readonly Rooted[],
): Promise<(server: Rooted, permission: string) => boolean> {
  if (servers.length === 0) return () => false
  const ids = servers.map(({ id }) => id)
  const grantRows = await at.q
    .selectFrom('serverAccess')
    .select(['serverId', 'permissions', 'expiresAt'])
    .where('userId', '=', userId)
    .where('serverId', 'in', ids)
    .execute()
  const granted = new Map(
    grantRows
      .filter(({ expiresAt }) => holds(expiresAt, at.now))
      .map(({ serverId, permissions }) => [serverId, new Set(parseJson(Permissions, permissions))]),
  )
  const assignments = await heldAssignments(at, userId, [...new Set(servers.map(({ nodeId }) => nodeId))])
  const everyNode = assignments.some(({ nodeId }) => nodeId === null)
  const assigned = new Set(assignments.map(({ nodeId }) => nodeId))
  return (server, permission) =>
    (owned.has(permission) && (server.ownerId === userId || everyNode || assigned.has(server.nodeId))) ||
    granted.get(server.id)?.has(permission) === true
}

/** Which permissions for single servers or nodes (`server.read:ID`) the user holds now beside their roles. */
export async function heldByRelation(at: At, userId: string, texts: readonly string[]): Promise<string[]> {
  const parts = texts.flatMap((text) => {
    const part = scoped(text)
    return part === undefined ? [] : [{ text, ...part }]
  })
  if (parts.length === 0) return []
  const ids = [...new Set(parts.map(({ id }) => id))]
  const servers = await at.q.selectFrom('server').select(['id', 'ownerId', 'nodeId']).where('id', 'in', ids).execute()
  const byId = new Map(servers.map((server) => [server.id, server]))
  const mayOn = await relationsTo(at, userId, servers)
  const assignments = await heldAssignments(at, userId, ids)
  return parts.flatMap(({ text, permission, id }) => {
    const server = byId.get(id)
    const onNode =
      forAssignees.has(permission) &&
      assignments.some(({ nodeId }) => nodeId === id || nodeId === null) &&
      server === undefined
    return onNode || (server !== undefined && mayOn(server, permission)) ? [text] : []
  })
}

/** A permission for one resource in its parts; `undefined` for one that is panel-wide. */
export function scoped(text: string): { permission: Permission; id: string } | undefined {
  const at = text.indexOf(':')
  if (at < 0 || text.endsWith(':*')) return undefined
  return { permission: text.slice(0, at) as Permission, id: text.slice(at + 1) } // callers pass what isGrantable accepted
}

/** Whether somebody can hold this on a single server or node without a role. */
export function isRelational(permission: Permission): boolean {
  return owned.has(permission) || forAssignees.has(permission)
}

/** The nodes of the user's present assignments, as a subquery; one for every node is not among them. */
export function assignedNodes({ userId, now }: { readonly userId: string; readonly now: IsoTime }) {
  return expressionBuilder<Schema>()
    .selectFrom('nodeAssignment')
    .select('nodeAssignment.nodeId')
    .where('nodeAssignment.nodeId', 'is not', null)
    .where((on) => on.or([on('nodeAssignment.expiresAt', 'is', null), on('nodeAssignment.expiresAt', '>', now)]))
    .where((on) =>
      on.or([on('nodeAssignment.userId', '=', userId), on('nodeAssignment.roleId', 'in', rolesOf(userId))]),
    )
}

/** The ids of the user's roles, as a subquery. */
function rolesOf(userId: string) {
  return expressionBuilder<Schema>()
    .selectFrom('userRole')
    .select('userRole.roleId')
    .where('userRole.userId', '=', userId)
}

function holds(expiresAt: IsoTime | null, now: IsoTime): boolean {
  return expiresAt === null || expiresAt > now
}

function fromAssignment({ id, expiresAt, role }: HeldAssignment, permissions: readonly string[]): Source {
  return { kind: 'assignment', id, permissions, expiresAt, role }
}
