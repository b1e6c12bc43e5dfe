import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../module-graph.ts'
import { skippedUnless } from '../skips.ts'
import { type SourceSimulator, startSource } from './source-simulator.ts'

// The simulator is what the client of the source is tested against, so it has to be what sources are.

/** Recorded answers of a real one, which the repository does not hold. */
const RECORDED = join(ROOT, '../shared/data/pterodactyl-views.json')
const HAS_RECORDED = existsSync(RECORDED)

type Tree = { [path: string]: Set<string> }

/** The kinds of all values below, by their paths; entries of lists share one. */
function kindsOf(value: unknown, path = '', found: Tree = {}): Tree {
  const kind = value === null ? 'null' : Array.isArray(value) ? 'list' : typeof value
  found[path] ??= new Set()
  found[path].add(kind)
  if (Array.isArray(value)) for (const one of value) kindsOf(one, `${path}[]`, found)
  else if (typeof value === 'object' && value !== null) {
    for (const [name, one] of Object.entries(value)) kindsOf(one, path === '' ? name : `${path}.${name}`, found)
  }
  return found
}

/** Maps whose names are data. */
const FREE =
  /(?:config\.files|config\.startup|config\.logs|attributes\.files|attributes\.startup|attributes\.logs|docker_images|environment)[.[]/
/** What may be there or not, in real ones too, beside what was recorded; by the end of the path. */
const MAY_ALSO_BE: Readonly<Record<string, readonly string[]>> = {
  description: ['null', 'string'],
  external_id: ['null', 'string'],
  status: ['null', 'string'],
  threads: ['null', 'string'],
  alias: ['null', 'string'],
  ip_alias: ['null', 'string'],
  notes: ['null', 'string'],
  checksum: ['null', 'string'],
  completed_at: ['null', 'string'],
  last_run_at: ['null', 'string'],
  server_value: ['null', 'string'],
  node: ['null', 'number', 'object', 'string'],
  // PHP writes an empty map as a list.
  files: ['list', 'object'],
  startup: ['list', 'object', 'string'],
  logs: ['list', 'object'],
  // An egg that inherits, and one that does not.
  stop: ['null', 'string'],
  install: ['null', 'string'],
  extends: ['null', 'number'],
  attributes: ['null', 'object'],
  object: ['null', 'string'],
}

const asked: readonly (readonly [name: string, path: string])[] = [
  ['app.locations', '/api/application/locations?include=nodes,servers'],
  ['app.nodes', '/api/application/nodes?include=allocations,location,servers'],
  ['app.allocations', '/api/application/nodes/1/allocations?include=node,server'],
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

const get = async (path: string, key = source.keys.account, init: RequestInit = {}): Promise<Response> =>
  await fetch(`${source.url}${path}`, {
    redirect: 'manual',
    ...init,
    headers: { authorization: `Bearer ${key}`, accept: 'application/json', ...init.headers },
  })
const json = async (path: string, key?: string): Promise<Record<string, unknown>> =>
  (await (await get(path, key)).json()) as Record<string, unknown>

describe('the answers of the simulator', () => {
  it.skipIf(!HAS_RECORDED).each(asked)(
    `have the names and types of a real source's, and no others: %s${skippedUnless(HAS_RECORDED, 'recorded answers beside the repository')}`,
    async (name, path) => {
      const recorded: unknown = JSON.parse(readFileSync(RECORDED, 'utf8'))
      const uuid = source.world.servers[0]?.uuid ?? ''
      if (name === 'client.backups') await get(`/api/client/servers/${uuid}/backups`, undefined, { method: 'POST' })
      const { meta: _, ...answer } = await json(path.replace('SERVER', uuid))
      const theirs = kindsOf(Reflect.get(recorded as object, name))
      const ours = kindsOf(answer)
      const names = (tree: Tree): string[] => Object.keys(tree).filter((one) => !FREE.test(one))
      // What was recorded has empty lists where the simulator has rows.
      const below = (path: string): boolean =>
        names(theirs).some((one) => path.startsWith(`${one}[]`) && theirs[`${one}[]`] === undefined)
      expect(names(theirs).filter((one) => ours[one] === undefined)).toEqual([])
      expect(names(ours).filter((one) => theirs[one] === undefined && !below(one))).toEqual([])
      for (const path of names(theirs)) {
        const may = MAY_ALSO_BE[path.slice(path.lastIndexOf('.') + 1)] ?? []
        const both = new Set([...(theirs[path] ?? []), ...may])
        expect(
          [...(ours[path] ?? [])].filter((kind) => !both.has(kind)),
          `${path} is ${[...(ours[path] ?? [])]}`,
        ).toEqual([])
        const lacks = [...(theirs[path] ?? [])].filter((kind) => ours[path]?.has(kind) !== true)
        expect(
          lacks.filter((kind) => !may.includes(kind)),
          `${path} is never ${lacks}`,
        ).toEqual([])
      }
    },
  )

  it('say of what is wrong what the framework of the source says', async () => {
    const first = async (response: Response): Promise<unknown> => {
      const { errors } = (await response.json()) as { errors: { code: string; status: string }[] }
      return [response.status, errors[0]?.code, errors[0]?.status]
    }
    const { keys } = source
    expect(await first(await get('/api/application/nodes', 'ptla_no'))).toEqual([401, 'AuthenticationException', '401'])
    expect(await first(await get('/api/client', keys.application))).toEqual([403, 'AccessDeniedHttpException', '403'])
    expect(await first(await get('/api/application/users', keys.member))).toEqual([
      403,
      'AccessDeniedHttpException',
      '403',
    ])
    expect(await first(await get('/api/application/users', keys.applicationServersOnly))).toEqual([
      403,
      'AccessDeniedHttpException',
      '403',
    ])
    expect(await first(await get('/api/application/eggs'))).toEqual([404, 'NotFoundHttpException', '404'])
    expect(await first(await get('/api/application/servers?include=transfer'))).toEqual([500, 'TypeError', '500'])
    const html = await get('/api/application/nodes', 'ptla_no', { headers: { accept: 'text/html' } })
    expect([html.status, html.headers.get('location')]).toEqual([302, `${source.url}/auth/login`])
    const shown = await json('/api/application/servers?include=egg,databases', keys.applicationServersOnly)
    expect(JSON.stringify(shown)).toContain('"egg":{"object":"null_resource","attributes":null}')
  })

  it('come in pages, of which those of lists without a sort overlap', async () => {
    const ids = async (query: string): Promise<number[]> => {
      const pages = await Promise.all(
        [1, 2].map((page) => json(`/api/application/servers?per_page=6&page=${page}${query}`)),
      )
      return pages.flatMap((page) => (page['data'] as { attributes: { id: number } }[]).map((row) => row.attributes.id))
    }
    expect(new Set(await ids('&sort=id')).size).toBe(12)
    expect(new Set(await ids('')).size).toBeLessThan(12)
    const { meta } = await json('/api/application/servers?per_page=5&page=2&sort=id')
    expect(meta).toMatchObject({ pagination: { total: 12, count: 5, per_page: 5, current_page: 2, total_pages: 3 } })
    expect((await get('/api/application/nests?sort=id')).status).toBe(400)
    expect(await json('/api/application/nests/1/eggs')).not.toHaveProperty('meta')
  })

  it('are those of Pelican where it is one', async () => {
    const pelican = await startSource({ flavor: 'pelican', servers: 3 })
    try {
      const ask = async (path: string): Promise<Response> =>
        await fetch(`${pelican.url}/api/application/${path}`, {
          headers: { authorization: `Bearer ${pelican.keys.application}`, accept: 'application/json' },
        })
      const rows = async (path: string): Promise<Record<string, unknown>> => {
        const { data } = (await (await ask(path)).json()) as { data: { attributes: Record<string, unknown> }[] }
        return data[0]?.attributes ?? {}
      }
      expect([(await ask('nests')).status, (await ask('locations')).status]).toEqual([404, 404])
      expect((await ask('eggs?include=config')).status).toBe(500)
      expect(await rows('servers')).not.toHaveProperty('nest')
      expect(await rows('servers')).toMatchObject({ limits: { oom_killer: false, oom_disabled: true } })
      expect(await rows('users')).not.toHaveProperty('first_name')
      expect(await rows('nodes')).not.toHaveProperty('location_id')
      expect(await rows('eggs')).toMatchObject({ tags: ['minecraft'], startup_commands: {} })
      expect(await rows('eggs?include=variables')).toMatchObject({
        relationships: {
          variables: { data: [{ attributes: { rules: ['required', 'string', 'max:40'] } }, {}, {}, {}] },
        },
      })
      expect(await rows('mounts')).toMatchObject({ source: '/srv/maps', read_only: true })
    } finally {
      await pelican.close()
    }
  })
})

it('has the same rows for the same seed, and others for another', async () => {
  const again = await startSource({ servers: 4 })
  const first = await startSource({ servers: 4 })
  const other = await startSource({ servers: 4, seed: 8 })
  try {
    expect(again.state()).toEqual(first.state())
    expect(again.manifest()).toEqual(first.manifest())
    expect(other.state()).not.toEqual(first.state())
  } finally {
    await Promise.all([again.close(), first.close(), other.close()])
  }
})
