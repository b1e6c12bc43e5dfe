import { sql } from 'kysely'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { readTogether } from '../../../db/read-together.ts'
import { jsonStatement, statement } from '../../../db/statement.ts'

// What is read and written for each agent that comes in, of which hundreds come in the seconds after a start.

const nodesOnHello = jsonStatement(
  (q, { ids }: { ids: string }) =>
    q
      .selectFrom('node')
      .select([
        'id', 'journalId', 'eventAck', 'agentVersion', 'os', 'arch', 'runtimes', 'addresses', 'sftp', 'publicAddress',
        'defaultIp', 'machineId', 'machineBootId',
      ]) // biome-ignore format: columns
      .where('id', 'in', sql<string>`(select value from json_each(${ids}))`),
  { keepsTo: ({ ids }) => ({ table: 'node', ids: JSON.parse(ids) as string[] }) }, // made by `readTogether`
)

/** What is known of a node when its agent says who it is: asked for twice in each handshake. */
export const nodeOnHello = readTogether(nodesOnHello, 'node', { kept: true })

/** What {@link nodeOnHello} answers. */
export type KnownNode = NonNullable<Awaited<ReturnType<typeof nodeOnHello>>>

/** The servers of a node, by which it shows whether its agent has forgotten something of them. */
export const serversOnNode = jsonStatement((q, { nodeId }: { nodeId: string }) =>
  q.selectFrom('server').select(['id', 'generation', 'observedGeneration', 'deletingAt']).where('nodeId', '=', nodeId),
)

/** The orders that a node's agent has accepted and not ended. */
export const acceptedOrders = statement((q, { nodeId }: { nodeId: string }) =>
  q
    .selectFrom('command')
    .select(['id', 'serverId'])
    .where('nodeId', '=', nodeId)
    .where('state', '=', 'accepted')
    .where('endedAt', 'is', null),
)

/** These nodes (ids as JSON) are connected; answers those that were not. */
export const writeOnline = statement((q, { ids, now }: { ids: string; now: IsoTime }) =>
  q
    .updateTable('node')
    .set({ isOnline: 1, lastSeenAt: now })
    .where('id', 'in', sql<string>`(select value from json_each(${ids}))`)
    .where('isOnline', '=', 0)
    .returning('id'),
)

/** These keys (ids as JSON) were used. */
export const writeKeysUsed = statement((q, { ids, now }: { ids: string; now: IsoTime }) =>
  q
    .updateTable('nodeKey')
    .set({ lastUsedAt: now })
    .where('id', 'in', sql<string>`(select value from json_each(${ids}))`),
)
