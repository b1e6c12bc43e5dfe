import * as api from '../../../../shared/api/access.ts'
import type { Answer, Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { type IsoTime, isoTime, now } from '../../../../shared/kernel/time.ts'
import { readPaths, writtenPaths } from '../../../access/member-paths.ts'
import { accountOf, operationsOver, type Principal, transact } from '../../../access/operation.ts'
import { permitServer } from '../../../access/permit.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import { holderNow } from '../../accounts/auth/grant-cap.ts'
import { inviteHashes, newInviteSecrets } from '../../accounts/auth/invite-tokens.ts'
import { mayMail } from '../../accounts/auth/mail-trust.ts'
import { ensureMayGive } from '../../accounts/auth/server-cap.ts'
import { send } from '../../signals/mail/send.ts'
import type { AccessDeps } from './deps.ts'
import { changeableOwnerOf, memberChange, normalPaths, ownerOf } from './grants.ts'

/** An invitation that is over is answered differently from an unknown one for so long. */
const KEPT_AFTER_END_MS = 30 * 86_400_000

/** One page of the open invitations to a server, newest first. */
export async function listServerInvites(
  deps: AccessDeps,
  { params: { serverId }, query }: Input<typeof api.listServerInvites>,
) {
  const { db, clock } = deps
  await ownerOf(db.read, serverId)
  const open = openInvites(db.read, serverId, now(clock))
  const total = await countRows(db.read, open)
  const rows = await open.selectAll().orderBy('id', 'desc').limit(query.limit).offset(offsetOf(query)).execute()
  return { items: rows.map(shown), total: total }
}

const operation = operationsOver<AccessDeps>()

/** Invites somebody to a server: the invitation is one transaction, the mail follows it. `signal` ends the sending. */
export async function createServerInvite(
  deps: AccessDeps,
  request: {
    readonly principal: Principal
    readonly input: Input<typeof api.createServerInvite>
    readonly signal: AbortSignal
  },
): Promise<Answer<typeof api.createServerInvite>> {
  const { principal, input, signal } = request
  const token = newInviteSecrets()
  let about = { serverName: '', mailable: false }
  const invite = await transact(
    operation(
      api.createServerInvite,
      async (work, { params: { serverId }, body: { email, permissions, expiresIn, ...body } }) => {
        const { tx, fail } = work
        const holder = await holderNow(work)
        const filePaths = normalPaths(body.filePaths)
        await changeableOwnerOf(tx.q, serverId)
        await permitServer(tx, holder, serverId, ['server.users'])
        // What is accepted has no end, so nothing that ends can be given this way.
        await ensureMayGive(tx, holder, { serverId, permissions, filePaths, expiresAt: null })
        if (await isMember(tx, serverId, email)) {
          fail('ACCESS_EXISTS', 'The account of this address has access already; change its permissions instead')
        }
        await cancelOpen(tx, serverId, email)
        const id = newId('inv', deps.clock)
        const row = {
          id,
          serverId,
          email,
          permissions: JSON.stringify(permissions),
          filePaths: writtenPaths(filePaths),
          tokenHash: token.hash,
          invitedByUserId: accountOf(work),
          createdAt: tx.now,
          expiresAt: isoTime(Date.parse(tx.now) + expiresIn * 1000),
          acceptedAt: null,
          cancelledAt: null,
        }
        await tx.q.insertInto('serverInvite').values(row).execute()
        const server = await tx.q
          .selectFrom('server')
          .select('name')
          .where('id', '=', serverId)
          .executeTakeFirstOrThrow()
        about = { serverName: server.name, mailable: await mayMail(tx, deps.settings, permissions) }
        const details = { inviteId: id, email, permissions, filePaths, expiresAt: row.expiresAt }
        return {
          answer: { ...shown(row), mailed: false, token: null },
          ...memberChange(work, serverId, { change: 'invite_created', details }),
        }
      },
    ),
    { deps, principal, input },
  )
  const expiresAt = isoTime(Date.parse(invite.expiresAt))
  const { serverName, mailable } = about
  const mail = mailFor(deps, { invite: { email: invite.email, expiresAt }, serverName, token: token.mailed })
  const mailed = mailable && (await send(deps, mail, signal))
  return { ...invite, mailed, token: mailed ? null : token.handedOver }
}

export const cancelServerInvite = operation(
  api.cancelServerInvite,
  async (work, { params: { serverId, inviteId } }) => {
    const { tx, fail } = work
    await ownerOf(tx.q, serverId)
    const row = await tx.q
      .updateTable('serverInvite')
      .set({ cancelledAt: tx.now })
      .where('id', '=', inviteId)
      .where('serverId', '=', serverId)
      .where('acceptedAt', 'is', null)
      .where('cancelledAt', 'is', null)
      .returning('email')
      .executeTakeFirst()
    if (row === undefined) return fail('INVITE_NOT_FOUND', 'There is no such open invitation')
    const details = { inviteId, email: row.email }
    return { answer: null, ...memberChange(work, serverId, { change: 'invite_cancelled', details }) }
  },
)

/** The invitation of a token with the name of its server; fails when it is unknown, used, cancelled or over. */
export async function usableInvite(q: Queries, token: string, at: IsoTime) {
  const row = await q
    .selectFrom('serverInvite')
    .innerJoin('server', 'server.id', 'serverInvite.serverId')
    .selectAll('serverInvite')
    .select(['server.name as serverName', 'server.ownerId'])
    .where('tokenHash', 'in', inviteHashes(token))
    .executeTakeFirst()
  if (row === undefined) throw new PanelError('INVITE_NOT_FOUND', 'There is no such invitation')
  if (row.acceptedAt !== null) throw new PanelError('INVITE_INACTIVE', 'The invitation has been used already')
  if (row.cancelledAt !== null) throw new PanelError('INVITE_INACTIVE', 'The invitation was cancelled')
  if (row.expiresAt <= at) throw new PanelError('INVITE_EXPIRED', 'The invitation has expired; ask for a new one')
  return { ...row, permissions: parseJson(PermissionList, row.permissions), filePaths: readPaths(row.filePaths) }
}

async function isMember(tx: Tx, serverId: string, email: string): Promise<boolean> {
  const row = await tx.q
    .selectFrom('user')
    .leftJoin('serverAccess', (join) =>
      join.onRef('serverAccess.userId', '=', 'user.id').on('serverAccess.serverId', '=', serverId),
    )
    .innerJoin('server', (join) => join.on('server.id', '=', serverId))
    .select(['user.id', 'serverAccess.expiresAt', 'serverAccess.id as grantId', 'server.ownerId'])
    .where('user.email', '=', email)
    .executeTakeFirst()
  if (row === undefined) return false
  return row.ownerId === row.id || (row.grantId !== null && (row.expiresAt === null || row.expiresAt > tx.now))
}

/** A new invitation takes the place of an open one to the same address; those that are long over go. */
async function cancelOpen(tx: Tx, serverId: string, email: string): Promise<void> {
  await tx.q
    .deleteFrom('serverInvite')
    .where('serverId', '=', serverId)
    .where('expiresAt', '<', isoTime(Date.parse(tx.now) - KEPT_AFTER_END_MS))
    .execute()
  await tx.q
    .updateTable('serverInvite')
    .set({ cancelledAt: tx.now })
    .where('serverId', '=', serverId)
    .where('email', '=', email)
    .where('acceptedAt', 'is', null)
    .where('cancelledAt', 'is', null)
    .execute()
}

function openInvites(q: Queries, serverId: string, at: IsoTime) {
  return q
    .selectFrom('serverInvite')
    .where('serverId', '=', serverId)
    .where('acceptedAt', 'is', null)
    .where('cancelledAt', 'is', null)
    .where('expiresAt', '>', at)
}

function shown<
  R extends { readonly tokenHash: string; readonly permissions: string; readonly filePaths: string | null },
>({ tokenHash: _, ...row }: R) {
  return { ...row, permissions: parseJson(PermissionList, row.permissions), filePaths: readPaths(row.filePaths) }
}

function mailFor(
  { settings, publicUrl }: AccessDeps,
  { invite, serverName, token }: { invite: { email: string; expiresAt: IsoTime }; serverName: string; token: string },
) {
  const panel = settings.get('panel.name')
  const url = publicUrl()
  const text = [
    `You are invited to the server ${serverName} on ${panel}.`,
    '',
    `Accept here: ${url}/invites/${token}`,
    '',
    `On the command line: panel invites accept --token-stdin (with an account), or`,
    `panel invites register --url ${url} --username <name> --token-stdin (with a new one), with the token ${token}`,
    '',
    `The invitation ends at ${invite.expiresAt}. If you do not know what this is about, ignore it.`,
  ]
  return { to: invite.email, subject: `Invitation to ${serverName} on ${panel}`, text: text.join('\n') }
}
