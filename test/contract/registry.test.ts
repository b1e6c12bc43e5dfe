import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { API_ONLY, coverage } from '../../src/cli/coverage.ts'
import { endpoints, streams } from '../../src/shared/endpoints.ts'
import { type Access, TAGS } from '../../src/shared/kernel/contract.ts'
import { ERRORS } from '../../src/shared/kernel/errors.ts'
import { PERMISSIONS } from '../../src/shared/kernel/permissions.ts'
import { toOpenApi } from '../../src/shared/openapi.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { DIST } from '../run-panel.ts'
import { ApiDocument } from './api-document.ts'
import { eachCase } from './each-case.ts'
import { BY_BODY, GUARDS } from './guards.ts'
import { methodOf, send } from './http-call.ts'

type DaemonModule = typeof import('../../src/daemon/main.ts')
type ConfigModule = typeof import('../../src/daemon/config/config.ts')
type LogModule = typeof import('../../src/daemon/core/log.ts')

const all = [...endpoints, ...streams]

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel()
})
afterAll(() => panel.close())

describe('the registry', () => {
  it('is not empty and names each endpoint and each way to it once', () => {
    expect(endpoints.length).toBeGreaterThan(50)
    expect(streams.length).toBeGreaterThan(2)
    const ids = all.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    const ways = all.map((one) => `${methodOf(one)} ${one.path.replace(/:\w+/g, ':id')}`)
    expect(new Set(ways).size).toBe(ways.length)
  })

  it('has one command for each endpoint, or says why it has none', () => {
    const covered = coverage()
    for (const { id } of all) {
      const reason = API_ONLY[id]
      expect([id, covered.get(id)?.length ?? 0]).toEqual([id, reason === undefined ? 1 : 0])
      if (reason !== undefined) expect(reason.length).toBeGreaterThan(10)
    }
  })

  it('guards and audits each of them as the table says that was written by hand', () => {
    const shown = all.map((one) => {
      const audit = one.kind === 'endpoint' && 'action' in one.audit ? one.audit.action : undefined
      const guard = guardText(one.access)
      return [one.id, audit === undefined ? guard : [guard, audit]] as const
    })
    expect(Object.fromEntries(shown)).toEqual(GUARDS)
    const byBody = all.flatMap(({ id, access }) =>
      typeof access !== 'string' && 'serverByBody' in access ? [{ id, exact: access.serverByBody.exact }] : [],
    )
    expect(byBody.map(({ id }) => id)).toEqual(Object.keys(BY_BODY))
    for (const { id, exact } of byBody) {
      for (const [body, permissions] of BY_BODY[id] ?? [])
        expect([...exact(body)].sort()).toEqual([...permissions].sort())
    }
  })

  it('keeps to the rules of declarations', () =>
    eachCase(all, (one) => {
      expect(one.id).toMatch(/^[a-z_]+\.[a-z_]+$/)
      expect(TAGS).toContain(one.tag)
      expect(one.path).toMatch(/^\/api(\/[a-z][a-z0-9-]*|\/:\w+)+$/)
      expect(one.summary).toMatch(/^[A-Z].*[^.]$/)
      expect([...one.path.matchAll(/:(\w+)/g)].map(([, name]) => name)).toEqual(Object.keys(one.params))
      for (const code of one.errors) expect(Object.keys(ERRORS)).toContain(code)
      for (const permission of needed(one.access)) expect(PERMISSIONS).toContain(permission)
      if (one.kind === 'endpoint' && one.method !== 'GET') {
        expect('action' in one.audit ? one.audit.action : one.audit.none).toMatch(/^[a-z_]+\.[a-z0-9_]+$|^.{20,}$/)
      }
      if (one.kind === 'endpoint' && one.answers !== 'data') expect([one.method, one.paged]).toEqual(['GET', false])
      if (one.kind === 'endpoint' && one.paged) {
        const needed = one.id === 'sftp.sessions' ? { serverId: 'srv_1' } : {}
        const query = one.query.safeParse(needed)
        expect(query.data).toMatchObject({ page: 1, limit: 50 })
        expect(one.query.safeParse({ ...needed, limit: '100000' }).data).toMatchObject({
          // A migration has thousands of steps.
          limit: expect.toSatisfy((n) => n <= (one.id === 'migration.steps' ? 500 : 200)),
        })
        for (const bad of [{ limit: '0' }, { limit: '-1' }, { limit: 'x' }, { page: '0' }]) {
          expect(one.query.safeParse({ ...needed, ...bad }).success).toBe(false)
        }
      }
    }))
})

describe('the wired daemon', () => {
  it('has exactly one handler for each endpoint and stream', async () => {
    const load = <T>(path: string): Promise<T> => import(`${DIST}/src/daemon/${path}`)
    const { startDaemon } = await load<DaemonModule>('main.js')
    const { readConfig } = await load<ConfigModule>('config/config.js')
    const { createLog } = await load<LogModule>('core/log.js')
    const log = createLog({ level: 'silent' })
    const config = readConfig({ dataDir: `${panel.home}/wired`, listen: '127.0.0.1:0' }, { HOME: panel.home })
    const { app, close } = await startDaemon(config, { log })
    try {
      expect(app.routes.map(({ endpoint }) => endpoint.id).sort()).toEqual(endpoints.map(({ id }) => id).sort())
      expect(app.streamRoutes.map(({ stream }) => stream.id).sort()).toEqual(streams.map(({ id }) => id).sort())
    } finally {
      await close()
    }
  })
})

describe('the OpenAPI document', () => {
  let document: Document
  beforeAll(async () => {
    const { status, json, headers } = await send({ method: 'GET', url: `${panel.url}/api/openapi.json` })
    expect([status, headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
    document = Document.parse(json)
  })

  it('is that of this registry, as OpenAPI 3.1 of the version that the specification names', () => {
    expect(document).toEqual(Document.parse(JSON.parse(JSON.stringify(toOpenApi(endpoints, streams)))))
    expect(document.openapi).toMatch(/^3\.1\./)
    expect(document.info.version).toBe('1.0.0')
  })

  it('has every endpoint and stream once, under its own tag', () => {
    const found = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => `${method.toUpperCase()} ${path} ${operation.operationId}`),
    )
    const wanted = all.map((one) => `${methodOf(one)} ${one.path.replace(/:(\w+)/g, '{$1}')} ${one.id}`)
    expect(found.sort()).toEqual(wanted.sort())
    for (const { name } of document.tags) expect(TAGS).toContain(name)
    for (const operation of operations(document)) {
      expect(document.tags.map(({ name }) => name)).toEqual(expect.arrayContaining(operation.tags))
    }
  })

  it('declares every path parameter, and answers for success, refusal and failure', () => {
    for (const [path, item] of Object.entries(document.paths)) {
      for (const operation of Object.values(item)) {
        const named = operation.parameters.filter((one) => one.in === 'path').map(({ name }) => name)
        expect(named).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name))
        const statuses = Object.keys(operation.responses)
        // A sign-in that wants a second factor is 202, which is neither success nor failure.
        const good = statuses.filter((status) => status.startsWith('2') || status === '302')
        expect(good).toHaveLength(['auth.login', 'sso.exchange'].includes(operation.operationId) ? 2 : 1)
        expect(statuses).toEqual(expect.arrayContaining(['400', '429', '500']))
        if (operation.security.length > 0) expect(statuses).toEqual(expect.arrayContaining(['401', '403']))
      }
    }
  })

  it('says what the pipeline answers in the place of a handler, and which headers it reads', () => {
    const operationOf = (id: string) => operations(document).find(({ operationId }) => operationId === id)
    const codesOf = (id: string, status: number) => operationOf(id)?.responses[status]?.description.split(', ') ?? []
    const headersOf = (id: string) =>
      operationOf(id)
        ?.parameters.filter((one) => one.in === 'header')
        .map(({ name }) => name)
    expect(codesOf('locations.create', 409)).toContain('IDEMPOTENCY_KEY_REUSED')
    expect(headersOf('locations.create')).toEqual(['Idempotency-Key'])
    expect(headersOf('locations.update')).toEqual([])
    expect(headersOf('console.stream')).toEqual(['Last-Event-ID'])
    expect(headersOf('servers.get')).toEqual(['If-None-Match'])
    expect(operationOf('servers.get')?.responses).toMatchObject({ 200: { headers: { etag: {} } }, 304: {} })
    expect(operationOf('servers.stats')?.responses).not.toHaveProperty('304')
    for (const id of ['locations.create', 'locations.update', 'locations.delete']) {
      expect(codesOf(id, 403)).toContain('CSRF_INVALID')
    }
    expect(codesOf('locations.list', 403)).not.toContain('CSRF_INVALID')
    expect(codesOf('locations.update', 413)).toEqual(['PAYLOAD_TOO_LARGE'])
    for (const id of ['locations.list', 'locations.update', 'console.stream', 'auth.login']) {
      expect(codesOf(id, 503)).toContain('SHUTTING_DOWN')
      expect(codesOf(id, 507)).toEqual(['INSUFFICIENT_SPACE'])
      expect(operationOf(id)?.responses[503]).toHaveProperty('headers.Retry-After')
    }
  })

  it('is made of sound JSON Schemas with known keywords and formats, and references that lead somewhere', {
    tags: ['long'],
  }, () => {
    const described = new ApiDocument(document)
    const places = placesOfSchemas(document)
    expect(places.length).toBeGreaterThan(100)
    for (const place of places) expect(described.compile(place), place.join(' ')).toBeTypeOf('function')
  })

  it('is one to a validator that is not ours', async () => {
    const { valid, errors } = await new Validator().validate(JSON.parse(JSON.stringify(document)))
    expect(errors ?? []).toEqual([])
    expect(valid).toBe(true)
  })

  it('describes refusals as they are', async () => {
    const { json } = await send({ method: 'GET', url: `${panel.url}/api/nodes` })
    const described = new ApiDocument(document)
    const place = ['components', 'schemas', 'Error']
    expect(described.ofSchema(place, json)).toEqual([])
    expect(described.ofSchema(place, { ...json, more: 1 })).toEqual([expect.stringContaining('"more"')])
  })
})

const SchemaObject = z.record(z.string(), z.unknown())
const Content = z.record(z.string(), z.strictObject({ schema: SchemaObject }))
const Headers = z.record(z.string(), z.strictObject({ description: z.string(), schema: SchemaObject }))
const Operation = z.strictObject({
  operationId: z.string(),
  tags: z.array(z.string()).length(1),
  summary: z.string().min(5),
  'x-access': z.unknown(),
  'x-events': z.record(z.string(), SchemaObject).optional(),
  'x-rate-limit': z.strictObject({ max: z.int().positive(), minutes: z.int().positive() }).optional(),
  security: z.array(z.record(z.string(), z.array(z.string()))),
  parameters: z.array(
    z.strictObject({
      in: z.enum(['path', 'query', 'header']),
      name: z.string(),
      required: z.boolean(),
      description: z.string().optional(),
      schema: SchemaObject,
    }),
  ),
  requestBody: z.strictObject({ required: z.boolean(), content: Content }).optional(),
  responses: z.record(
    z.string().regex(/^[2-5]\d\d$/),
    z.union([
      z.strictObject({ description: z.string().min(1), headers: Headers.optional(), content: Content }),
      // A browser is sent elsewhere.
      z.strictObject({
        description: z.string().min(1),
        headers: z.strictObject({ location: z.strictObject({ schema: SchemaObject }) }),
        content: z.undefined().optional(),
      }),
      // Whoever asks has the answer.
      z.strictObject({
        description: z.string().min(1),
        headers: z.strictObject({ etag: z.strictObject({ description: z.string(), schema: SchemaObject }) }),
        content: z.undefined().optional(),
      }),
    ]),
  ),
})
type Operation = z.infer<typeof Operation>

/** The object model of OpenAPI 3.1 as far as we use it; anything else in the document is a mistake. */
const Document = z.strictObject({
  openapi: z.string(),
  info: z.strictObject({
    title: z.string(),
    version: z.string(),
    license: z.strictObject({ name: z.string(), identifier: z.string() }),
  }),
  servers: z.tuple([z.strictObject({ url: z.literal('/') })]),
  tags: z.array(z.strictObject({ name: z.string() })),
  paths: z.record(
    z.string().startsWith('/api/'),
    z.partialRecord(z.enum(['get', 'post', 'put', 'patch', 'delete']), Operation),
  ),
  components: z.strictObject({
    schemas: z.record(z.string(), SchemaObject),
    securitySchemes: z.record(z.string(), z.looseObject({ type: z.enum(['http', 'apiKey']) })),
  }),
})
type Document = z.infer<typeof Document>

function operations(document: Document): Operation[] {
  return Object.values(document.paths).flatMap((item) => Object.values(item))
}

/** Where the schemas of parameters, events, bodies and answers stand. */
function placesOfSchemas(document: Document): string[][] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) => {
      const events = Object.keys(operation['x-events'] ?? {}).map((name) => ['x-events', name])
      const parameters = operation.parameters.map((_, i) => ['parameters', String(i), 'schema'])
      const body = contentOf(['requestBody'], operation.requestBody?.content)
      const answers = Object.entries(operation.responses).flatMap(([status, { content }]) =>
        contentOf(['responses', status], content),
      )
      return [...events, ...parameters, ...body, ...answers].map((place) => ['paths', path, method, ...place])
    }),
  )
}

function contentOf(place: string[], content: z.infer<typeof Content> = {}): string[][] {
  return Object.keys(content).map((type) => [...place, 'content', type, 'schema'])
}

function needed(access: (typeof all)[number]['access']): readonly string[] {
  if (typeof access === 'string') return []
  if ('panel' in access) return [access.panel]
  if ('anyOf' in access) return access.anyOf
  if ('server' in access) return access.server
  if ('node' in access) return [access.node]
  return access.serverByBody.possible
}

/** A guard in the words of the table. */
function guardText(access: Access): string {
  if (typeof access === 'string') return access
  const self = 'orSelf' in access && access.orSelf !== undefined ? ` or self ${access.orSelf}` : ''
  if ('panel' in access) return `panel ${access.panel}${self}`
  if ('server' in access) return `server ${access.server.join(' ')}${self}`
  if ('node' in access) return `node ${access.node}`
  if ('serverByBody' in access) return `by body ${access.serverByBody.possible.join(' ')}`
  return `any of ${access.anyOf.join(' ')}${access.orOnNode === undefined ? '' : ` or on node ${access.orOnNode}`}`
}
