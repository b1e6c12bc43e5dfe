import { statfsSync } from 'node:fs'
import { errorText } from '../logger.ts'
import type { GameServer } from '../server/server.ts'
import type { ServerContext } from '../server/server-context.ts'
import { DISK_STOP_SHARE } from '../server/start.ts'
import { killRun, stopGame } from '../server/stop.ts'
import { limitedServer } from './disk-room.ts'
import type { DiskUsage } from './disk-usage.ts'

const LOOK_MS = 2000
/** What the kernel counts is asked for so often. */
const KERNEL_EVERY = 5
/** Ids of servers that are gone are given back so often. */
const GIVE_BACK_EVERY = 150
const WARN_SHARE = 0.9
/** A game that is to stop may save, and no more. */
const KILL_SHARE = 1.25
const MIB = 1024 * 1024

/**
 * Watches the disk use of every server: warns in the console at 90 % of the limit, stops the game at 105 % and ends it at 125 %. Where
 * the kernel holds the limit, a game does not come that far. Ends with the agent.
 */
export async function watchDisks(context: ServerContext, servers: ReadonlyMap<string, GameServer>): Promise<void> {
  const watch = new DiskWatch(context, servers)
  for (let turn = 0; !context.ending.aborted; turn++) {
    await watch.look(turn)
    await context.rounds.next(LOOK_MS, context.ending)
  }
}

class DiskWatch {
  readonly #context: ServerContext
  readonly #servers: ReadonlyMap<string, GameServer>
  readonly #warned = new Set<string>()
  readonly #power = new Map<string, string>()
  readonly #measuring = new Set<string>()

  constructor(context: ServerContext, servers: ReadonlyMap<string, GameServer>) {
    this.#context = context
    this.#servers = servers
  }

  async look(turn: number): Promise<void> {
    const { disk, limits, ending, log } = this.#context
    const fileSystemMb = this.#fileSystemMb()
    const counts = [...this.#servers.keys()].some((id) => disk.isDue(id))
    for (const server of [...this.#servers.values()]) {
      if (ending.aborted) return
      // A game that has come or gone has changed its files.
      if (this.#power.get(server.id) !== server.power) disk.expire(server.id)
      this.#power.set(server.id, server.power)
      try {
        await this.#lookAt(server, { turn, fileSystemMb, counts })
      } catch (error) {
        if (!ending.aborted)
          log.warn({ serverId: server.id, err: errorText(error) }, 'cannot look at server disk limit')
      }
    }
    for (const id of this.#power.keys()) if (!this.#servers.has(id)) this.#forget(id)
    if (turn % GIVE_BACK_EVERY === 0 && !ending.aborted) await this.#giveBack(limits)
  }

  async #giveBack(limits: ServerContext['limits']): Promise<void> {
    const { layout, log } = this.#context
    try {
      await limits.giveBack(this.#servers, (serverId) => `${layout.serversDir}/${serverId}`)
    } catch (error) {
      log.warn({ err: errorText(error) }, 'cannot give back disk quotas')
    }
  }

  #forget(id: string): void {
    this.#context.disk.forget(id)
    this.#power.delete(id)
    this.#warned.delete(id)
  }

  async #lookAt(server: GameServer, now: { turn: number; fileSystemMb: number; counts: boolean }): Promise<void> {
    const { disk, limits } = this.#context
    const limited = limitedServer(server)
    // Orders of this server have the folder held themselves, and must not find it half taken over.
    if (!limits.isCurrent(limited) && server.queue.size === 0) await limits.hold(limited)
    const isHeld = limits.of(server.id)?.enforced === 'kernel'
    const running = server.live !== undefined
    if (isHeld && now.turn % KERNEL_EVERY === 0) disk.setKernelMb(server.id, await limits.usedMb(server.id))
    if (!isHeld) disk.setKernelMb(server.id, null)
    const { limitMb } = limited
    if (running && limitMb > 0 && !isHeld) {
      const isWarned = (disk.countedMb(server.id) ?? 0) >= limitMb * WARN_SHARE
      disk.suspect(server.id, now.fileSystemMb, limitMb * (isWarned ? DISK_STOP_SHARE : WARN_SHARE))
    }
    if (isHeld && now.turn % KERNEL_EVERY === 0) await this.#act(server, limitMb)
    const isDue = now.counts ? disk.isNearlyDue(server.id) : disk.isDue(server.id)
    if (isDue && !this.#measuring.has(server.id)) void this.#measure(server, { ...limited, running, isHeld })
  }

  /** Nobody waits for a count: a large folder takes its time, and the others are looked at meanwhile. */
  async #measure(server: GameServer, measured: Parameters<DiskUsage['measure']>[0]): Promise<void> {
    const { disk, ending, log } = this.#context
    this.#measuring.add(server.id)
    try {
      await disk.measure(measured, ending)
      if (this.#servers.has(server.id)) await this.#act(server, measured.limitMb)
      else disk.forget(server.id)
    } catch (error) {
      if (!ending.aborted) log.warn({ serverId: server.id, err: errorText(error) }, 'cannot measure server disk usage')
    } finally {
      this.#measuring.delete(server.id)
    }
  }

  async #act(server: GameServer, limitMb: number): Promise<void> {
    const { disk } = this.#context
    const usedMb = Math.max(disk.usedMb(server.id) ?? 0, disk.countedMb(server.id) ?? 0)
    if (limitMb <= 0 || server.game === undefined) return
    const share = usedMb / limitMb
    if (share >= DISK_STOP_SHARE) return await this.#stop(server, { share, usedMb, limitMb })
    if (share < WARN_SHARE) {
      this.#warned.delete(server.id)
    } else if (!this.#warned.has(server.id)) {
      this.#warned.add(server.id)
      await server.note(`The server uses ${Math.round(share * 100)} % of its disk`)
    }
  }

  async #stop(
    server: GameServer,
    { share, usedMb, limitMb }: { share: number; usedMb: number; limitMb: number },
  ): Promise<void> {
    const { log, disk } = this.#context
    const reason = `The server uses ${Math.round(usedMb)} MB of its ${limitMb} MB of disk`
    const failed = (error: unknown): void => {
      log.error({ serverId: server.id, err: errorText(error) }, 'cannot stop server over its disk limit')
    }
    if (server.power !== 'stopping') {
      await server.note(`${reason}, it is stopped`)
      server.order(() => stopGame(server, { commandId: null, desired: 'stopped', reason })).catch(failed)
    } else if (share >= KILL_SHARE && server.live !== undefined) {
      await server.note(`${reason}, it is ended at once`)
      killRun(server, server.live).catch(failed)
    }
    // It may go on writing while it stops.
    disk.expire(server.id)
  }

  #fileSystemMb(): number {
    const { blocks, bfree, bsize } = statfsSync(this.#context.layout.serversDir)
    return ((blocks - bfree) * bsize) / MIB
  }
}
