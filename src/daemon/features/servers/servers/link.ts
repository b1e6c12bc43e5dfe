import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Db } from '../../../db/db.ts'
import type { GatewayHandlers } from '../../../gateway/handlers.ts'
import type { LinkedServers } from '../../fleet/nodes/link.ts'
import { finishCommand, markUnknown, observe, observeAbsent } from './observe.ts'
import { raiseGenerations, settleForgotten } from './reconcile.ts'
import { type BeforeDelete, forgetDeleted, reportUndeleted } from './remove.ts'
import { findServerRow } from './rows.ts'
import { buildSpec, commandOf, readOrder } from './spec.ts'

/** What servers do with what agents say, and what agents get of servers. */
export type ServerLink = LinkedServers & Pick<GatewayHandlers, 'onEvent' | 'commandFrame'>

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
    observe: (tx, nodeId, report, at) => observe(tx, bus, nodeId, report, at),
    observeAbsent: (tx, nodeId, absence) => observeAbsent(tx, bus, nodeId, absence),
    raiseGenerations,
    settleForgotten: (tx, agent) => settleForgotten(tx, deps, agent),
    markUnknown: (tx, nodeId) => markUnknown(tx, bus, nodeId),
    finishCommand: finish,
    onEvent: async (tx, nodeId, event, at) => {
      if (event.type === 'command.done') await finish(tx, nodeId, event)
      else await observe(tx, bus, nodeId, event.report, at)
    },
    commandFrame: async (command) => {
      const order = readOrder(command)
      if (order === undefined) return 'unknown'
      const row = await findServerRow(db.read, command.serverId)
      if (row === undefined) return order.op === 'delete' ? { op: order.op, ...order.args } : 'gone'
      return commandOf(order, buildSpec(row, command.generation, settings.get('console.logMb')))
    },
  }
}
