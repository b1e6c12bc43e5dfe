import type { StreamError } from '../../../../shared/kernel/events.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Log } from '../../../core/log.ts'
import type { Db } from '../../../db/db.ts'

interface EndingDeps {
  readonly db: Db
  readonly bus: Bus
  readonly log: Log
  readonly hub: {
    isWatched(serverId: string): boolean
    endServer(serverId: string, error: StreamError['error']): void
  }
}

/** Ends the console streams of a server that is suspended or deleted while they are watched, with the reason. */
export function endWithServers(deps: EndingDeps): void {
  const { bus, hub } = deps
  bus.listen(({ type, serverId }) => {
    if (serverId === null || !hub.isWatched(serverId)) return
    if (type === 'server_deleted') hub.endServer(serverId, 'server_deleted')
    else if (type === 'server_updated' || type === 'server_state_update') void endIfSuspended(deps, serverId)
  })
}

async function endIfSuspended({ db, hub, log }: EndingDeps, serverId: string): Promise<void> {
  try {
    const row = await db.read.selectFrom('server').select('suspendedAt').where('id', '=', serverId).executeTakeFirst()
    if (row === undefined) hub.endServer(serverId, 'server_deleted')
    else if (row.suspendedAt !== null) hub.endServer(serverId, 'server_suspended')
  } catch (err) {
    log.error({ err, serverId }, 'cannot check whether watched server is suspended')
  }
}
