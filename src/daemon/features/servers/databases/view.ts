import type { ServerDatabase } from '../../../../shared/api/databases.ts'
import type { ShownRow } from './database-rows.ts'
import type { DatabaseDeps } from './deps.ts'
import { HostFailure } from './host-failure.ts'
import { databasePlace, opened } from './secrets.ts'

/** A database as the API answers it, with its password where the caller may see it. */
export function toDatabase(
  { vault, log }: Pick<DatabaseDeps, 'vault' | 'log'>,
  row: ShownRow,
  withPassword: boolean,
): ServerDatabase {
  const { name, username, remote, engine, host, port, hostName, state, managed, createdAt } = row
  if (state !== 'ready' && state !== 'rotating' && state !== 'deleting') throw new Error(`${row.id} is ${state}`)
  const password = withPassword && vault.hasKey ? passwordOf({ vault, log }, row) : null
  // The columns hold ids that newId made or an import checked; the row was found by its server.
  const ids = { id: row.id, serverId: row.serverId, hostId: row.hostId } as Pick<
    ServerDatabase,
    'id' | 'serverId' | 'hostId'
  >
  const place = { engine, host, port, hostName }
  return { ...ids, name, username, password, remote, ...place, state, managed: managed === 1, createdAt }
}

/** Reading goes on when the key is another one: the database is shown without its password. */
function passwordOf({ vault, log }: Pick<DatabaseDeps, 'vault' | 'log'>, row: ShownRow): string | null {
  try {
    return opened(vault, databasePlace(row.id), row.password)
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error
    log.warn({ databaseId: row.id }, 'database password is encrypted with another key')
    return null
  }
}
