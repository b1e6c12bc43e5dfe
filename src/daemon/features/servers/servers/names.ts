import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Tx } from '../../../db/db.ts'
import { statement } from '../../../db/statement.ts'

/** A name for a server of this owner; `advice` is what to do when it is taken. */
interface Naming {
  readonly ownerId: string
  readonly name: string
  readonly advice?: string
}

/**
 * Refuses a name that another server of the same owner has: whoever names a server means one. Owners do not see each other's, so
 * each may have a `survival`. Writes come one after the other, so that of two at the same time one gets it. Servers that share
 * a name from earlier times, or since one changed hands, keep it.
 */
export async function ensureNameFree(tx: Tx, { ownerId, name, advice }: Naming): Promise<void> {
  const [taken] = await serverNamed(tx.q, { ownerId, name })
  if (taken !== undefined) throw nameTaken(name, taken.id, advice)
}

/** The refusal of a name that this server has. */
export function nameTaken(name: string, serverId: string, advice = 'choose another name'): PanelError {
  const message = `The owner has a server called ${name} already; ${advice}`
  return new PanelError('SERVER_NAME_TAKEN', message, { meta: { serverId } })
}

const serverNamed = statement((q, { ownerId, name }: { ownerId: string; name: string }) =>
  q
    .selectFrom('server')
    .select('id')
    .where('ownerId', '=', ownerId)
    .where(isNamed(name))
    .where('deletingAt', 'is', null)
    .limit(1),
)

/** Whether a server has exactly this name, which is looked up by the collation of the index first: that finds few. */
export function isNamed(name: string | RawBuilder<string>): RawBuilder<SqlBool> {
  return sql<SqlBool>`server.name collate nocase = ${name} and server.name = ${name}`
}
