import { FIRST_MS, type SimFile, type SimTree, textFile } from './sim-files.ts'
import type { WorldOptions } from './sim-options.ts'
import { type Random, randomFrom } from './sim-random.ts'

// What stands in the source's database. Plain rows, which a test may change before or while it runs.

export interface SimLocation {
  id: number
  short: string
  long: string
}
export interface SimNode {
  id: number
  uuid: string
  name: string
  description: string | null
  locationId: number
  memory: number
  disk: number
  tokenId: string
  /** Signs URLs, and is full control of the node. */
  token: string
  tags: string[]
}
export interface SimNest {
  id: number
  uuid: string
  name: string
  description: string
}
export interface SimVariable {
  id: number
  eggId: number
  name: string
  description: string
  envVariable: string
  defaultValue: string
  userViewable: boolean
  userEditable: boolean
  rules: string
}
export interface SimEgg {
  id: number
  uuid: string
  nestId: number
  name: string
  author: string
  description: string
  dockerImages: Record<string, string>
  /** `null`: stored so that no list with it can be answered. */
  files: Record<string, unknown> | null
  startupDone: Record<string, unknown> | null
  stop: string | null
  logs: Record<string, unknown> | null
  fileDenylist: string[]
  configFrom: number | null
  scriptFrom: number | null
  startup: string
  install: string | null
  installEntry: string
  installImage: string
  features: string[]
  tags: string[]
  variables: SimVariable[]
}
export interface SimUser {
  id: number
  uuid: string
  username: string
  email: string
  firstName: string
  lastName: string
  rootAdmin: boolean
  has2fa: boolean
}
export interface SimAllocation {
  id: number
  nodeId: number
  ip: string
  alias: string | null
  port: number
  notes: string | null
  serverId: number | null
}
export interface SimSubuser {
  id: number
  userId: number
  permissions: string[]
}
export interface SimDatabase {
  id: number
  hostId: number
  database: string
  username: string
  remote: string
  password: string
  maxConnections: number
}
export interface SimDatabaseHost {
  id: number
  name: string
  host: string
  port: number
  username: string
  nodeId: number | null
}
export interface SimTask {
  id: number
  sequence: number
  action: 'command' | 'power' | 'backup'
  payload: string
  offset: number
  continueOnFailure: boolean
}
export interface SimSchedule {
  id: number
  name: string
  cron: { minute: string; hour: string; dayOfMonth: string; month: string; dayOfWeek: string }
  isActive: boolean
  onlyWhenOnline: boolean
  tasks: SimTask[]
}
export interface SimBackup {
  uuid: string
  name: string
  isSuccessful: boolean
  isLocked: boolean
  ignored: string[]
  checksum: string | null
  bytes: number
  createdMs: number
  completedMs: number | null
  /** Where its archive lies. */
  file: string | null
}
export interface SimServer {
  id: number
  uuid: string
  externalId: string | null
  name: string
  description: string
  status: 'installing' | 'install_failed' | 'suspended' | 'restoring_backup' | null
  nodeId: number
  ownerId: number
  allocationId: number
  eggId: number
  startup: string
  image: string
  limits: { memory: number; swap: number; disk: number; io: number; cpu: number; threads: string | null }
  oomDisabled: boolean
  featureLimits: { databases: number | null; allocations: number | null; backups: number }
  environment: Record<string, string | number | null>
  subusers: SimSubuser[]
  databases: SimDatabase[]
  schedules: SimSchedule[]
  backups: SimBackup[]
  mountIds: number[]
  tree: SimTree
  power: 'offline' | 'starting' | 'running' | 'stopping'
  updatedMs: number
}
export interface SimMount {
  id: number
  uuid: string
  name: string
  description: string
  source: string
  target: string
  readOnly: boolean
  userMountable: boolean
}
export interface SimWorld {
  readonly options: WorldOptions
  locations: SimLocation[]
  nodes: SimNode[]
  nests: SimNest[]
  eggs: SimEgg[]
  users: SimUser[]
  allocations: SimAllocation[]
  databaseHosts: SimDatabaseHost[]
  servers: SimServer[]
  mounts: SimMount[]
  sshKeys: { name: string; publicKey: string; fingerprint: string }[]
}

const VARIABLE = {
  description: 'What the server is given',
  userViewable: true,
  userEditable: true,
}

function eggs(random: Random, { poisonEgg, oddities }: WorldOptions): SimEgg[] {
  let variableId = 0
  const variable = (
    eggId: number,
    envVariable: string,
    defaultValue: string,
    rules: string,
    more = {},
  ): SimVariable => ({
    ...VARIABLE,
    id: ++variableId,
    eggId,
    name: `Variable ${envVariable}`,
    envVariable,
    defaultValue,
    rules,
    ...more,
  })
  const egg = (id: number, nestId: number, name: string, more: Partial<SimEgg> = {}): SimEgg => ({
    id,
    uuid: random.uuid(),
    nestId,
    name,
    author: 'eggs@source.example',
    description: `How ${name} is run`,
    dockerImages: { 'Java 17': 'registry.example/yolks:java_17', 'Java 21': 'registry.example/yolks:java_21' },
    files: { 'server.properties': { parser: 'properties', find: { 'server-port': '{{server.build.default.port}}' } } },
    startupDone: { done: 'Done (' },
    stop: 'stop',
    logs: {},
    fileDenylist: [],
    configFrom: null,
    scriptFrom: null,
    startup: 'java -Xms128M -Xmx{{SERVER_MEMORY}}M -jar {{SERVER_JARFILE}}',
    install: '#!/bin/ash\nmkdir -p /mnt/server\n',
    installEntry: 'ash',
    installImage: 'registry.example/installers:alpine',
    features: ['eula'],
    tags: ['minecraft'],
    variables: [],
    ...more,
  })
  const odd = oddities
    ? [
        variable(1, 'MOTD', 'a|b', 'required|string|regex:/^[a-z|A-Z ]{1,40}$/'),
        variable(1, 'WEB_MAP', '', 'nullable|active_url|starts_with:http'),
        variable(1, 'HIDDEN_SEED', '42', 'numeric', { userViewable: false, userEditable: false }),
      ]
    : []
  const inherits = { files: {}, startupDone: null, stop: null, logs: null, install: null, configFrom: 1, scriptFrom: 1 }
  return [
    egg(1, 1, 'Paper', {
      variables: [variable(1, 'SERVER_JARFILE', 'server.jar', 'required|string|max:40'), ...odd],
    }),
    egg(2, 1, 'Paper child', {
      ...inherits,
      variables: [variable(2, 'SERVER_JARFILE', 'child.jar', 'required|string')],
    }),
    egg(3, 2, 'Quarry', {
      files: {},
      startupDone: { done: ['Quarry is open'] },
      stop: '^C',
      startup: './quarry --name "{{QUARRY_NAME}}"',
      features: [],
      tags: ['other'],
      variables: [variable(3, 'QUARRY_NAME', 'pit', 'required|string|max:20')],
    }),
    // A second egg of a name that another nest has too.
    egg(4, 2, 'Paper', {
      tags: ['other'],
      variables: [variable(4, 'SERVER_JARFILE', 'paper.jar', 'required|string')],
    }),
    ...(poisonEgg ? [egg(5, 1, 'Broken', { files: null })] : []),
  ]
}

const PLAIN_CRON = { minute: '0', hour: '4', dayOfMonth: '*', month: '*', dayOfWeek: '*' }
const ODD_CRONS = [
  { minute: '*/7', hour: '0-6/2', dayOfMonth: '1', month: '1,4,7,10', dayOfWeek: '*' },
  { minute: '1-59/2', hour: '*', dayOfMonth: '*', month: '*', dayOfWeek: 'MON-FRI' },
  { minute: '30', hour: '3', dayOfMonth: 'L', month: 'JAN,JUL', dayOfWeek: '?' },
]

function usersOf(random: Random, { users, oddities }: WorldOptions): SimUser[] {
  const odd: Partial<SimUser>[] = [
    { username: 'j.doe', email: 'J.Doe@Players.Example' },
    { username: 'j_doe', email: 'other.doe@players.example', has2fa: true },
    { username: 'UPPER.Case', email: 'UPPER@players.example', lastName: '' },
    { username: 'ünïcödé', email: 'unicode@players.example', firstName: 'Zoë' },
  ]
  const player = (n: number): SimUser => ({
    id: n + 1,
    uuid: random.uuid(),
    username: `player${n}`,
    email: `player${n}@players.example`,
    firstName: 'Player',
    lastName: `No ${n}`,
    rootAdmin: false,
    has2fa: false,
    ...(oddities ? odd[n - 1] : {}),
  })
  const admin = {
    id: 1,
    uuid: random.uuid(),
    username: 'admin',
    email: 'admin@source.example',
    firstName: 'A',
    lastName: 'B',
  }
  return [
    { ...admin, rootAdmin: true, has2fa: false },
    ...Array.from({ length: users }, (_, index) => player(index + 1)),
  ]
}

function treeOf(uuid: string, port: number, { filesPerServer, fileKb, oddities, seed }: WorldOptions): SimTree {
  const files = new Map<string, SimFile>()
  const size = fileKb * 1024
  const data = (more: Partial<SimFile> = {}): SimFile => ({
    size,
    mode: 0o644,
    mtimeMs: FIRST_MS,
    version: 1,
    ...more,
  })
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

/** A source as the options describe it. */
export function createWorld(options: WorldOptions): SimWorld {
  const random = randomFrom(`source ${options.seed}`)
  const { oddities } = options
  const locations = [
    { id: 1, short: 'eu.fra', long: 'Frankfurt' },
    { id: 2, short: 'us.nyc', long: 'New York' },
  ]
  const nodes = Array.from(
    { length: options.nodes },
    (_, index): SimNode => ({
      id: index + 1,
      uuid: random.uuid(),
      name: `node-${String.fromCharCode(97 + (index % 26))}${index < 26 ? '' : index}`,
      description: index === 0 ? null : 'a further one',
      locationId: (index % 2) + 1,
      memory: 65_536,
      disk: 500_000,
      tokenId: random.text(16),
      token: random.text(64),
      tags: index === 0 ? ['fra'] : [],
    }),
  )
  const nests = [
    { id: 1, uuid: random.uuid(), name: 'Minecraft', description: 'Blocks' },
    { id: 2, uuid: random.uuid(), name: 'Others', description: 'Everything else' },
  ]
  const world: SimWorld = {
    options,
    locations,
    nodes,
    nests,
    eggs: eggs(random, options),
    users: usersOf(random, options),
    allocations: [],
    databaseHosts: [
      { id: 1, name: 'main', host: '127.0.0.1', port: 3306, username: 'pterodactyl', nodeId: null },
      { id: 2, name: 'second', host: 'db.source.example', port: 3307, username: 'pterodactyl', nodeId: 1 },
    ],
    servers: [],
    mounts: [
      {
        id: 1,
        uuid: random.uuid(),
        name: 'maps',
        description: 'shared maps',
        source: '/srv/maps',
        target: '/home/container/maps',
        readOnly: true,
        userMountable: false,
      },
    ],
    sshKeys: [],
  }
  const allocate = (
    nodeId: number,
    port: number,
    serverId: number | null,
    more: Partial<SimAllocation> = {},
  ): number => {
    const id = world.allocations.length + 1
    world.allocations.push({ id, nodeId, ip: `10.0.0.${nodeId}`, alias: null, port, notes: null, serverId, ...more })
    return id
  }
  for (let id = 1; id <= options.servers; id++) addServer(world, id, random, allocate)
  for (const { id } of nodes) for (let free = 0; free < 3; free++) allocate(id, 40_000 + free, null)
  if (oddities) allocate(1, 41_000, 1, { ip: '2001:db8::10', alias: 'play.source.example', notes: 'IPv6' })
  return world
}

type Allocate = (nodeId: number, port: number, serverId: number | null, more?: Partial<SimAllocation>) => number

function addServer(world: SimWorld, id: number, random: Random, allocate: Allocate): void {
  const { options } = world
  const { servers, nodes, suspended, fullSlots, zeroSlots, danglingOwners, oddities } = options
  const fromEnd = servers - id
  const kind =
    fromEnd < suspended
      ? 'suspended'
      : fromEnd < suspended + fullSlots
        ? 'full'
        : fromEnd < suspended + fullSlots + zeroSlots
          ? 'zero'
          : 'plain'
  const uuid = random.uuid()
  const nodeId = ((id - 1) % nodes) + 1
  const eggId = world.eggs[(id - 1) % world.eggs.length]?.id ?? 1
  const egg = world.eggs.find((one) => one.id === eggId)
  // The ports repeat on each node, as they do where every node begins to count anew.
  const port = 25_565 + Math.floor((id - 1) / nodes)
  const allocationId = allocate(nodeId, port, id)
  if (id % 4 === 1) {
    allocate(nodeId, port + 5_000, id, { notes: 'query' })
    allocate(nodeId, port + 6_000, id)
  }
  const players = world.users.filter(({ rootAdmin }) => !rootAdmin)
  const owner = players[(id - 1) % Math.max(players.length, 1)]
  const friend = players[id % Math.max(players.length, 1)]
  const variables = Object.fromEntries((egg?.variables ?? []).map((one) => [one.envVariable, one.defaultValue]))
  const number = (offset: number): number => id * 100 + offset
  const task = (offset: number, action: SimTask['action'], payload: string, seconds = 0): SimTask => ({
    id: number(offset),
    sequence: offset,
    action,
    payload,
    offset: seconds,
    continueOnFailure: offset === 2,
  })
  const schedules: SimSchedule[] = [
    {
      id: number(1),
      name: 'nightly',
      cron: PLAIN_CRON,
      isActive: true,
      onlyWhenOnline: false,
      tasks: [
        task(1, 'command', 'say restart in a minute'),
        task(2, 'backup', 'cache\n*.log', 5),
        task(3, 'power', 'restart', 60),
      ],
    },
    ...(oddities && id <= ODD_CRONS.length
      ? [
          {
            id: number(2),
            name: 'odd times',
            cron: ODD_CRONS[id - 1] ?? PLAIN_CRON,
            isActive: id !== 2,
            onlyWhenOnline: true,
            tasks: id === 3 ? [] : [{ ...task(4, 'command', 'say odd'), sequence: 1 }],
          },
        ]
      : []),
  ]
  const database = (offset: number, name: string): SimDatabase => ({
    id: number(offset),
    hostId: 1,
    database: `s${id}_${name}`,
    username: `u${id}_${random.text(10)}`,
    remote: '%',
    password: `${random.text(20)}'"\\=^@`,
    maxConnections: offset === 1 ? 0 : 5,
  })
  const full = 2
  const backup = (n: number): SimBackup => ({
    uuid: random.uuid(),
    name: `weekly ${n}`,
    isSuccessful: true,
    isLocked: n === 0,
    ignored: [],
    checksum: `sha1:${random.text(8)}`,
    bytes: 10,
    createdMs: FIRST_MS,
    completedMs: FIRST_MS,
    file: null,
  })
  const slots = kind === 'zero' ? 0 : full
  const hasOwner = id > danglingOwners
  world.servers.push({
    id,
    uuid,
    externalId: id === 2 ? 'billing-2' : null,
    name: oddities && id === 1 ? 'Städte & <Länder>' : `server ${id}`,
    description: id % 3 === 0 ? 'One of three' : '',
    status: kind === 'suspended' ? 'suspended' : null,
    nodeId,
    ownerId: hasOwner ? (owner?.id ?? 1) : 9_000 + id,
    allocationId,
    eggId,
    startup: egg?.startup ?? 'true',
    image: Object.values(egg?.dockerImages ?? {})[0] ?? 'registry.example/none',
    limits: {
      memory: 1024,
      swap: id % 5 === 0 ? -1 : 0,
      disk: 5_000,
      io: 500,
      cpu: id % 3 === 0 ? 250 : 100,
      threads: oddities && id === 4 ? '0,2-3' : null,
    },
    oomDisabled: id !== 2,
    featureLimits: { databases: 2, allocations: 3, backups: slots },
    environment: { ...variables, ...(id === 1 && oddities ? { MOTD: null, HIDDEN_SEED: 7 } : {}) },
    subusers:
      friend === undefined || friend.id === owner?.id
        ? []
        : [
            {
              id,
              userId: friend.id,
              permissions: [
                'websocket.connect',
                'control.console',
                'control.start',
                'control.restart',
                'file.read',
                'file.read-content',
                'file.sftp',
                'user.read',
              ],
            },
          ],
    databases: id % 2 === 1 ? [database(1, oddities ? 'a_very_long_database_name_of_more_than_twenty' : 'main')] : [],
    schedules,
    backups: kind === 'full' ? Array.from({ length: full }, (_, n) => backup(n)) : id === 1 ? [backup(0)] : [],
    mountIds: id === 3 ? [1] : [],
    tree: treeOf(uuid, port, options),
    power: id % 4 === 2 ? 'running' : 'offline',
    updatedMs: FIRST_MS,
  })
}
