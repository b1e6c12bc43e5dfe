import type { Bus } from '../../../core/bus.ts'
import type { Log } from '../../../core/log.ts'
import type { SseConnection } from '../../../http/sse.ts'

/** A stream about one server, and how the server is looked up. */
interface Watched {
  readonly bus: Bus
  readonly connection: SseConnection
  readonly serverId: string
  readonly log: Log
  readonly find: () => Promise<{ readonly suspendedAt: string | null } | undefined>
}

/** Ends the stream, with the reason, when its server is suspended or deleted; the returned function stops the watching. */
export function endWithServer({ bus, connection, serverId, log, find }: Watched): () => void {
  const look = async (): Promise<void> => {
    try {
      const row = await find()
      if (row === undefined) connection.fail('server_deleted', { serverId })
      else if (row.suspendedAt !== null) connection.fail('server_suspended', { serverId, code: 'SERVER_SUSPENDED' })
    } catch (err) {
      log.error({ err, serverId }, 'cannot check whether watched server exists')
    }
  }
  const stop = bus.listen((event) => {
    if (event.serverId === serverId && event.type !== 'server_command_done') void look()
  })
  void look() // it may have happened before the watching began
  return stop
}
