import type { Clock } from '../../../../shared/kernel/time.ts'
import { checkPorts } from '../../../../shared/protocol/node.ts'
import type { Gateway } from '../../../gateway/gateway.ts'

/** How many addresses an agent looks at for one server; who makes the next one has it look further. */
export const MOST_LOOKS = 64
/** Who makes a server waits this long for a node that does not answer. */
const WAIT_MS = 1500
const FRESH_MS = 10_000
const MOST_KEPT = 5000

interface Look {
  readonly isTaken: boolean
  readonly atMs: number
}

interface Address {
  readonly ip: string
  readonly port: number
}

/** What else runs on nodes: which ports their agents have just found to be in use, also by programs that are no servers. */
export class PortLooks {
  readonly #deps: {
    readonly ask: Gateway['request']
    readonly isOnline: (nodeId: string) => boolean
    readonly clock: Clock
  }
  readonly #looks = new Map<string, Look>()
  readonly #underWay = new Map<string, Promise<void>>()

  constructor(deps: {
    readonly ask: Gateway['request']
    readonly isOnline: (nodeId: string) => boolean
    readonly clock: Clock
  }) {
    this.#deps = deps
  }

  /**
   * Has the node's agent look at these addresses, as far as that was not just done. Never fails: of a node that is away, or does
   * not answer in 1.5 s, nothing is known.
   */
  async look(nodeId: string, addresses: readonly Address[]): Promise<void> {
    if (!this.#deps.isOnline(nodeId)) return
    // Many servers are made in the same moment: what one has asked for serves the others.
    await this.#underWay.get(nodeId)
    const nowMs = this.#deps.clock.monotonicMs()
    const unknown = addresses
      .filter((address) => this.#fresh(nodeId, address, nowMs) === undefined)
      .slice(0, MOST_LOOKS)
    if (unknown.length === 0) return
    const asking = this.#ask(nodeId, unknown)
    this.#underWay.set(nodeId, asking)
    await asking
    if (this.#underWay.get(nodeId) === asking) this.#underWay.delete(nodeId)
  }

  /** Whether the address was found in use a moment ago. */
  isTaken(nodeId: string, address: Address): boolean {
    return this.#fresh(nodeId, address, this.#deps.clock.monotonicMs())?.isTaken === true
  }

  async #ask(nodeId: string, ports: readonly Address[]): Promise<void> {
    const { ask, clock } = this.#deps
    const over = new AbortController()
    const answer = ask(nodeId, checkPorts, { ports: [...ports] }).catch(() => undefined) // nothing is known then
    const result = await Promise.race([answer, clock.sleep(WAIT_MS, over.signal).then(() => undefined)])
    over.abort()
    if (result === undefined) return
    // An address that the node does not have says nothing of its ports: those of a container's network are none of the machine's.
    const inUse = result.taken.filter(({ code }) => code === 'PORT_IN_USE')
    const taken = new Set(inUse.map((address) => keyOf(nodeId, address)))
    if (this.#looks.size > MOST_KEPT) this.#looks.clear()
    const atMs = clock.monotonicMs()
    for (const address of ports) {
      const key = keyOf(nodeId, address)
      this.#looks.set(key, { isTaken: taken.has(key), atMs })
    }
  }

  #fresh(nodeId: string, address: Address, nowMs: number): Look | undefined {
    const look = this.#looks.get(keyOf(nodeId, address))
    return look !== undefined && nowMs - look.atMs <= FRESH_MS ? look : undefined
  }
}

function keyOf(nodeId: string, { ip, port }: Address): string {
  return `${nodeId} ${ip} ${port}`
}
