import { sql } from 'kysely'
import type { Queries } from '../../../db/db.ts'

interface Hold {
  readonly ip: string
  readonly port: number
  /** Its server's game has the port on all addresses. */
  readonly bindsAll: boolean
}

/** Which ports of a node servers have. */
export class PortHolds {
  readonly #byPort = new Map<number, Hold[]>()

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
    return this.#byPort.get(port)?.find((hold) => hold.ip === ip || hold.bindsAll || bindsAll)
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
