import type { NodeUsage } from '../../../../shared/api/metrics-streams.ts'
import { type Clock, type IsoTime, now } from '../../../../shared/kernel/time.ts'
import type { NodeHealth } from '../../../../shared/protocol/node.ts'

/** The last usage of a machine with the time at which it arrived. */
export type CurrentNodeUsage = NodeUsage & { readonly timestamp: IsoTime }

type Listener = (usage: CurrentNodeUsage) => void

/** Traffic since the report before. A first report, and one after a restart of the machine, has nothing to be compared with. */
interface Before {
  readonly atMs: number
  readonly health: NodeHealth
}

/** The newest usage of all nodes, in memory: it is worth nothing after a restart. */
export class NodeUsageBoard {
  readonly #clock: Clock
  readonly #before = new Map<string, Before>()
  readonly #last = new Map<string, CurrentNodeUsage>()
  readonly #listeners = new Set<Listener>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get(nodeId: string): CurrentNodeUsage | undefined {
    return this.#last.get(nodeId)
  }

  /** Takes a report of a node's agent and notifies the listeners. */
  report(nodeId: string, health: NodeHealth): void {
    const atMs = this.#clock.monotonicMs()
    const before = this.#before.get(nodeId)
    this.#before.set(nodeId, { atMs, health })
    const usage = { nodeId, ...health, ...traffic(before, { atMs, health }), timestamp: now(this.#clock) }
    this.#last.set(nodeId, usage)
    for (const listener of this.#listeners) listener(usage)
  }

  forget(nodeId: string): void {
    this.#before.delete(nodeId)
    this.#last.delete(nodeId)
  }

  listen(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}

function traffic(
  before: Before | undefined,
  after: Before,
): Pick<NodeUsage, 'networkRxBytesPerSecond' | 'networkTxBytesPerSecond'> {
  const perSecond = (counter: 'networkRxBytes' | 'networkTxBytes'): number | null => {
    if (before === undefined || after.atMs <= before.atMs) return null
    const bytes = Number(after.health[counter]) - Number(before.health[counter])
    // Counters begin anew with the machine.
    return bytes < 0 ? null : Math.round((bytes / (after.atMs - before.atMs)) * 1000)
  }
  return { networkRxBytesPerSecond: perSecond('networkRxBytes'), networkTxBytesPerSecond: perSecond('networkTxBytes') }
}
