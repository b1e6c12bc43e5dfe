import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../module-graph.ts'
import { skippedUnless } from '../skips.ts'
import { requestTo } from './request.ts'
import { type SourceSimulator, startSource } from './source-simulator.ts'

// The simulator is what the client of the source is tested against, so it has to be what sources are.

/** Recorded answers of a real one, which the repository does not hold. */
const RECORDED = join(ROOT, '../shared/data/pterodactyl-views.json')
const HAS_RECORDED = existsSync(RECORDED)

type Kinds = Map<string, Set<string>>

const FORMATS: readonly (readonly [string, RegExp])[] = [
  ['date', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/],
  ['date with fractions', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/],
  ['uuid', /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/],
]

/** The type of a value; of texts the format, of names of objects what they are. */
function kindOf(value: unknown, path: string): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'list'
  if (typeof value !== 'string') return typeof value
  if (/(?:^|\.)object$/.test(path)) return `"${value}"`
  return FORMATS.find(([, pattern]) => pattern.test(value))?.[0] ?? 'string'
}

/** The kinds of all values below, by their paths; entries of lists share one. */
function kindsOf(value: unknown, path = '', found: Kinds = new Map()): Kinds {
  const kinds = found.get(path) ?? new Set()
  found.set(path, kinds.add(kindOf(value, path)))
  if (Array.isArray(value)) for (const one of value) kindsOf(one, `${path}[]`, found)
  else if (typeof value === 'object' && value !== null) {
    for (const [name, one] of Object.entries(value)) kindsOf(one, path === '' ? name : `${path}.${name}`, found)
  }
  return found
}

/** Maps whose names are data. */
const FREE =
  /(?:config\.files|config\.startup|config\.logs|attributes\.files|attributes\.startup|attributes\.logs|docker_images|environment)[.[]/
/** What real ones may have too, beside what was recorded; by the end of the path. */
const MAY_ALSO_BE: Readonly<Record<string, readonly string[]>> = {
  description: ['null', 'string'],
  external_id: ['null', 'string'],
  status: ['null', 'string'],
  threads: ['null', 'string'],
  alias: ['null', 'string'],
  ip_alias: ['null', 'string'],
  notes: ['null', 'string'],
  checksum: ['null', 'string'],
  completed_at: ['null', 'date'],
  last_run_at: ['null', 'date'],
  server_value: ['null', 'string'],
  'feature_limits.databases': ['null'],
  'feature_limits.allocations': ['null'],
  'feature_limits.backups': ['null'],
  // PHP writes an empty map as a list.
  'config.startup': ['list', 'object'],
  'config.logs': ['list', 'object'],
  'config.files': ['list', 'object'],
  // An egg that inherits, and one that does not.
  'config.stop': ['null', 'string'],
  'script.install': ['null', 'string'],
  'config.extends': ['null', 'number'],
  'script.extends': ['null', 'number'],
}

function alsoAllowed(path: string): readonly string[] {
  return Object.entries(MAY_ALSO_BE).flatMap(([end, kinds]) => (`.${path}`.endsWith(`.${end}`) ? kinds : []))
}

/** Where our answer is not what theirs is. */
function differences(ours: Kinds, theirs: Kinds): string[] {
  const names = (kinds: Kinds): string[] => [...kinds.keys()].filter((path) => !FREE.test(path))
  // What was recorded has empty lists where the simulator has rows.
  const isBelowEmpty = (path: string): boolean =>
    [...theirs.keys()].some((list) => path.startsWith(`${list}[]`) && !theirs.has(`${list}[]`))
  const missing = names(theirs).filter((path) => !ours.has(path))
  const added = names(ours).filter((path) => !theirs.has(path) && !isBelowEmpty(path))
  const others = names(theirs).flatMap((path) => {
    const [mine, real, may] = [ours.get(path), theirs.get(path), alsoAllowed(path)]
    const wrong = [...(mine ?? [])].filter((kind) => real?.has(kind) !== true && !may.includes(kind))
    const never = [...(real ?? [])].filter((kind) => mine?.has(kind) !== true && !may.includes(kind))
    return [...wrong.map((kind) => `${path} is ${kind}`), ...never.map((kind) => `${path} is never ${kind}`)]
  })
  return [...missing.map((path) => `${path} is missing`), ...added.map((path) => `${path} is too much`), ...others]
}

const asked: readonly (readonly [name: string, path: string])[] = [
  ['app.locations', '/api/application/locations?include=nodes,servers'],
  ['app.nodes', '/api/application/nodes?include=allocations,location,servers'],
  ['app.allocations', '/api/application/nodes/1/allocations?include=node,server&filter[server_id]=1'],
  ['app.nests', '/api/application/nests?include=eggs'],
  ['app.eggs', '/api/application/nests/1/eggs?include=nest,config,script,variables'],
  ['app.users', '/api/application/users?include=servers'],
  [
    'app.servers',
    '/api/application/servers?include=allocations,user,subusers,nest,egg,variables,location,node,databases',
  ],
  ['app.server.databases', '/api/application/servers/1/databases?include=password,host'],
  ['client.backups', '/api/client/servers/SERVER/backups'],
  ['client.schedules', '/api/client/servers/SERVER/schedules'],
  ['client.users', '/api/client/servers/SERVER/users'],
  ['client.allocations', '/api/client/servers/SERVER/network/allocations'],
  ['client.account', '/api/client/account'],
  ['client.servers', '/api/client?type=admin-all&include=egg,subusers'],
]

let source: SourceSimulator
beforeAll(async () => {
  source = await startSource({ faults: { backupHang: 1 } })
})
afterAll(() => source.close())

describe('the answers of the simulator', () => {
  it.skipIf(!HAS_RECORDED).each(asked)(
    `have the names and types of a real source's, and no others: %s${skippedUnless(HAS_RECORDED, 'recorded answers beside the repository')}`,
    async (name, path) => {
      const recorded: unknown = JSON.parse(readFileSync(RECORDED, 'utf8'))
      const uuid = source.world.servers[0]?.uuid ?? ''
      const ask = requestTo(source)
      if (name === 'client.backups') await ask(`/api/client/servers/${uuid}/backups`, { method: 'POST' })
      const { meta: _, ...answer } = (await (await ask(path.replace('SERVER', uuid))).json()) as Record<string, unknown>
      const theirs = kindsOf(Reflect.get(recorded as object, name))
      expect(theirs.size).toBeGreaterThan(5)
      expect(differences(kindsOf(answer), theirs)).toEqual([])
    },
  )

  it.skipIf(!HAS_RECORDED)(
    `are all compared that were recorded${skippedUnless(HAS_RECORDED, 'recorded answers beside the repository')}`,
    () => {
      const recorded = JSON.parse(readFileSync(RECORDED, 'utf8')) as Record<string, unknown>
      expect(Object.keys(recorded).toSorted()).toEqual(asked.map(([name]) => name).toSorted())
    },
  )

  it('would be found to be others', () => {
    const theirs = kindsOf({ object: 'list', data: [{ id: 1, at: '2026-01-02T03:04:05+00:00', notes: null }] })
    const ours = kindsOf({ object: 'lists', data: [{ id: '1', at: '2026-01-02', notes: 'a', more: true }] })
    expect(differences(ours, theirs).sort()).toEqual([
      'data[].at is never date',
      'data[].at is string',
      'data[].id is never number',
      'data[].id is string',
      'data[].more is too much',
      'object is "lists"',
      'object is never "list"',
    ])
    expect(differences(theirs, theirs)).toEqual([])
  })
})
