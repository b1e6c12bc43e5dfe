import type { SftpGrant } from '../../../../shared/protocol/sftp.ts'
import { memberPaths } from '../../../access/member-paths.ts'
import { serverPermissions } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import { sha256 } from '../../../core/secrets.ts'
import { holderOf } from '../../accounts/auth/job-holder.ts'
import { hasTwoFactor } from '../../accounts/auth/two-factor-rows.ts'
import { deniedTo } from '../files/denied-files.ts'
import { findServerRow } from '../servers/rows.ts'
import type { SftpSessionRow } from './rows.ts'

/** By what somebody has come in. */
export type CredentialOf = Pick<SftpSessionRow, 'userId' | 'method' | 'credential'>

/** On what somebody's rights are looked up. */
interface Standing extends Pick<SftpSessionRow, 'userId' | 'serverId' | 'nodeId' | 'isReadOnly'> {
  /** The API key that has made the token of the session, beyond which it may nothing; `null`: there is none. */
  readonly apiKeyId: string | null
}

/** What somebody may do on a server over SSH now, or why nothing. */
export type GrantNow =
  | { readonly grant: SftpGrant; readonly reason: null }
  | { readonly grant: null; readonly reason: string }

/** What a session may be allowed. */
export const SFTP_RIGHTS = ['file.sftp', 'file.read', 'file.write', 'console.read', 'console.write'] as const

/** The rights of a session at this moment: of its credential, of its user on the server, and of the server itself. */
export async function grantOf(
  at: At,
  session: CredentialOf & Pick<SftpSessionRow, 'serverId' | 'nodeId' | 'isReadOnly' | 'endedBecause'>,
): Promise<GrantNow> {
  if (session.endedBecause !== null) return none(session.endedBecause)
  const credential = await credentialNow(at, session)
  return typeof credential === 'string' ? none(credential) : await rightsOn(at, { ...session, ...credential })
}

/** The rights of a user on a server of a node; what they have come in by is looked at before. */
export async function rightsOn(
  at: At,
  { userId, apiKeyId, serverId, nodeId, isReadOnly }: Standing,
): Promise<GrantNow> {
  const holder = await holderOf(at, userId, apiKeyId)
  if (holder === undefined) {
    const key = 'The API key that has made this token is disabled or has expired, or its account is banned'
    return none(apiKeyId === null ? 'The account is banned or deleted' : key)
  }
  const row = await findServerRow(at.q, serverId)
  if (row === undefined || row.deletingAt !== null) return none('The server is deleted')
  const held = new Set<string>(await serverPermissions(at, holder, serverId, SFTP_RIGHTS))
  const mayChange = isReadOnly === 0
  const filePaths = await memberPaths(at, holder, serverId)
  const grant = {
    read: held.has('file.sftp') && held.has('file.read'),
    write: held.has('file.sftp') && held.has('file.write') && mayChange,
    consoleRead: held.has('console.read'),
    consoleWrite: held.has('console.write') && mayChange,
    denied: deniedTo(row, holder),
    ...(filePaths === null ? {} : { filePaths }),
  }
  if (!grant.read && !grant.write && !grant.consoleRead) {
    return none('This account has no right to the files of this server by SFTP (file.sftp), nor to its console')
  }
  if (row.nodeId !== nodeId) return none('The server is on another node now')
  if (row.suspendedAt !== null) return none('The server is suspended')
  return { grant, reason: null }
}

/** Why an account does not come in by its password; `undefined`: it does. */
export async function passwordProblem({ q }: At, userId: string): Promise<string | undefined> {
  if (await hasTwoFactor(q, userId)) {
    return 'This account has a second factor: use an SSH key (panel profile ssh-keys) or an SFTP token (panel sftp info)'
  }
  const identity = await q.selectFrom('identity').select('id').where('userId', '=', userId).executeTakeFirst()
  if (identity === undefined) return undefined
  return 'This account signs in by an identity provider: use an SSH key (panel profile ssh-keys) or an SFTP token (panel sftp info)'
}

/** A password as sessions remember it: another one after each change. */
export function passwordMark(passwordHash: string): string {
  return sha256(passwordHash)
}

/** The API key by which rights are bounded, or why the credential is good no more. */
async function credentialNow(
  at: At,
  { userId, method, credential }: CredentialOf,
): Promise<Pick<Standing, 'apiKeyId'> | string> {
  if (method === 'token') {
    const found = at.q.selectFrom('sftpToken').select(['expiresAt', 'apiKeyId']).where('id', '=', credential)
    const token = await found.executeTakeFirst()
    if (token === undefined) return 'The SFTP token was revoked'
    return token.expiresAt > at.now ? { apiKeyId: token.apiKeyId } : 'The SFTP token has expired'
  }
  if (method === 'key') {
    const key = await at.q.selectFrom('sshKey').select('id').where('id', '=', credential).executeTakeFirst()
    return key === undefined ? 'The SSH key was deleted' : { apiKeyId: null }
  }
  const user = await at.q.selectFrom('user').select('passwordHash').where('id', '=', userId).executeTakeFirst()
  if (user?.passwordHash == null || passwordMark(user.passwordHash) !== credential) return 'The password was changed'
  return (await passwordProblem(at, userId)) ?? { apiKeyId: null }
}

function none(reason: string): GrantNow {
  return { grant: null, reason }
}
