import { describe, expect, it } from 'vitest'
import { mappedPermissions } from '../../../src/daemon/features/operations/migration/plan/permissions.ts'
import { buildPlan } from '../../../src/daemon/features/operations/migration/plan/plan.ts'
import type { PlanRequest } from '../../../src/daemon/features/operations/migration/plan/scope.ts'
import type { SourceSnapshot, TargetState } from '../../../src/daemon/features/operations/migration/plan/state.ts'
import type { SourceServer } from '../../../src/daemon/features/operations/migration/source/model.ts'
import { MigrationOptions } from '../../../src/shared/api/migration.ts'
import { isoTime } from '../../../src/shared/kernel/time.ts'

const server = (id: string, nodeId: string, port: number): SourceServer => ({
  ...{ id, uuid: `00000000-0000-4000-8000-00000000000${id}`, identifier: id, externalId: null, name: `server ${id}` },
  ...{ description: '', state: 'ready', isSuspended: false, ownerId: '1', nodeId, nestId: '1', eggId: '1' },
  limits: {
    memoryMb: 512,
    swapMb: 0,
    diskMb: 1024,
    ioWeight: 500,
    cpuPercent: 150,
    threads: null,
    isOomKillerOff: false,
  },
  featureLimits: { databases: 1, allocations: 0, backups: 1 },
  ...{ startup: 'run', image: '', isInstalled: true, environment: {}, primaryAllocationId: id, subusers: [] },
  allocations: [{ id, ip: '203.0.113.1', port, alias: null, notes: null, isPrimary: true }],
  updatedAt: null,
  filesFingerprint: null,
})

const node = (id: string) => ({
  ...{
    id,
    uuid: null,
    name: `node ${id}`,
    description: '',
    locationId: '1',
    fqdn: 'n.example.org',
    origin: 'https://n.example.org:8080',
  },
  ...{ sftpPort: 2022, memoryMb: 1, diskMb: 1, isInMaintenance: false, tags: [] },
})

/** Ids of nodes and servers are the same numbers on purpose. */
const source: SourceSnapshot = {
  flavor: 'pterodactyl',
  fingerprint: 'fp',
  isDirectory: false,
  locations: [{ id: '1', name: 'eu', description: '' }],
  nests: [{ id: '1', uuid: null, name: 'Games', description: '' }],
  eggs: [{ id: '1', uuid: null, nestId: '1', name: 'Game', mustExist: false, document: { name: 'Game' } }],
  nodes: [node('1'), node('2')],
  users: [
    {
      ...{
        id: '1',
        uuid: 'u1',
        externalId: null,
        username: 'a.b',
        email: 'a@example.org',
        firstName: null,
        lastName: null,
      },
      ...{ language: null, isAdmin: true, hasTwoFactor: false, mustExist: false },
    },
  ],
  servers: [server('1', '2', 25565), server('2', '1', 25565)],
  mounts: [],
  perServer: new Map(),
  unreadable: [],
  losses: [],
  requestsPerMinute: 240,
}

const target: TargetState = {
  nodes: new Map([
    [
      'node_a',
      {
        ...{
          id: 'node_a',
          name: 'a',
          locationId: 'loc_a',
          defaultIp: '10.0.0.1',
          maxCpuCores: 4,
          runtimes: ['docker'],
        },
        ...{ isAgentTooOld: false, freeMemoryMb: 4096, freeCpuCores: null, takenPorts: new Set<string>() },
      },
    ],
  ]),
  ...{ locations: new Map([['eu', 'loc_a']]), nests: new Map(), templates: new Map(), users: new Map() },
  ...{
    usernames: new Map<string, string>(),
    withoutPassword: new Set<string>(),
    servers: new Map(),
    databaseHosts: new Map(),
    takesDatabases: false,
    brought: new Map(),
  },
}

const createdAt = isoTime(Date.parse('2026-01-01T00:00:00Z'))
const plan = (request: Partial<PlanRequest> = {}, from = source, to = target) =>
  buildPlan(from, to, {
    createdAt,
    request: {
      ...{ scope: 'full', nodeMappings: { 1: 'node_a', 2: 'node_a' }, serverMappings: {}, phases: [] },
      options: MigrationOptions.parse({}),
      ...request,
    },
  })

describe('the plan of a migration', () => {
  it('says how much comes where the source says it, and that nobody knows it elsewhere', () => {
    const backup = { name: 'b', state: 'good', isLocked: false, ignored: [], sha1: null, createdAt: null } as const
    const backups = [
      { ...backup, uuid: 'b1', bytes: 5000 },
      { ...backup, uuid: 'b2', bytes: 700 },
      { ...backup, uuid: 'b3', bytes: 90, state: 'failed' as const },
    ]
    const held = { subusers: [], databases: [], schedules: [], backups }
    const from = { ...source, perServer: new Map([['1', held]]) }
    const options = MigrationOptions.parse({ backups: 'copy' })
    const stored = plan({ phases: ['backups'], options }, from).plan
    expect(stored.estimate.bytes).toBe(5700)
    expect(stored.items.find(({ source: { id } }) => id === 'b2')?.bytesEstimate).toBe(700)
    expect(plan({ options }, from).plan.estimate.bytes).toBeNull()
  })

  it('stops where two nodes that become one have the same port, and gives another one when asked to', () => {
    const { plan: refused } = plan()
    expect(refused.conflicts.map(({ code }) => code)).toEqual(['PORT_TAKEN'])
    expect(refused.conflicts[0]?.policyOptions).toEqual(['remap'])
    const { plan: made, steps } = plan({ options: MigrationOptions.parse({ conflicts: { port: 'remap' } }) })
    expect(made.conflicts).toEqual([])
    const given = steps.filter(({ action }) => action === 'import_server').map(({ input }) => input['ports'])
    expect(given).toMatchObject([[{ port: 25565 }], [{ port: 20000, from: '203.0.113.1:25565' }]])
  })

  it('says how long the throttle of the source makes it at least, and nothing where there is none', () => {
    const { apiRequests, minSeconds } = plan().plan.estimate
    expect(apiRequests).toBeGreaterThan(0)
    expect(minSeconds).toBe(Math.ceil(apiRequests / 4))
    expect(plan({}, { ...source, requestsPerMinute: 480 }).plan.estimate.minSeconds).toBe(Math.ceil(apiRequests / 8))
    expect(plan({}, { ...source, requestsPerMinute: null }).plan.estimate.minSeconds).toBe(0)
    expect(plan({}, { ...source, isDirectory: true }).plan.estimate).toMatchObject({ apiRequests: 0, minSeconds: 0 })
  })

  it('stops where the agent of a node cannot fetch files, once for the node, and not when no files come', () => {
    const [id, held] = [...target.nodes][0] ?? expect.fail()
    const old = { ...target, nodes: new Map([[id, { ...held, isAgentTooOld: true }]]) }
    const options = MigrationOptions.parse({ conflicts: { port: 'remap' } })
    const { conflicts } = plan({ options }, source, old).plan
    expect(conflicts.map(({ code, target: at }) => [code, at?.id])).toEqual([['AGENT_VERSION', id]])
    expect(plan({ options, phases: ['servers'] }, source, old).plan.conflicts).toEqual([])
  })

  it('leaves out the schedules that a server may not have here, and says so; those that are here stay', () => {
    const cron = { minute: '0', hour: '4', dayOfMonth: '*', month: '*', dayOfWeek: '*' }
    const schedules = Array.from({ length: 102 }, (_, n) => {
      return { id: `s${n}`, name: `schedule ${n}`, cron, isActive: true, onlyWhenOnline: false, tasks: [] }
    })
    const from = { ...source, perServer: new Map([['1', { subusers: [], databases: [], schedules, backups: [] }]]) }
    const left = (to?: TargetState) => {
      const { plan: made } = plan({}, from, to)
      const skipped = made.items.filter(({ reason }) => reason === 'too_many_schedules')
      expect(made.warnings).toContainEqual(
        expect.stringContaining('server 1: a server has 100 schedules at most here, 2 of'),
      )
      return skipped.map(({ op, source: { id } }) => [op, id])
    }
    expect(left()).toEqual([
      ['skip', '1/s100'],
      ['skip', '1/s101'],
    ])
    const last = { targetId: 'sch_a', contentHash: 'another', isThere: true, created: true }
    expect(left({ ...target, brought: new Map([['schedule 1/s101', last]]) })).toEqual([
      ['skip', '1/s99'],
      ['skip', '1/s100'],
    ])
  })

  it('takes servers by their node, not by an id that is the same', () => {
    const { steps } = plan({ scope: 'node', nodeMappings: { 1: 'node_a' } })
    expect(steps.filter(({ action }) => action === 'import_server').map(({ sourceId }) => sourceId)).toEqual(['2'])
  })

  it('is the same plan, by its hash, from the same source, panel and options', () => {
    expect(plan().plan.hash).toBe(plan().plan.hash)
    expect(plan().plan.hash).not.toBe(plan({ scope: 'node' }).plan.hash)
  })

  it('has every step need only steps that are there, and before it', () => {
    const { steps } = plan()
    const seen = new Set<string>()
    for (const { id, needs, follows } of steps) {
      for (const one of [...needs, ...follows]) expect(seen).toContain(one)
      expect(seen).not.toContain(id)
      seen.add(id)
    }
  })

  it('does once what a source names twice, and says so', () => {
    const [first, second] = source.servers
    if (first === undefined || second === undefined) throw new Error('the source has servers')
    const { plan: made, steps } = plan({}, { ...source, servers: [first, second, { ...second, id: first.id }] })
    expect(new Set(steps.map(({ id }) => id)).size).toBe(steps.length)
    expect(steps.filter(({ action }) => action === 'import_server').map(({ sourceId }) => sourceId)).toEqual(['1', '2'])
    expect(made.warnings).toEqual([expect.stringMatching(/^server server \d: the source has the id 1 more than once$/)])
  })

  it('links a location of the same name, and makes names that this panel takes', () => {
    const { plan: made, steps } = plan()
    expect(made.items.find(({ action }) => action === 'import_location')).toMatchObject({
      op: 'link',
      target: { id: 'loc_a' },
    })
    expect(steps.find(({ action }) => action === 'import_user')?.input).toMatchObject({
      username: 'a_b',
      grantAdmin: false,
    })
  })
})

it('rights of sub-users are those that they name, and never more', () => {
  expect(mappedPermissions(['control.restart', 'user.create', 'settings.rename', 'file.read-content'])).toEqual({
    permissions: ['file.read', 'server.read', 'server.start', 'server.stop'],
    unmapped: ['settings.rename', 'user.create'],
  })
})
