import type { MigrationOptions } from '../../../../../shared/api/migration.ts'
import type { SourceAllocation } from '../source/model.ts'
import type { TargetNodeState } from './state.ts'

/** A port that a server is given here, and what it was on the source. */
export interface PlannedPort {
  readonly ip: string
  readonly port: number
  readonly isPrimary: boolean
  readonly notes: string | null
  readonly from: string
}

/** A port that somebody else has. */
export interface TakenPort {
  readonly from: string
  readonly ip: string
  readonly port: number
}

/**
 * Gives out the ports of the target nodes for one plan. Addresses of the source mean nothing on another machine, so that ports lie at the
 * address of the target node; two nodes that become one may both have the same port.
 */
export class PortPlan {
  readonly #given = new Map<string, Set<string>>()

  /** All ports of a server, the primary one first. Those that are taken are in `taken` unless they may be remapped. */
  give(
    node: TargetNodeState,
    allocations: readonly SourceAllocation[],
    { conflicts, portRange }: Pick<MigrationOptions, 'conflicts' | 'portRange'>,
  ): { readonly ports: readonly PlannedPort[]; readonly taken: readonly TakenPort[] } {
    const ports: PlannedPort[] = []
    const taken: TakenPort[] = []
    const ordered = [...allocations].sort((a, b) => Number(b.isPrimary) - Number(a.isPrimary))
    for (const { ip: sourceIp, port: wanted, isPrimary, notes } of ordered) {
      const ip = node.defaultIp
      const from = sourceIp.includes(':') ? `[${sourceIp}]:${wanted}` : `${sourceIp}:${wanted}`
      const port = this.#isFree(node, wanted)
        ? wanted
        : conflicts.port === 'remap'
          ? this.#nextFree(node, portRange)
          : undefined
      if (port === undefined) {
        taken.push({ from, ip, port: wanted })
        continue
      }
      this.#of(node).add(`${ip} ${port}`)
      ports.push({ ip, port, isPrimary, notes, from })
    }
    return { ports, taken }
  }

  #isFree(node: TargetNodeState, port: number): boolean {
    const key = `${node.defaultIp} ${port}`
    return !node.takenPorts.has(key) && !this.#of(node).has(key)
  }

  #nextFree(node: TargetNodeState, { from, to }: { from: number; to: number }): number | undefined {
    for (let port = from; port <= to; port++) if (this.#isFree(node, port)) return port
    return undefined
  }

  #of(node: TargetNodeState): Set<string> {
    const given = this.#given.get(node.id) ?? new Set<string>()
    this.#given.set(node.id, given)
    return given
  }
}
