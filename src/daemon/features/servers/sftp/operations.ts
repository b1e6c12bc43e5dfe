import * as api from '../../../../shared/api/sftp.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { now } from '../../../../shared/kernel/time.ts'
import type { Caller } from '../../../access/caller.ts'
import { operationsOver, recordChange } from '../../../access/operation.ts'
import { type Holder, permitServer, serverPermissions } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import { type Context, callerOf } from '../../../http/route.ts'
import { holderOf } from '../../accounts/auth/job-holder.ts'
import { refuseSuspended } from '../servers/orders.ts'
import { findServerRow } from '../servers/rows.ts'
import type { SftpDeps } from './deps.ts'
import { SFTP_RIGHTS } from './grants.ts'
import { makeToken } from './rows.ts'
import { type SftpServerDeps, sftpOfNode } from './sftp-of-node.ts'
import { sessionView, tokenView } from './view.ts'

/** Where the SSH server of a server's node is, and unless that is not wanted a token of the caller for it, which is shown this once. */
export async function connectionInfo(
  deps: SftpServerDeps,
  { query: { serverId, ttl, token: wantsToken } }: Input<typeof api.sftpInfo>,
  context: Context<typeof api.sftpInfo>,
) {
  const caller = callerOf(context)
  const at = { q: deps.db.read, now: now(deps.clock) }
  await (wantsToken ? permitToken(at, caller, serverId) : permitServer(at, caller, serverId, ['file.sftp']))
  const server = await shownServer(at, serverId)
  refuseSuspended(server)
  const user = await at.q
    .selectFrom('user')
    .select('username')
    .where('id', '=', caller.userId)
    .executeTakeFirstOrThrow()
  const by = { deps, principal: context.principal, endpoint: api.sftpInfo }
  const made = wantsToken
    ? await deps.db.write(async (tx) => {
        const ttlMs = ttlWithin(caller, ttl, tx.now)
        const token = await makeToken(tx, deps.clock, {
          userId: caller.userId,
          serverId,
          ttlMs,
          apiKeyId: keyOf(caller),
        })
        await recordChange(tx, by, { audit: { resourceId: serverId, details: { ttlMs: ttl } } })
        return token
      })
    : undefined
  return {
    ...(await sftpOfNode(deps, server.nodeId)),
    username: `${user.username}.${serverId}`,
    sftpPassword: made?.token ?? null,
    expiresAt: made?.expiresAtMs ?? null,
    ttlMs: ttl,
    ttlOptions: api.SFTP_TTL.options.map((option) => ({ ...option })),
  }
}

const operation = operationsOver<SftpDeps>()

export const rotateToken = operation(api.rotateSftpToken, async (work, { body: { serverId, ttlMs } }) => {
  const { tx, deps, holder } = work
  await permitToken(tx, holder, serverId)
  refuseSuspended(await shownServer(tx, serverId))
  const { userId } = holder
  const gone = await tx.q
    .deleteFrom('sftpToken')
    .where('serverId', '=', serverId)
    .where('userId', '=', userId)
    .executeTakeFirst()
  const within = ttlWithin(work.caller, ttlMs, tx.now)
  const { token, expiresAtMs } = await makeToken(tx, deps.clock, {
    userId,
    serverId,
    ttlMs: within,
    apiKeyId: keyOf(work.caller),
  })
  tx.onCommit(() => deps.credentials.changed())
  return {
    answer: { sftpPassword: token, expiresAt: expiresAtMs, ttlMs },
    audit: { resourceId: serverId, details: { ttlMs, replaced: Number(gone.numDeletedRows) } },
  }
})

/** The tokens of a server that are good now, without what they are. */
export async function listTokens(
  deps: SftpDeps,
  { query: { serverId } }: Input<typeof api.listSftpTokens>,
  context: Context<typeof api.listSftpTokens>,
) {
  const caller = callerOf(context)
  const at = { q: deps.db.read, now: now(deps.clock) }
  const isAll = await mayManage(at, caller, serverId)
  if (!isAll) await permitServer(at, caller, serverId, ['file.sftp'])
  await shownServer(at, serverId)
  let query = at.q
    .selectFrom('sftpToken')
    .innerJoin('user', 'user.id', 'sftpToken.userId')
    .select([
      'sftpToken.userId',
      'sftpToken.expiresAt',
      'sftpToken.ttlMs',
      'sftpToken.createdAt',
      'sftpToken.lastUsedAt',
    ])
    .select(['user.email', 'user.username'])
    .where('sftpToken.serverId', '=', serverId)
    .where('sftpToken.expiresAt', '>', at.now)
  if (!isAll) query = query.where('sftpToken.userId', '=', caller.userId)
  const rows = await query.orderBy('sftpToken.id', 'desc').limit(1000).execute()
  return rows.map((row) => tokenView(row, caller.userId))
}

export const revokeUserTokens = operation(
  api.revokeUserSftpTokens,
  async (work, { params: { tokenUserId }, query: { serverId } }) => {
    const { tx, deps, holder, fail } = work
    if (holder.userId === tokenUserId) await ensureSees(tx, holder, serverId)
    else await permitServer(tx, holder, serverId, ['server.users'])
    await shownServer(tx, serverId)
    const gone = await tx.q
      .deleteFrom('sftpToken')
      .where('serverId', '=', serverId)
      .where('userId', '=', tokenUserId)
      .executeTakeFirst()
    if (gone.numDeletedRows === 0n) return fail('SFTP_TOKEN_NOT_FOUND', 'The user has no SFTP token of this server')
    tx.onCommit(() => deps.credentials.changed())
    const details = { userId: tokenUserId, revoked: Number(gone.numDeletedRows) }
    return { answer: null, audit: { resourceId: serverId, details } }
  },
)

export const revokeTokens = operation(api.revokeSftpTokens, async (work, { query: { serverId } }) => {
  const { tx, deps, holder } = work
  await permitServer(tx, holder, serverId, ['server.users'])
  await shownServer(tx, serverId)
  const gone = await tx.q.deleteFrom('sftpToken').where('serverId', '=', serverId).executeTakeFirst()
  const revoked = Number(gone.numDeletedRows)
  if (revoked === 0) return { answer: { revoked } }
  tx.onCommit(() => deps.credentials.changed())
  return { answer: { revoked }, audit: { resourceId: serverId, details: { revoked } } }
})

/** A token stands for its user: an API key that may do less on the server than they may does not get one. */
async function permitToken(at: At, holder: Holder, serverId: string): Promise<void> {
  await permitServer(at, holder, serverId, ['file.sftp'])
  if (holder.scope === null) return
  const user = await holderOf(at, holder.userId, null)
  const held = user === undefined ? [] : await serverPermissions(at, user, serverId, SFTP_RIGHTS)
  const own = await serverPermissions(at, holder, serverId, held)
  const missing = held.filter((permission) => !own.includes(permission))
  if (missing.length === 0) return
  throw new PanelError(
    'PERMISSION_DENIED',
    `An SFTP token may do all that your account may do here, and this API key lacks ${missing.join(' and ')}: sign in, or ask without a token (token=false)`,
    { meta: { missing } },
  )
}

function keyOf(caller: Pick<Caller, 'kind' | 'credentialId'> | undefined): string | null {
  return caller?.kind === 'apiKey' ? caller.credentialId : null
}

/** What is made by an API key does not outlive it. */
function ttlWithin(caller: Pick<Caller, 'kind' | 'expiresAt'> | undefined, ttlMs: number, nowText: string): number {
  if (caller?.kind !== 'apiKey' || caller.expiresAt === null) return ttlMs
  return Math.min(ttlMs, Math.max(0, Date.parse(caller.expiresAt) - Date.parse(nowText)))
}

/** One page of those who are in. */
export async function listSessions(
  deps: SftpDeps,
  { query }: Input<typeof api.listSftpSessions>,
  context: Context<typeof api.listSftpSessions>,
) {
  const { serverId } = query
  const caller = callerOf(context)
  const at = { q: deps.db.read, now: now(deps.clock) }
  const isAll = await mayManage(at, caller, serverId)
  if (!isAll) await ensureSees(at, caller, serverId)
  await shownServer(at, serverId)
  let of = at.q.selectFrom('sftpSession').where('sftpSession.serverId', '=', serverId)
  if (!isAll) of = of.where('sftpSession.userId', '=', caller.userId)
  const total = await countRows(at.q, of)
  const rows = await of
    .innerJoin('user', 'user.id', 'sftpSession.userId')
    .selectAll('sftpSession')
    .select('user.username')
    .orderBy('sftpSession.id', 'desc')
    .limit(query.limit)
    .offset(offsetOf(query))
    .execute()
  return { items: rows.map((row) => sessionView(row, caller.userId)), total }
}

export const endSession = operation(api.endSftpSession, async (work, { params: { sftpSessionId } }) => {
  const { tx, deps, holder, fail } = work
  const row = await tx.q.selectFrom('sftpSession').selectAll().where('id', '=', sftpSessionId).executeTakeFirst()
  const isOwn = row?.userId === holder.userId && holder.scope === null
  if (row === undefined || !(isOwn || (await mayManage(tx, holder, row.serverId)))) {
    return fail('SFTP_SESSION_NOT_FOUND', `There is no session ${sftpSessionId} that you may end`)
  }
  const endedBecause = isOwn ? 'Its user has ended the session' : 'The session was ended by who manages the server'
  await tx.q.updateTable('sftpSession').set({ endedBecause }).where('id', '=', row.id).execute()
  tx.onCommit(() => deps.credentials.changed())
  const details = { sessionId: row.id, userId: row.userId }
  return { answer: null, audit: { resourceId: row.serverId, details } }
})

async function mayManage(at: At, holder: Holder, serverId: string): Promise<boolean> {
  return (await serverPermissions(at, holder, serverId, ['server.users'])).length > 0
}

async function ensureSees(at: At, holder: Holder, serverId: string): Promise<void> {
  const held = await serverPermissions(at, holder, serverId, ['file.sftp', 'console.read'])
  if (held.length === 0) await permitServer(at, holder, serverId, ['file.sftp'])
}

async function shownServer({ q }: At, serverId: string) {
  const row = await findServerRow(q, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', `There is no server ${serverId}`)
  return row
}
