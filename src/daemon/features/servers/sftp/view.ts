import type { z } from 'zod'
import type { SftpSession, SftpToken } from '../../../../shared/api/sftp.ts'
import type { SftpSessionRow, SftpTokenRow } from './rows.ts'

/** A token as answers show it: what it is, nobody can say any more. */
export function tokenView(
  row: Pick<SftpTokenRow, 'userId' | 'expiresAt' | 'ttlMs' | 'createdAt' | 'lastUsedAt'> & {
    readonly email: string
    readonly username: string
  },
  callerId: string,
): z.input<typeof SftpToken> {
  const { userId, email, username, ttlMs, createdAt, lastUsedAt } = row
  const isSelf = userId === callerId
  return {
    userId,
    email,
    username,
    expiresAt: Date.parse(row.expiresAt),
    ttlMs,
    createdAt,
    lastUsedAt,
    token: null,
    isSelf,
  }
}

/** A session as answers show it. */
export function sessionView(
  row: SftpSessionRow & { readonly username: string },
  callerId: string,
): z.input<typeof SftpSession> {
  const { id, userId, username, nodeId, method, ipAddress, client, createdAt: startedAt } = row
  const isSelf = userId === callerId
  return { id, userId, username, nodeId, method, readOnly: row.isReadOnly === 1, ipAddress, client, startedAt, isSelf }
}
