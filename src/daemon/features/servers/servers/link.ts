import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Db, Tx } from '../../../db/db.ts'
import type { GatewayHandlers, HappenedEvent } from '../../../gateway/handlers.ts'
import type { LinkedServers } from '../../fleet/nodes/link.ts'
import { KeptSpecs } from './kept-specs.ts'
import {
  type EndedOrder,
  finishCommand,
  finishCommands,
  markUnknown,
  type OrderEnd,
  observe,
  observeAbsent,
  type Reported,
  unseenLong,
} from './observe.ts'
import { touchObserved } from './observed-rows.ts'
import { raiseGenerations, settleForgotten } from './reconcile.ts'
import { type BeforeDelete, forgetDeleted, reportUndeleted } from './remove.ts'
import { commandOf, readOrder } from './spec.ts'

/** What servers do with what agents say, and what agents get of servers. */
export type ServerLink = LinkedServers & Pick<GatewayHandlers, 'onEvents' | 'commandFrames'>

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
  const specs = new KeptSpecs(() => settings.get('console.logMb'))
  const afterEnd = async (tx: Tx, order: EndedOrder | undefined, done: OrderEnd): Promise<void> => {
    if (order?.op !== 'delete') return
    if (done.ok) await forgetDeleted(tx, deps, order)
    else
      await reportUndeleted(tx, bus, order.serverId, `It could not be deleted: ${done.error?.message ?? 'no reason'}`)
  }
  return {
    observe: (tx, nodeId, reports, at) =>
      observe(tx, bus, { nodeId, reports: reports.map((report) => ({ report, at })) }),
    unseenLong,
    touch: async (tx, serverIds, at) => {
      await touchObserved(tx.q, { ids: JSON.stringify(serverIds), at })
    },
    observeAbsent: (tx, nodeId, absence) => observeAbsent(tx, bus, nodeId, absence),
    raiseGenerations,
    settleForgotten: (tx, agent) => settleForgotten(tx, deps, agent),
    markUnknown: (tx, nodeId) => markUnknown(tx, bus, nodeId),
    finishCommand: async (tx, nodeId, done) => afterEnd(tx, await finishCommand(tx, bus, nodeId, done), done),
    onEvents: async (tx, nodeId, events) => {
      for (const { reports, ends } of stretchesOf(events)) {
        if (reports.length > 0) await observe(tx, bus, { nodeId, reports })
        if (ends.length === 0) continue
        const orders = await finishCommands(tx, bus, nodeId, ends)
        for (const done of ends) await afterEnd(tx, orders.get(done), done)
      }
    },
    commandFrames: async (commands) => {
      const servers = await specs.of(db.read, [...new Set(commands.map(({ serverId }) => serverId))])
      return commands.map((command) => {
        const order = readOrder(command)
        if (order === undefined) return 'unknown'
        const specAt = servers.get(command.serverId)
        if (specAt === undefined && order.op !== 'delete') return 'gone'
        try {
          return commandOf(order, specAt === undefined ? undefined : () => specAt(command.generation))
        } catch (error) {
          return { failure: error } // this one fails: the orders of other servers do not wait behind it
        }
      })
    },
  }
}

/** Events that can be stored together: either reports, or ends of the orders of different servers. */
interface Stretch {
  readonly reports: Reported[]
  readonly ends: OrderEnd[]
}

/** The events in their order, those of one kind together. */
function stretchesOf(events: readonly HappenedEvent[]): Stretch[] {
  const stretches: Stretch[] = []
  let ended = new Set<string>()
  for (const { event, at, isAccepted } of events) {
    let last = stretches.at(-1)
    const isEnd = event.type === 'command.done'
    const others = isEnd ? last?.reports : last?.ends
    if (last === undefined || others === undefined || others.length > 0 || (isEnd && ended.has(event.serverId))) {
      last = { reports: [], ends: [] }
      stretches.push(last)
      ended = new Set()
    }
    if (isEnd) {
      last.ends.push({ isAccepted, ...event })
      ended.add(event.serverId)
    } else last.reports.push({ report: event.report, at })
  }
  return stretches
}
