import type { Selectable } from 'kysely'
import type { Queries } from '../../../db/db.ts'
import type { Schema } from '../../../db/schema.ts'

export type SshKeyRow = Selectable<Schema['sshKey']>

/** The key of a user with this fingerprint. */
export async function findSshKey(q: Queries, userId: string, fingerprint: string): Promise<SshKeyRow | undefined> {
  return q
    .selectFrom('sshKey')
    .selectAll()
    .where('userId', '=', userId)
    .where('fingerprint', '=', fingerprint)
    .executeTakeFirst()
}
