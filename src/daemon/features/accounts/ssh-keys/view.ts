import type { z } from 'zod'
import type { SshKey } from '../../../../shared/api/ssh-keys.ts'
import type { SshKeyRow } from './rows.ts'

/** A key as answers show it. */
export function sshKeyView(row: SshKeyRow): z.input<typeof SshKey> {
  const { id, name, type, fingerprint, publicKey, isReadOnly, lastUsedAt, createdAt } = row
  return { id, name, type, fingerprint, publicKey, readOnly: isReadOnly === 1, lastUsedAt, createdAt }
}
