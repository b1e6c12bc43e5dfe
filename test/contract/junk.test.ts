import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { endpoints, streams } from '../../src/shared/endpoints.ts'
import { type Endpoint, isDeclared } from '../../src/shared/kernel/contract.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { eachCase, LOOP } from './each-case.ts'
import { callEndpoint, isObject, methodOf, type Reply, send } from './http-call.ts'
import { validOf } from './inputs.ts'
import { buildWorld, paramsOf, unknownParams, type World } from './world.ts'

let panel: TestPanel
let world: World
beforeAll(async () => {
  panel = await startPanel()
  world = await buildWorld(panel)
})
afterAll(() => panel.close())

const withBody = endpoints.filter(
  ({ body, accepts, access }) => isDeclared(body) && accepts === 'json' && access !== 'agent',
)
/** A form is looked at before all else: without one nothing is said of the other parts. */
const takesForm = (one: object): boolean => 'accepts' in one && one.accepts === 'multipart'
const withQuery = [...endpoints, ...streams].filter((one) => isDeclared(one.query) && !takesForm(one))
// Agents have no endpoint that junk of a person would reach.
const withParams = [...endpoints, ...streams].filter(
  (one) => Object.keys(one.params).length > 0 && one.access !== 'agent' && !takesForm(one),
)

const deep = `${'['.repeat(5000)}${']'.repeat(5000)}`
const deepObject = `${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`

/** Bodies as text on the wire. */
const BODIES: readonly string[] = [
  '', 'null', 'true', '0', '-1e400', '"text"', '[]', '[[]]', '[{}]', '{}', '{', '}', '{"a":', "{'a':1}", '\u0000', '{"\u0000":1}',
  'undefined', 'NaN', '{"__proto__":{"admin":true}}', '{"constructor":{"prototype":{"admin":true}}}', '{"a":1}{"b":2}', deep,
  deepObject, `"${'x'.repeat(200_000)}"`, `{"name":"${'x'.repeat(200_000)}"}`, '\ufeff{}', '{"name":"\ud800"}',
] // biome-ignore format: a list

/** Values for a field whose type is another one. */
const VALUES: readonly unknown[] = [
  null, true, -1, 1.5, 2 ** 53, '', ' ', 'x'.repeat(100_000), 'nul\u0000byte', '\ud800', '../../etc/passwd',
  [], {}, [null], { toString: 1 }, Array(2000).fill('x'), '2024-13-45T00:00:00Z',
] // biome-ignore format: a list

describe('a body that is no request', () => {
  it('is refused and breaks nothing', { ...LOOP, tags: ['long'] }, () =>
    eachCase(withBody, async (endpoint) => {
      for (const body of BODIES) {
        const reply = await call(endpoint, body)
        if (body === '') expect(reply.status).not.toBe(500)
        else check(reply, endpoint, 'body', fits(endpoint, body), body.slice(0, 80))
      }
    }),
  )

  it('is refused when it is no JSON by its content type', LOOP, () =>
    eachCase(withBody, async (endpoint) => {
      for (const type of [
        'text/plain',
        'application/x-www-form-urlencoded',
        'multipart/form-data',
        'application/xml',
        'nonsense',
      ]) {
        const params = paramsOf(world, endpoint)
        const headers = { 'content-type': type }
        const reply = await callEndpoint(
          panel.url,
          endpoint,
          { params, body: 'a=1' },
          { token: panel.adminToken, headers },
        )
        check(reply, endpoint, 'body', false, type)
      }
    }),
  )

  it('is refused when one field of a valid one is of another kind', LOOP, () => bendFields(5))

  it('is refused when one field of a valid one is of any other kind', { ...LOOP, tags: ['long'] }, () => bendFields(1))

  it('is refused whatever JSON it is', LOOP, () => sendAnyJson(4))

  it('is refused whatever JSON it is, many times', { ...LOOP, tags: ['long'] }, () => sendAnyJson(30))
})

/** Puts values of other kinds into each field: one out of so many, another share for the next field. */
function bendFields(outOf: number): Promise<void> {
  return eachCase(withBody, async (endpoint) => {
    const valid = sample(endpoint)
    for (const [index, field] of fieldsOf(endpoint).entries()) {
      for (const value of VALUES.filter((_, at) => at % outOf === index % outOf)) {
        const text = JSON.stringify({ ...valid, [field]: value })
        check(await call(endpoint, text), endpoint, 'body', endpoint.body.safeParse(JSON.parse(text)).success, field)
      }
    }
  })
}

const json = fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' })

/** Sends so many bodies to each endpoint: any JSON, and what a request has with some of it bent. */
function sendAnyJson(numRuns: number): Promise<void> {
  return eachCase(withBody, async (endpoint) => {
    const valid = sample(endpoint)
    const bent = fc.dictionary(fc.constantFrom(...fieldsOf(endpoint), 'more'), json, { minKeys: 1 })
    const bodies = fc.oneof(
      json,
      bent,
      bent.map((change) => ({ ...valid, ...change })),
    )
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const text = JSON.stringify(body)
        check(await call(endpoint, text), endpoint, 'body', fits(endpoint, text), text)
      }),
      { numRuns },
    )
  })
}

describe('a query that is none', () => {
  const texts = [
    '',
    ' ',
    '0',
    '-1',
    '1.5',
    'x',
    'true',
    '[]',
    '{}',
    '99999999999999999999',
    '\u0000',
    'x'.repeat(3000),
    '%',
    '__proto__',
    "' or 1=1 --",
  ]

  it('is refused and breaks nothing', { ...LOOP, tags: ['long'] }, () =>
    eachCase(withQuery, async (one) => {
      const params = one.id === 'servers.delete' ? unknownParams(one) : paramsOf(world, one)
      for (const field of [...Object.keys(shapeOf(one.query)), '__proto__', 'constructor', 'more']) {
        for (const text of texts) {
          const url = `${path(one.path, params)}?${encodeURIComponent(field)}=${encodeURIComponent(text)}`
          const reply = await send({ method: methodOf(one), url, token: panel.adminToken })
          const fits = one.query.safeParse(Object.fromEntries(new URL(url).searchParams)).success
          check(reply, one, 'query', fits, `${field}=${text.slice(0, 40)}`)
        }
        const twice = `${path(one.path, params)}?${field}=1&${field}=2`
        const reply = await send({ method: methodOf(one), url: twice, token: panel.adminToken })
        check(
          reply,
          one,
          'query',
          one.query.safeParse({ [field]: ['1', '2'] }).success || field === '__proto__',
          `${field} twice`,
        )
      }
    }),
  )
})

describe('a path that names nothing', () => {
  const ids = [
    '%00',
    '%20',
    'a%2fb',
    '..%2f..',
    '%F0%9F%98%80',
    "'",
    '%22',
    'x'.repeat(65),
    'x'.repeat(150),
    '%7B%7D',
    '__proto__!',
    '%0A',
  ]

  it('is refused and breaks nothing', LOOP, () =>
    eachCase(withParams, async (one) => {
      for (const [name] of Object.entries(one.params)) {
        for (const id of ids) {
          const url = path(one.path, { ...unknownParams(one), [name]: id })
          const reply = await send({ method: methodOf(one), url, token: panel.adminToken })
          check(reply, one, 'params', false, id)
          expect(reply.json?.details?.map(({ field }) => field)).toContain(`params.${name}`)
        }
        for (const id of ['%', '%ff', '%c0%af', '%zz', 'x'.repeat(500)]) {
          const url = path(one.path, { ...unknownParams(one), [name]: id })
          const reply = await send({ method: methodOf(one), url, token: panel.adminToken })
          expect([400, 404, 414], id).toContain(reply.status)
          expect(reply.json, `${id}: ${reply.text}`).toMatchObject({ success: false, requestId: expect.any(String) })
        }
      }
    }),
  )
})

/** Junk is told from what merely looks odd by the endpoint's own schema; either way nothing breaks. */
function check(reply: Reply, one: { readonly id: string }, part: string, fits: boolean, what: string): void {
  const problem = problemOf(reply, part, fits)
  // One assertion for thousands of answers: each costs as much as the answer.
  if (problem !== undefined) expect.fail(`${one.id} with ${what}: ${problem}: ${reply.text.slice(0, 300)}`)
}

function problemOf({ status, json }: Reply, part: string, fits: boolean): string | undefined {
  if (status === 500 || json?.code === 'INTERNAL_ERROR') return `it breaks with ${status}`
  if (fits) return undefined
  if (status !== 400 || json?.code !== 'VALIDATION_ERROR')
    return `it is not refused as invalid, but ${status} ${json?.code}`
  const details = json.details ?? []
  if (details.length === 0) return 'the refusal names no field'
  if (details.some(({ field }) => field.split('.')[0] !== part)) return `the refusal names fields outside of ${part}`
  return details.some(({ message }) => message === '') ? 'the refusal has a field without a message' : undefined
}

function call(endpoint: Endpoint, body: string): Promise<Reply> {
  const params = paramsOf(world, endpoint)
  const headers = { 'content-type': 'application/json' }
  return callEndpoint(panel.url, endpoint, { params, body }, { token: panel.adminToken, headers })
}

/** The fields of a valid body, as far as one can be had without making anything. */
function sample(endpoint: Endpoint): Readonly<Record<string, unknown>> {
  const pure = new Set([
    'locations.create',
    'nests.create',
    'templates.create',
    'nodes.create',
    'servers.create',
    'users.create',
    'api_keys.create',
  ])
  const made = pure.has(endpoint.id) ? validOf(world, endpoint.id) : undefined
  const body = made instanceof Promise || made === undefined ? undefined : made.body
  return isObject(body) ? body : {}
}

function fieldsOf(endpoint: Endpoint): string[] {
  if (endpoint.body instanceof z.ZodRecord) return ['any']
  const fields = Object.keys(shapeOf(endpoint.body))
  expect(fields.length, endpoint.id).toBeGreaterThan(0)
  return fields
}

/** The fields of an object schema, also of one with a default for the whole. */
function shapeOf(schema: unknown): Readonly<Record<string, unknown>> {
  if (typeof schema !== 'object' || schema === null) return {}
  if ('shape' in schema && isObject(schema.shape)) return schema.shape
  const inner = 'def' in schema && isObject(schema.def) ? schema.def['innerType'] : undefined
  return inner === undefined ? {} : shapeOf(inner)
}

function path(template: string, params: Readonly<Record<string, string>>): string {
  return `${panel.url}${template.replace(/:(\w+)/g, (_, name: string) => params[name] ?? '')}`
}

/** Whether the text is a body that the endpoint takes: `null` counts as none, and a byte order mark is no part of it. */
function fits(endpoint: Endpoint, text: string): boolean {
  try {
    return endpoint.body.safeParse(JSON.parse(text.replace(/^\ufeff/, '')) ?? undefined).success
  } catch {
    return false // no JSON
  }
}
