import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Db } from '../../../db/db.ts'
import type { GatewayHandlers } from '../../../gateway/handlers.ts'
import type { LinkedServers } from '../../fleet/nodes/link.ts'
import { finishCommand, isAsReported, markUnknown, observe, observeAbsent } from './observe.ts'
import { raiseGenerations, settleForgotten } from './reconcile.ts'
import { type BeforeDelete, forgetDeleted, reportUndeleted } from './remove.ts'
import { findServerRows } from './rows.ts'
import { buildSpec, commandOf, readOrder } from './spec.ts'
import { definitionOf } from './view.ts'

/** What servers do with what agents say, and what agents get of servers. */
export type ServerLink = LinkedServers & Pick<GatewayHandlers, 'onEvent' | 'commandFrames'>

/** The link between the rows of servers and the gateway. */
export function createServerLink(deps: {
  db: Db
  bus: Bus
  clock: Clock
  settings: Settings
  beforeDelete: BeforeDelete
  wake: (nodeId: string) => void
}): ServerLink {
  const { db, bus, settings } = deps
  const finish: LinkedServers['finishCommand'] = async (tx, nodeId, done) => {
    const command = await finishCommand(tx, bus, nodeId, done)
    if (command?.op !== 'delete') return
    if (done.ok) await forgetDeleted(tx, deps, command)
    else
      await reportUndeleted(tx, bus, command.serverId, `It could not be deleted: ${done.error?.message ?? 'no reason'}`)
  }
  return {
    observe: (tx, nodeId, reports, at) => observe(tx, bus, { nodeId, reports }, at),
    isAsReported,
    observeAbsent: (tx, nodeId, absence) => observeAbsent(tx, bus, nodeId, absence),
    raiseGenerations,
    settleForgotten: (tx, agent) => settleForgotten(tx, deps, agent),
    markUnknown: (tx, nodeId) => markUnknown(tx, bus, nodeId),
    finishCommand: finish,
    onEvent: async (tx, nodeId, event, at) => {
      if (event.type === 'command.done') await finish(tx, nodeId, event)
      else await observe(tx, bus, { nodeId, reports: [event.report] }, at)
    },
    commandFrames: async (commands) => {
      const rows = await findServerRows(db.read, [...new Set(commands.map(({ serverId }) => serverId))])
      const servers = new Map(rows.map((row) => [row.id, row]))
      const definitions = new Map<string, ReturnType<typeof definitionOf>>()
      return commands.map((command) => {
        const order = readOrder(command)
        if (order === undefined) return 'unknown'
        const row = servers.get(command.serverId)
        if (row === undefined) return order.op === 'delete' ? { op: order.op, ...order.args } : 'gone'
        const template = definitions.get(row.templateDefinition) ?? definitionOf(row)
        definitions.set(row.templateDefinition, template)
        return commandOf(
          order,
          buildSpec(row, { generation: command.generation, logMb: settings.get('console.logMb') }, template),
        )
      })
    },
  }
}
