import { sql } from 'kysely'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Queries, Tx } from '../../../db/db.ts'
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
  const [taken] = await namesakesOf(tx.q, [{ ownerId, name }])
  if (taken !== undefined) throw nameTaken(name, taken, advice)
}

/** The refusal of a name that this server has. */
export function nameTaken(name: string, serverId: string, advice = 'choose another name'): PanelError {
  const message = `The owner has a server called ${name} already; ${advice}`
  return new PanelError('SERVER_NAME_TAKEN', message, { meta: { serverId } })
}

/** The server that has the name among those of the owner, for each of these; `undefined`: none. */
export async function namesakesOf(
  q: Queries,
  names: readonly Pick<Naming, 'ownerId' | 'name'>[],
): Promise<(string | undefined)[]> {
  const found = await serversNamed(q, { names: JSON.stringify(names.map(({ ownerId, name }) => [ownerId, name])) })
  return found.map(({ id }) => id ?? undefined)
}

/** A name is looked up by the collation of the index first: that finds few. */
const serversNamed = statement((q, { names }: { names: string }) => ({
  compile: () =>
    sql<{ id: string | null }>`
      select (
        select id from server
        where owner_id = given.value ->> 0 and server.name collate nocase = (given.value ->> 1)
          and server.name = (given.value ->> 1) and deleting_at is null
        limit 1
      ) as id
      from json_each(${names}) as given order by given.key`.compile(q),
}))
