import { FIRST_MS, type SimFile, type SimTree, textFile } from './files.ts'
import type { WorldOptions } from './options.ts'
import type { Random } from './random.ts'
import type { SimBackup, SimDatabase, SimServer, SimSubuser, SimWorld } from './rows.ts'
import { schedulesOf } from './schedules.ts'

/** Adds the allocation of a server to a node; its id. */
type Allocate = (nodeId: number, port: number, serverId: number, notes?: string) => number

/** Which backups a server may have. */
type Slots = 'free' | 'full' | 'none' | 'suspended'

const SLOTS = 2
const FRIEND_MAY = [
  'websocket.connect',
  'control.console',
  'control.start',
  'control.restart',
  'file.read',
  'file.read-content',
  'file.sftp',
  'user.read',
]

/** One server of a source. Its number alone says what is special about it. */
export function serverOf(world: SimWorld, id: number, random: Random, allocate: Allocate): SimServer {
  const { options, eggs, users } = world
  const { nodes, danglingOwners, oddities } = options
  const uuid = random.uuid()
  const nodeId = ((id - 1) % nodes) + 1
  const egg = eggs[(id - 1) % eggs.length]
  if (egg === undefined) throw new Error('a source has eggs')
  // The ports repeat on each node, as they do where every node begins to count anew.
  const port = 25_565 + Math.floor((id - 1) / nodes)
  const allocationId = allocate(nodeId, port, id)
  if (id % 4 === 1) {
    allocate(nodeId, port + 5_000, id, 'query')
    allocate(nodeId, port + 6_000, id)
  }
  const players = users.filter(({ rootAdmin }) => !rootAdmin)
  const owner = players[(id - 1) % Math.max(players.length, 1)]
  const friend = players[id % Math.max(players.length, 1)]
  const slots = slotsOf(id, options)
  const variables = Object.fromEntries(egg.variables.map((one) => [one.envVariable, one.defaultValue]))
  return {
    id,
    uuid,
    externalId: id === 2 ? 'billing-2' : null,
    name: oddities && id === 1 ? 'Städte & <Länder>' : `server ${id}`,
    description: id % 3 === 0 ? 'One of three' : '',
    status: slots === 'suspended' ? 'suspended' : null,
    nodeId,
    ownerId: id > danglingOwners ? (owner?.id ?? 1) : 9_000 + id,
    allocationId,
    eggId: egg.id,
    startup: egg.startup,
    image: Object.values(egg.dockerImages)[0] ?? '',
    limits: {
      memory: 1024,
      swap: id % 5 === 0 ? -1 : 0,
      disk: 5_000,
      io: 500,
      cpu: id % 3 === 0 ? 250 : 100,
      threads: oddities && id === 4 ? '0,2-3' : null,
    },
    oomDisabled: id !== 2,
    featureLimits: {
      databases: oddities && id === 5 ? null : 2,
      allocations: oddities && id === 6 ? null : 3,
      backups: slots !== 'none' ? SLOTS : oddities && id % 2 === 0 ? null : 0,
    },
    environment: { ...variables, ...(id === 1 && oddities ? { MOTD: null, HIDDEN_SEED: 7 } : {}) },
    subusers: subusersOf(id, friend?.id === owner?.id ? undefined : friend?.id),
    databases: id % 2 === 1 ? [databaseOf(id, random, oddities)] : [],
    schedules: schedulesOf(id, oddities),
    backups: Array.from({ length: slots === 'full' ? SLOTS : id === 1 ? 1 : 0 }, (_, n) => oldBackup(n, random)),
    mountIds: id === 3 ? [1] : [],
    tree: treeOf(uuid, port, options),
    power: id % 4 === 2 && slots !== 'suspended' ? 'running' : 'offline',
    updatedMs: FIRST_MS,
  }
}

/** From the last one on: the suspended ones, those whose slots are full, those without any. */
function slotsOf(id: number, { servers, suspended, fullSlots, zeroSlots }: WorldOptions): Slots {
  const fromEnd = servers - id
  if (fromEnd < suspended) return 'suspended'
  if (fromEnd < suspended + fullSlots) return 'full'
  return fromEnd < suspended + fullSlots + zeroSlots ? 'none' : 'free'
}

function subusersOf(serverId: number, friendId: number | undefined): SimSubuser[] {
  return friendId === undefined ? [] : [{ id: serverId, userId: friendId, permissions: [...FRIEND_MAY] }]
}

function databaseOf(serverId: number, random: Random, oddities: boolean): SimDatabase {
  return {
    id: serverId * 100 + 1,
    hostId: 1,
    database: `s${serverId}_${oddities ? 'a_database_name_that_is_as_long_as_they_may_be_' : 'main'}`,
    username: `u${serverId}_${random.text(10)}`,
    remote: '%',
    password: `${random.text(20)}'"\\=^@`,
    maxConnections: serverId % 4 === 1 ? 0 : 5,
  }
}

/** Of long ago, when its archive was not made yet: the simulator makes that when it starts. */
function oldBackup(n: number, random: Random): SimBackup {
  return {
    uuid: random.uuid(),
    name: `weekly ${n}`,
    isSuccessful: true,
    isLocked: n === 0,
    ignored: [],
    checksum: null,
    bytes: 0,
    createdMs: FIRST_MS,
    completedMs: FIRST_MS,
    file: null,
    isHanging: false,
  }
}

function treeOf(uuid: string, port: number, { filesPerServer, fileKb, oddities, seed }: WorldOptions): SimTree {
  const files = new Map<string, SimFile>()
  const size = fileKb * 1024
  const data = (more: Partial<SimFile>): SimFile => ({ size, mode: 0o644, mtimeMs: FIRST_MS, version: 1, ...more })
  files.set('server.properties', textFile(`server-port=${port}\nmotd=from the source\n`))
  files.set('eula.txt', textFile('eula=true\n'))
  for (let n = 0; n < filesPerServer; n++) files.set(`world/region/r.${n}.0.mca`, data({ size: size + n * 13 }))
  if (oddities) {
    files.set('run.sh', textFile('#!/bin/sh\nexec ./quarry\n', 0o755))
    files.set('empty.dat', data({ size: 0 }))
    files.set('plugins/Größe 日本 😀.yml', textFile('a: 1\n'))
    files.set(`config/${'deep/'.repeat(12)}${'long-name-'.repeat(10)}.json`, textFile('{}\n'))
    files.set('.hidden/notes', data({ size: 777, mode: 0o600, mtimeMs: Date.UTC(2020, 5, 1) }))
  }
  const links = new Map(oddities ? [['latest.log', 'logs/current.log']] : [])
  const emptyDirs = new Set(oddities ? ['world/empty'] : [])
  return { key: `${seed}:${uuid}`, files, links, emptyDirs }
}
