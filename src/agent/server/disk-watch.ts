import { errorText } from '../logger.ts'
import type { GameServer } from './server.ts'
import type { ServerContext } from './server-context.ts'
import { DISK_STOP_SHARE } from './start.ts'
import { stopGame } from './stop.ts'

const LOOK_MS = 5000
const WARN_SHARE = 0.9

/**
 * Measures every server's disk use in turn, warns in the console at 90 % of the limit and stops the game at 105 %. Ends
 * with the agent.
 */
export async function watchDisks(context: ServerContext, servers: ReadonlyMap<string, GameServer>): Promise<void> {
  const warned = new Set<string>()
  const power = new Map<string, string>()
  while (!context.ending.aborted) {
    for (const server of [...servers.values()]) {
      if (context.ending.aborted) return
      // A game that has come or gone has changed its files.
      if (power.get(server.id) !== server.power) context.disk.expire(server.id)
      power.set(server.id, server.power)
      if (!context.disk.isDue(server.id)) continue
      try {
        await look(context, server, warned)
      } catch (error) {
        context.log.warn({ serverId: server.id, err: errorText(error) }, 'cannot measure server disk usage')
      }
    }
    for (const id of power.keys()) if (!servers.has(id)) forget(context, id, power, warned)
    await context.clock.sleep(LOOK_MS, context.ending)
  }
}

function forget(context: ServerContext, id: string, power: Map<string, string>, warned: Set<string>): void {
  context.disk.forget(id)
  power.delete(id)
  warned.delete(id)
}

async function look(context: ServerContext, server: GameServer, warned: Set<string>): Promise<void> {
  const limitMb = server.spec.limits.diskMb
  const measured = { id: server.id, files: server.place.files, running: server.live !== undefined, limitMb }
  const usedMb = await context.disk.measure(measured, context.ending)
  if (limitMb <= 0 || server.game === undefined) return
  const share = usedMb / limitMb
  if (share >= DISK_STOP_SHARE) {
    const reason = `The server uses ${Math.round(usedMb)} MB of its ${limitMb} MB of disk`
    await server.note(`${reason}, it is stopped`)
    const stopped = server.order(async () => {
      await stopGame(server, { commandId: null, desired: 'stopped', reason })
    })
    stopped.catch((error: unknown) => {
      context.log.error({ serverId: server.id, err: errorText(error) }, 'cannot stop server over its disk limit')
    })
  } else if (share < WARN_SHARE) {
    warned.delete(server.id)
  } else if (!warned.has(server.id)) {
    warned.add(server.id)
    await server.note(`The server uses ${Math.round(share * 100)} % of its disk`)
  }
}
