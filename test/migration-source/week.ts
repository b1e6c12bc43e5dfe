import { textFile } from './files.ts'
import { randomFrom } from './random.ts'
import type { SimServer, SimWorld } from './rows.ts'

/**
 * What happens in a week: the world of the first server goes on, one of its files is new and one is gone; the second has another
 * name and its schedule another time; the third has another friend; and there is a new server of an old owner.
 */
export function passWeek({ servers, users, allocations }: SimWorld): void {
  const [first, second, third] = servers
  if (first === undefined || second === undefined || third === undefined) throw new Error('needs three servers')
  for (const [path, file] of first.tree.files) {
    if (path.startsWith('world/')) first.tree.files.set(path, { ...file, version: file.version + 1 })
  }
  first.tree.files.set('new-this-week.txt', textFile('new\n'))
  first.tree.files.delete('eula.txt')
  second.name = `${second.name} renamed`
  second.updatedMs = Date.now()
  second.schedules = second.schedules.slice(0, 1).map((one) => ({ ...one, cron: { ...one.cron, hour: '5' } }))
  const friend = users.find(({ id }) => id !== third.ownerId && id !== 1)
  if (friend !== undefined) third.subusers = [{ id: third.id, userId: friend.id, permissions: ['websocket.connect'] }]
  const id = Math.max(...servers.map((server) => server.id)) + 1
  const allocation = {
    id: Math.max(...allocations.map((row) => row.id)) + 1,
    nodeId: first.nodeId,
    ip: `10.0.0.${first.nodeId}`,
    alias: null,
    port: 27_000 + id,
    notes: null,
    serverId: id,
  }
  allocations.push(allocation)
  servers.push(newServer(first, { id, allocationId: allocation.id, port: allocation.port }))
}

function newServer(
  like: SimServer,
  { id, allocationId, port }: Record<'id' | 'allocationId' | 'port', number>,
): SimServer {
  const uuid = randomFrom(`week ${id}`).uuid()
  const files = new Map([['server.properties', textFile(`server-port=${port}\n`)]])
  return {
    ...like,
    id,
    uuid,
    name: 'of this week',
    externalId: null,
    allocationId,
    limits: { ...like.limits },
    featureLimits: { ...like.featureLimits },
    subusers: [],
    databases: [],
    schedules: [],
    backups: [],
    power: 'offline',
    updatedMs: Date.now(),
    tree: { key: uuid, links: new Map(), emptyDirs: new Set(), files },
  }
}
