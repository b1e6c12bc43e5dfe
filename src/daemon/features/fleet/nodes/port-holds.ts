import { sql } from 'kysely'
import type { Queries } from '../../../db/db.ts'
import { statement } from '../../../db/statement.ts'

interface Hold {
  readonly ip: string
  readonly port: number
  /** Its server's game has the port on all addresses. */
  readonly bindsAll: boolean
}

/** Which ports of a node servers have. */
export class PortHolds {
  readonly #byPort = new Map<number, Hold[]>()
  readonly #others: PortHolds | undefined

  /** `others` are held as well. */
  constructor(others?: PortHolds) {
    this.#others = others
  }

  add(hold: Hold): void {
    const there = this.#byPort.get(hold.port)
    if (there === undefined) this.#byPort.set(hold.port, [hold])
    else there.push(hold)
  }

  /**
   * What is in the way of a port at this address: the same one, or by the same number at another address where one of the two
   * games binds all of them.
   */
  blocking({ ip, port, bindsAll }: Hold): Hold | undefined {
    const here = this.#byPort.get(port)?.find((hold) => hold.ip === ip || hold.bindsAll || bindsAll)
    return here ?? this.#others?.blocking({ ip, port, bindsAll })
  }

  /** From now on those that came here, without the others, are held there as well. */
  addTo(holds: PortHolds): void {
    for (const hold of [...this.#byPort.values()].flat()) holds.add(hold)
  }
}

/**
 * Reads which ports servers of the node have; in a transaction nothing changes that until its end. Games in containers bind the
 * addresses of their container, whatever their template says.
 */
export async function readPortHolds(q: Queries, nodeId: string): Promise<PortHolds> {
  const binding = await q
    .selectFrom('template')
    .select('id')
    .where('id', 'in', q.selectFrom('server').select('templateId').where('nodeId', '=', nodeId))
    .where(sql`json_extract(template.definition, '$.bindsAll')`, '=', 1)
    .execute()
  const templates = new Set(binding.map(({ id }) => id))
  const rows = await q
    .selectFrom('allocation')
    .leftJoin('server', 'server.id', 'allocation.serverId')
    .select(['allocation.ip', 'allocation.port', 'server.templateId', 'server.runtime'])
    .where('allocation.nodeId', '=', nodeId)
    .where('allocation.serverId', 'is not', null)
    .execute()
  const holds = new PortHolds()
  for (const { ip, port, templateId, runtime } of rows) {
    holds.add({ ip, port, bindsAll: runtime === 'process' && templateId !== null && templates.has(templateId) })
  }
  return holds
}

/** The same of these ports alone: of a claim that names its ports, on a node with many servers. */
export async function readHoldsOf(q: Queries, nodeId: string, ports: readonly number[]): Promise<PortHolds> {
  const holds = new PortHolds()
  for (const { ip, port, runtime, bindsAll } of await heldPorts(q, { nodeId, ports: JSON.stringify(ports) })) {
    holds.add({ ip, port, bindsAll: runtime === 'process' && bindsAll === 1 })
  }
  return holds
}

const heldPorts = statement((q, { nodeId, ports }: { nodeId: string; ports: string }) =>
  q
    .selectFrom('allocation')
    .leftJoin('server', 'server.id', 'allocation.serverId')
    .leftJoin('template', 'template.id', 'server.templateId')
    .select(['allocation.ip', 'allocation.port', 'server.runtime'])
    .select(sql<number | null>`json_extract(template.definition, '$.bindsAll')`.as('bindsAll'))
    .where('allocation.nodeId', '=', nodeId)
    .where('allocation.port', 'in', sql<number>`(select value from json_each(${ports}))`)
    .where('allocation.serverId', 'is not', null),
)
