import { eggsOf } from './eggs.ts'
import type { WorldOptions } from './options.ts'
import { type Random, randomFrom } from './random.ts'
import type { SimAllocation, SimMount, SimNode, SimWorld } from './rows.ts'
import { serverOf } from './servers.ts'
import { usersOf } from './users.ts'

/** Allocations of each node that no server has. */
const FREE = 3

/** A source as the options describe it. */
export function createWorld(options: WorldOptions): SimWorld {
  const random = randomFrom(`source ${options.seed}`)
  const world: SimWorld = {
    options,
    locations: [
      { id: 1, short: 'eu.fra', long: 'Frankfurt' },
      { id: 2, short: 'us.nyc', long: 'New York' },
    ],
    nodes: Array.from({ length: options.nodes }, (_, index) => nodeOf(index + 1, random)),
    nests: [
      { id: 1, uuid: random.uuid(), name: 'Minecraft', description: 'Blocks' },
      { id: 2, uuid: random.uuid(), name: 'Others', description: 'Everything else' },
    ],
    eggs: eggsOf(random, options),
    users: usersOf(random, options),
    allocations: [],
    databaseHosts: [
      { id: 1, name: 'main', host: '127.0.0.1', port: 3306, username: 'pterodactyl', nodeId: null },
      { id: 2, name: 'second', host: 'db.source.example', port: 3307, username: 'pterodactyl', nodeId: 1 },
    ],
    servers: [],
    mounts: [mountOf(random)],
    sshKeys: [],
    asked: [],
  }
  const allocate = (row: Pick<SimAllocation, 'nodeId' | 'port'> & Partial<SimAllocation>): number => {
    const id = world.allocations.length + 1
    world.allocations.push({ id, ip: `10.0.0.${row.nodeId}`, alias: null, notes: null, serverId: null, ...row })
    return id
  }
  for (let id = 1; id <= options.servers; id++) {
    const server = serverOf(world, id, random, (nodeId, port, serverId, notes) =>
      allocate({ nodeId, port, serverId, notes: notes ?? null }),
    )
    world.servers.push(server)
  }
  for (const { id } of world.nodes) {
    for (let n = 0; n < FREE; n++) allocate({ nodeId: id, port: 40_000 + n })
  }
  if (options.oddities && options.servers > 0) {
    allocate({ nodeId: 1, port: 41_000, serverId: 1, ip: '2001:db8::10', alias: 'play.source.example', notes: 'IPv6' })
  }
  return world
}

function nodeOf(id: number, random: Random): SimNode {
  return {
    id,
    uuid: random.uuid(),
    name: id <= 26 ? `node-${String.fromCharCode(96 + id)}` : `node-${id}`,
    description: id === 1 ? null : 'a further one',
    locationId: ((id - 1) % 2) + 1,
    memory: 65_536,
    disk: 500_000,
    tokenId: random.text(16),
    token: random.text(64),
    tags: id === 1 ? ['fra'] : [],
    isInMaintenance: false,
  }
}

function mountOf(random: Random): SimMount {
  return {
    id: 1,
    uuid: random.uuid(),
    name: 'maps',
    description: 'shared maps',
    source: '/srv/maps',
    target: '/home/container/maps',
    readOnly: true,
    userMountable: false,
  }
}
