import { errorText } from '../logger.ts'
import type { GameServer } from './server.ts'
import type { ServerContext } from './server-context.ts'

const LOOK_MS = 16_000

/** Removes what a deleted server has left outside its folders; what cannot be removed now is removed later. */
export async function discardRemains({ runtimes, log }: ServerContext, serverId: string): Promise<void> {
  try {
    await runtimes.discard(serverId)
  } catch (error) {
    log.warn({ serverId, err: errorText(error) }, 'cannot remove what a deleted server has left, trying again')
  }
}

/** Removes what deleted servers have left while it could not be removed (an engine was away). Ends with the agent. */
export async function watchLeftovers(context: ServerContext, servers: ReadonlyMap<string, GameServer>): Promise<void> {
  const { runtimes, journal, log, rounds, ending } = context
  while (!ending.aborted) {
    try {
      for (const serverId of await runtimes.remains()) {
        if (servers.has(serverId) || journal.goneGeneration(serverId) === undefined) continue
        log.info({ serverId }, 'removing what a deleted server has left')
        await discardRemains(context, serverId)
      }
    } catch (error) {
      log.warn({ err: errorText(error) }, 'cannot look for what deleted servers have left')
    }
    await rounds.next(LOOK_MS, ending)
  }
}
