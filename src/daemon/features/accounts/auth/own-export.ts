import type { exportProfile as endpoint } from '../../../../shared/api/profile.ts'
import { type IsoTime, now } from '../../../../shared/kernel/time.ts'
import { readPaths } from '../../../access/member-paths.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import type { Context } from '../../../http/route.ts'
import { listApiKeyRows } from './api-key-rows.ts'
import type { AccountDeps } from './deps.ts'
import { readProfile } from './own-profile.ts'
import { listOwnAudit } from './own-records.ts'
import { listOwnSessions } from './sessions.ts'
import { wholeUser } from './whole-user.ts'

/** So many rows of each kind stand in an export at most. */
const EXPORTED = 500

/** The file with what the panel has stored about the caller. */
export async function exportProfile(deps: AccountDeps, context: Context<typeof endpoint>) {
  const { userId } = wholeUser(context)
  const exported = await everythingOf(deps, userId)
  return { contentType: 'application/json; charset=utf-8', fileName: 'account.json', content: textOf(exported) }
}

async function everythingOf({ db: { read }, clock }: AccountDeps, userId: string) {
  const page = { userId, page: 1, limit: EXPORTED }
  const at = now(clock)
  return {
    exportedAt: at,
    user: await readProfile(read, userId),
    roles: await rolesOf(read, userId),
    sessions: (await listOwnSessions(read, { ...page, at })).rows,
    passkeys: await passkeysOf(read, userId),
    sshKeys: await sshKeysOf(read, userId),
    apiKeys: (await listApiKeyRows(read, { ownerId: userId, page: 1, limit: EXPORTED })).items,
    auditLogs: (await listOwnAudit(read, page)).items,
    serverAccess: [...(await ownedServers(read, userId)), ...(await grantedServers(read, userId, at))],
    nodeAssignments: await assignmentsOf(read, userId),
  }
}

async function rolesOf(q: Queries, userId: string) {
  return q
    .selectFrom('userRole')
    .innerJoin('role', 'role.id', 'userRole.roleId')
    .select(['role.id', 'role.name'])
    .where('userRole.userId', '=', userId)
    .orderBy('role.id')
    .limit(EXPORTED)
    .execute()
}

async function passkeysOf(q: Queries, userId: string) {
  return q
    .selectFrom('passkey')
    .select(['id', 'name', 'credentialId', 'deviceType', 'createdAt', 'lastUsedAt'])
    .where('userId', '=', userId)
    .orderBy('id')
    .limit(EXPORTED)
    .execute()
}

async function sshKeysOf(q: Queries, userId: string) {
  return q
    .selectFrom('sshKey')
    .select(['id', 'name', 'publicKey', 'fingerprint', 'isReadOnly', 'createdAt', 'lastUsedAt'])
    .where('userId', '=', userId)
    .orderBy('id')
    .limit(EXPORTED)
    .execute()
}

async function ownedServers(q: Queries, userId: string) {
  const rows = await q
    .selectFrom('server')
    .select(['id', 'name', 'createdAt'])
    .where('ownerId', '=', userId)
    .orderBy('id')
    .limit(EXPORTED)
    .execute()
  return rows.map((server) => ({ ...server, relation: 'owner' as const }))
}

async function grantedServers(q: Queries, userId: string, at: IsoTime) {
  const rows = await q
    .selectFrom('serverAccess')
    .innerJoin('server', 'server.id', 'serverAccess.serverId')
    .select([
      'server.id',
      'server.name',
      'serverAccess.permissions',
      'serverAccess.filePaths',
      'serverAccess.expiresAt',
      'serverAccess.createdAt',
    ])
    .where('serverAccess.userId', '=', userId)
    .where((eb) => eb.or([eb('serverAccess.expiresAt', 'is', null), eb('serverAccess.expiresAt', '>', at)]))
    .orderBy('server.id')
    .limit(EXPORTED)
    .execute()
  return rows.map((row) => ({
    ...row,
    permissions: parseJson(PermissionList, row.permissions),
    filePaths: readPaths(row.filePaths),
    relation: 'member' as const,
  }))
}

async function assignmentsOf(q: Queries, userId: string) {
  return q
    .selectFrom('nodeAssignment')
    .select(['id', 'nodeId', 'assignedAt', 'expiresAt'])
    .where('userId', '=', userId)
    .orderBy('id')
    .limit(EXPORTED)
    .execute()
}

async function* textOf(value: unknown): AsyncGenerator<string> {
  yield `${JSON.stringify(value, null, 2)}\n`
}
