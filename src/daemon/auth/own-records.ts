import { z } from 'zod'
import * as api from '../../shared/api/profile.ts'
import { now } from '../../shared/time.ts'
import type { Queries } from '../core/db.ts'
import { parseJson } from '../core/json.ts'
import { type Route, route } from '../core/route.ts'
import { listApiKeyRows } from './api-key-rows.ts'
import type { AccountDeps } from './deps.ts'
import { readProfile } from './own-profile.ts'
import { listOwnSessions } from './sessions.ts'
import { wholeUser } from './whole-user.ts'

/** So many rows of each kind stand in an export at most. */
const EXPORTED = 500

const Details = z.record(z.string(), z.unknown())

/** The routes of what the panel has written down about the caller. */
export function ownRecordRoutes(deps: AccountDeps): Route[] {
  return [
    route(api.listOwnAuditLogs, ({ query }, context) =>
      listOwnAudit(deps.db.read, { ...query, userId: wholeUser(context).userId }),
    ),
    route(api.listOwnApiKeys, ({ query }, context) =>
      listApiKeyRows(deps.db.read, { ...query, ownerId: wholeUser(context).userId }),
    ),
    route(api.exportProfile, async (_, context) => {
      const { userId } = wholeUser(context)
      const exported = await everythingOf(deps, userId)
      return { contentType: 'application/json; charset=utf-8', fileName: 'account.json', content: textOf(exported) }
    }),
  ]
}

async function everythingOf({ db, clock }: AccountDeps, userId: string) {
  const page = { userId, page: 1, limit: EXPORTED }
  const at = now(clock)
  const servers = await db.read
    .selectFrom('server')
    .select(['id', 'name', 'createdAt'])
    .where('ownerId', '=', userId)
    .orderBy('id')
    .execute()
  return {
    exportedAt: at,
    user: await readProfile(db.read, userId),
    sessions: (await listOwnSessions(db.read, { ...page, at })).rows,
    apiKeys: (await listApiKeyRows(db.read, { ownerId: userId, page: 1, limit: EXPORTED })).items,
    auditLogs: (await listOwnAudit(db.read, page)).items,
    serverAccess: servers.map((server) => ({ ...server, relation: 'owner' })),
  }
}

async function listOwnAudit(q: Queries, { userId, page, limit }: { userId: string; page: number; limit: number }) {
  const own = q.selectFrom('auditLog').where('userId', '=', userId)
  const { total } = await own.select((eb) => eb.fn.countAll<number>().as('total')).executeTakeFirstOrThrow()
  const rows = await own
    .select(['id', 'apiKeyId', 'action', 'resource', 'resourceId', 'details', 'ipAddress', 'userAgent', 'requestId'])
    .select('createdAt as timestamp')
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .offset((page - 1) * limit)
    .execute()
  const items = rows.map((row) => ({ ...row, details: row.details === null ? null : parseJson(Details, row.details) }))
  return { items, total: Number(total) }
}

async function* textOf(value: unknown): AsyncGenerator<string> {
  yield `${JSON.stringify(value, null, 2)}\n`
}
