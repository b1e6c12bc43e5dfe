import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Caller } from '../../../access/caller.ts'
import { isRelational, scoped } from '../../../access/relations.ts'
import { PermissionList, rolePermissions } from '../../../access/role-permissions.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { intersection } from './effective.ts'

/** A credential as the database has it, with all that changes only by a write. What time decides is evaluated at each use. */
export interface CredentialEntry {
  readonly secretHash: string
  readonly enabled: boolean
  readonly ban: { readonly expires: IsoTime | null } | null
  /** A session that slides. */
  readonly sliding: boolean
  readonly caller: Caller
  /** Permissions of a key for single servers and nodes that count only while its user holds them beside their roles. */
  readonly whileRelated: readonly string[]
}

/** Reads a session with its user. */
export async function readSession(q: Queries, id: string): Promise<CredentialEntry | undefined> {
  const row = await q
    .selectFrom('session')
    .innerJoin('user', 'user.id', 'session.userId')
    .select(['session.userId', 'session.secretHash', 'session.persistent', 'session.expiresAt'])
    .select(['user.banned', 'user.banExpires'])
    .where('session.id', '=', id)
    .executeTakeFirst()
  if (row === undefined) return undefined
  return {
    secretHash: row.secretHash,
    enabled: true,
    ban: banOf(row),
    sliding: row.persistent === 1,
    caller: {
      kind: 'session',
      credentialId: id,
      userId: row.userId,
      permissions: await rolePermissions(q, row.userId),
      scope: null,
      expiresAt: row.expiresAt,
      rateLimit: null,
    },
    whileRelated: [],
  }
}

/** Reads an API key with its user. */
export async function readApiKey(q: Queries, id: string): Promise<CredentialEntry | undefined> {
  const row = await q
    .selectFrom('apiKey')
    .innerJoin('user', 'user.id', 'apiKey.userId')
    .selectAll('apiKey')
    .select(['user.banned', 'user.banExpires'])
    .where('apiKey.id', '=', id)
    .executeTakeFirst()
  if (row === undefined) return undefined
  const held = await rolePermissions(q, row.userId)
  const scope = row.allPermissions === 1 ? null : new Set(parseJson(PermissionList, row.permissions))
  const permissions = scope === null ? held : intersection(scope, held)
  return {
    secretHash: row.secretHash,
    enabled: row.enabled === 1,
    ban: banOf(row),
    sliding: false,
    caller: {
      kind: 'apiKey',
      credentialId: id,
      userId: row.userId,
      permissions,
      scope,
      expiresAt: row.expiresAt,
      rateLimit: row.rateLimitEnabled === 1 ? { max: row.rateLimitMax, windowMs: row.rateLimitTimeWindow } : null,
    },
    whileRelated: [...(scope ?? [])].filter((text) => {
      const part = scoped(text)
      return part !== undefined && isRelational(part.permission) && !permissions.has(text)
    }),
  }
}

function banOf(row: { banned: 0 | 1; banExpires: IsoTime | null }): CredentialEntry['ban'] {
  return row.banned === 1 ? { expires: row.banExpires } : null
}
