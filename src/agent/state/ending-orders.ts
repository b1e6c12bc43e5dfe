import type { CommandRecord } from './journal-record.ts'

/** Which servers have an order before them that ends them: a stop, a kill or a deletion that is not done. */
export class EndingOrders {
  readonly #open = new Map<string, Set<string>>()

  note({ id, serverId, command, state }: CommandRecord): void {
    const orders = this.#open.get(serverId)
    if (state === 'done') {
      orders?.delete(id)
      if (orders?.size === 0) this.#open.delete(serverId)
    } else if (command?.op === 'stop' || command?.op === 'kill' || command?.op === 'delete') {
      if (orders === undefined) this.#open.set(serverId, new Set([id]))
      else orders.add(id)
    }
  }

  concerns(serverId: string | undefined): boolean {
    return serverId !== undefined && this.#open.has(serverId)
  }
}
