import type { ResultOf } from '../../shared/protocol/define.ts'
import type { deleteServer } from '../../shared/protocol/server.ts'
import { removeFolder } from '../files/tree.ts'
import type { ServerPlace } from '../runtime/runtime.ts'
import { discardRemains } from './leftovers.ts'
import type { GameServer } from './server.ts'
import type { ServerContext } from './server-context.ts'
import { killRun, stopGame } from './stop.ts'

/** What a deletion has removed: entries of the game's folder. */
type Removed = ResultOf<typeof deleteServer>

/** Stops a server and removes what is left of it on this node; with `keepFiles` the game's files stay. */
export async function removeServer(server: GameServer, keepFiles: boolean, commandId: string): Promise<Removed> {
  server.restartWait?.abort()
  if (server.game !== undefined) await stopGame(server, { commandId, desired: 'stopped' })
  if (server.live !== undefined) await killRun(server, server.live)
  await discardRemains(server.context, server.id)
  if (!keepFiles) server.emptied.abort()
  const removed = await removeFolders(server.place, keepFiles).catch((error: unknown) => {
    server.emptied = new AbortController()
    throw error
  })
  await server.context.limits.release(server.id, server.place.files)
  const { generation } = server.facts
  server.markDeleted()
  await server.context.journal.write({ gone: { serverId: server.id, generation } })
  return removed
}

/** Removes folders that belong to no known server, and ends what still runs in them: the journal was lost before. */
export async function removeUnknown(
  context: ServerContext,
  place: ServerPlace,
  order: { keepFiles: boolean; generation: number },
): Promise<Removed> {
  const found = await context.runs.adopt(place)
  if (found !== undefined && 'run' in found) {
    await found.run.expectExit()
    await found.run.signal('SIGKILL')
    await found.run.exited
  }
  await discardRemains(context, place.serverId)
  const removed = await removeFolders(place, order.keepFiles)
  await context.limits.release(place.serverId, place.files)
  await context.journal.write({ gone: { serverId: place.serverId, generation: order.generation } })
  return removed
}

async function removeFolders(place: ServerPlace, keepFiles: boolean): Promise<Removed> {
  const entries = keepFiles ? 0 : await removeFolder(place.files)
  await removeFolder(place.state)
  return { entries }
}
