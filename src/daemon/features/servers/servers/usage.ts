import type { ResourceStats } from '../../../../shared/kernel/events.ts'
import { type Clock, type IsoTime, now } from '../../../../shared/kernel/time.ts'
import type { DiskEnforced, ServerUsage } from '../../../../shared/protocol/server.ts'
import type { Queries } from '../../../db/db.ts'

/** The last usage of a server with the time at which it arrived. */
export type CurrentUsage = ResourceStats & { readonly timestamp: IsoTime; readonly diskEnforced?: DiskEnforced }

/** Called with each new usage report of a server. */
export type UsageListener = (serverId: string, usage: CurrentUsage) => void

/** Asks an agent to send the usage of these servers often. */
export type WatchOrder = (nodeId: string, serverIds: string[]) => void

/** The newest usage of all servers, in memory: it is worth nothing after a restart. */
export class ServerUsageBoard {
  readonly #clock: Clock
  readonly #watch: WatchOrder
  readonly #last = new Map<string, CurrentUsage>()
  readonly #listeners = new Set<UsageListener>()
  /** How many viewers each server has, by node. */
  readonly #watched = new Map<string, Map<string, number>>()

  constructor(clock: Clock, watch: WatchOrder) {
    this.#clock = clock
    this.#watch = watch
  }

  get(serverId: string): CurrentUsage | undefined {
    return this.#last.get(serverId)
  }

  /** Takes what a node reports about its own servers; what it says of others' is left aside. */
  async report(q: Queries, nodeId: string, reported: readonly ServerUsage[]): Promise<void> {
    const ids = reported.map((usage) => usage.serverId)
    if (ids.length === 0) return
    const rows = await q
      .selectFrom('server')
      .select(['id', 'memoryMb', 'cpuCores', 'diskMb'])
      .where('nodeId', '=', nodeId)
      .where('id', 'in', ids)
      .execute()
    const limits = new Map(rows.map((row) => [row.id, row]))
    for (const usage of reported) {
      const limit = limits.get(usage.serverId)
      if (limit === undefined) continue
      const { diskEnforced } = usage
      const enforced = diskEnforced === undefined ? {} : { diskEnforced }
      const view = { ...toStats(usage, limit), timestamp: now(this.#clock), ...enforced }
      this.#last.set(usage.serverId, view)
      for (const listener of this.#listeners) listener(usage.serverId, view)
    }
  }

  forget(serverId: string): void {
    this.#last.delete(serverId)
  }

  listen(listener: UsageListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** A viewer looks at this server; the returned function ends that. */
  watch(nodeId: string, serverId: string): () => void {
    const servers = this.#watched.get(nodeId) ?? new Map<string, number>()
    this.#watched.set(nodeId, servers)
    servers.set(serverId, (servers.get(serverId) ?? 0) + 1)
    this.watchAgain(nodeId)
    let ended = false
    return () => {
      if (ended) return
      ended = true
      const left = (servers.get(serverId) ?? 1) - 1
      if (left > 0) return void servers.set(serverId, left)
      servers.delete(serverId)
      this.watchAgain(nodeId)
    }
  }

  /** Sends the node what is watched: after a change, and when it has come back. */
  watchAgain(nodeId: string): void {
    this.#watch(nodeId, [...(this.#watched.get(nodeId)?.keys() ?? [])].slice(0, 1000))
  }
}

function toStats(usage: ServerUsage, limit: { memoryMb: number; cpuCores: number; diskMb: number }): ResourceStats {
  const { cpuCores, memoryMb, diskMb, ioReadBytes, ioWriteBytes } = usage
  return {
    cpuCores,
    cpuPercent: cpuCores === null ? null : Math.round((cpuCores / limit.cpuCores) * 1000) / 10,
    memoryUsageMb: memoryMb,
    memoryTotalMb: limit.memoryMb,
    diskUsageMb: diskMb,
    diskTotalMb: limit.diskMb,
    diskIoMb:
      ioReadBytes === null || ioWriteBytes === null
        ? null
        : Math.round((Number(ioReadBytes) + Number(ioWriteBytes)) / 1_048_576),
    networkRxBytes: usage.networkRxBytes,
    networkTxBytes: usage.networkTxBytes,
    processes: usage.processes,
    uptimeMs: usage.uptimeMs,
    playersOnline: usage.players?.online ?? null,
    playersMax: usage.players?.max ?? null,
    playerNames: usage.players?.names ?? [],
  }
}
