import { FilePaths } from '../../shared/kernel/file-paths.ts'
import { grants } from '../../shared/kernel/permissions.ts'
import { parseJson } from '../db/json.ts'
import type { Holder } from './permit.ts'
import { type At, heldAssignments } from './relations.ts'
import { rolePermissions } from './role-permissions.ts'

/**
 * Which files of a server somebody is held to by their grant; `null`: to none. Its owner, whoever looks after its node and whoever may
 * read and write its files by a role are not held, whatever a grant of theirs says.
 */
export async function memberPaths(
  at: At,
  { userId }: Pick<Holder, 'userId'>,
  serverId: string,
): Promise<FilePaths | null> {
  const row = await at.q
    .selectFrom('serverAccess')
    .innerJoin('server', 'server.id', 'serverAccess.serverId')
    .select(['serverAccess.filePaths', 'serverAccess.expiresAt', 'server.ownerId', 'server.nodeId'])
    .where('serverAccess.serverId', '=', serverId)
    .where('serverAccess.userId', '=', userId)
    .executeTakeFirst()
  if (row === undefined || row.filePaths === null || row.ownerId === userId) return null
  // A grant that has ended gives nothing: what remains is not by it.
  if (row.expiresAt !== null && row.expiresAt <= at.now) return null
  if ((await heldAssignments(at, userId, [row.nodeId])).length > 0) return null
  const byRole = await rolePermissions(at.q, userId)
  if (grants(byRole, 'file.read', serverId) && grants(byRole, 'file.write', serverId)) return null
  return readPaths(row.filePaths)
}

/** The patterns of a column. */
export function readPaths(column: string | null): FilePaths | null {
  return column === null ? null : parseJson(FilePaths, column)
}

/** The patterns as a column has them; lists of nothing hold nobody. */
export function writtenPaths(paths: FilePaths | null | undefined): string | null {
  if (paths === null || paths === undefined || paths.allow.length + paths.deny.length === 0) return null
  return JSON.stringify(paths)
}
