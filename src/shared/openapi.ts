import { z } from 'zod'
import { answerCodes, keepsAnswer } from './kernel/answer-codes.ts'
import { type Endpoint, isDeclared, type StreamEndpoint } from './kernel/contract.ts'
import { ERRORS, type ErrorCode } from './kernel/errors.ts'
import { Pagination } from './kernel/page.ts'

/** What JSON Schema 2020-12 knows under `format`, as far as the contract has it. */
const FORMATS = ['date-time', 'date', 'email', 'hostname', 'ipv4', 'ipv6', 'uri', 'uuid']

const IDEMPOTENCY_KEY = {
  in: 'header',
  name: 'Idempotency-Key',
  required: false,
  description: 'Carries the request out at most once within 24 hours; the answer is kept and sent again',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
}
const IF_NONE_MATCH = {
  in: 'header',
  name: 'If-None-Match',
  required: false,
  description: 'The ETag of an answer that the client has: 304 without a body while it is the same',
  schema: { type: 'string' },
}
const LAST_EVENT_ID = {
  in: 'header',
  name: 'Last-Event-ID',
  required: false,
  description: 'Resumes the stream behind this event',
  schema: { type: 'string' },
}
const WITH_RETRY_AFTER: readonly number[] = [429, 503]
const RETRY_AFTER = {
  'Retry-After': { description: 'Seconds to wait, where they are known', schema: { type: 'integer' } },
}

const ErrorEnvelope = z.object({
  success: z.literal(false),
  error: z.string(),
  code: z.string(),
  details: z.array(z.object({ field: z.string(), message: z.string() })).optional(),
  meta: z.record(z.string(), z.unknown()).optional(),
  requestId: z.string(),
})

/** The OpenAPI 3.1 document of the whole API, made from the registry; `info.version` is the version of the API. */
export function toOpenApi(endpoints: readonly Endpoint[], streams: readonly StreamEndpoint[]): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const endpoint of endpoints) {
    const item = pathItem(paths, endpoint.path)
    const limit = endpoint.limit === null ? {} : { 'x-rate-limit': endpoint.limit }
    item[endpoint.method.toLowerCase()] = { ...common(endpoint), ...limit, ...jsonParts(endpoint) }
  }
  for (const stream of streams) pathItem(paths, stream.path)['get'] = { ...common(stream), ...streamParts(stream) }
  return {
    openapi: '3.1.0',
    info: { title: 'panel', version: '1.0.0', license: { name: 'MIT', identifier: 'MIT' } },
    servers: [{ url: '/' }],
    tags: [...new Set([...endpoints, ...streams].map((endpoint) => endpoint.tag))].sort().map((name) => ({ name })),
    paths,
    components: {
      schemas: { Error: jsonSchema(ErrorEnvelope, 'output') },
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key (pak_…) or a session token (pst_…)' },
        session: { type: 'apiKey', in: 'cookie', name: 'panel_session' },
        nodeId: { type: 'apiKey', in: 'header', name: 'X-Node-Id' },
        nodeKey: { type: 'apiKey', in: 'header', name: 'X-Node-Api-Key' },
      },
    },
  }
}

function pathItem(paths: Record<string, Record<string, unknown>>, path: string): Record<string, unknown> {
  const key = path.replace(/:(\w+)/g, '{$1}')
  const item = paths[key] ?? {}
  paths[key] = item
  return item
}

function common(endpoint: Endpoint | StreamEndpoint): Record<string, unknown> {
  return {
    operationId: endpoint.id,
    tags: [endpoint.tag],
    summary: endpoint.summary,
    'x-access': accessText(endpoint),
    security: SECURITY[endpoint.access === 'public' || endpoint.access === 'agent' ? endpoint.access : 'people'],
    parameters: [
      ...Object.entries(endpoint.params).map(([name, schema]) => ({
        in: 'path',
        name,
        required: true,
        schema: jsonSchema(schema, 'input'),
      })),
      ...queryParameters(endpoint.query),
      ...(keepsAnswer(endpoint) ? [IDEMPOTENCY_KEY] : []),
      ...(endpoint.kind === 'endpoint' && endpoint.cached ? [IF_NONE_MATCH] : []),
      ...(endpoint.kind === 'stream' ? [LAST_EVENT_ID] : []),
    ],
  }
}

/** Ways to prove who one is. */
const SECURITY = {
  public: [],
  agent: [{ nodeId: [], nodeKey: [] }],
  people: [{ apiKey: [] }, { session: [] }],
} as const

function accessText({ access }: Endpoint | StreamEndpoint): unknown {
  if (typeof access === 'string') return access
  if ('serverByBody' in access) return { server: access.serverByBody.possible, byBody: true }
  if (!('orOnNode' in access)) return access
  return { anyOf: access.anyOf, node: access.orOnNode, byBody: true }
}

function queryParameters(query: z.ZodType): unknown[] {
  if (!(query instanceof z.ZodObject)) return []
  return Object.entries(query.shape).map(([name, schema]) => ({
    in: 'query',
    name,
    required: isRequired(schema as z.ZodType), // zod types it by its core
    schema: jsonSchema(schema, 'input'),
  }))
}

function jsonParts(endpoint: Endpoint): Record<string, unknown> {
  const body = isDeclared(endpoint.body) ? { requestBody: requestBody(endpoint) } : {}
  const success = {
    type: 'object',
    required: ['success', 'data', ...(endpoint.paged ? ['pagination'] : [])],
    properties: {
      success: { const: true },
      data: endpoint.answers === 'data' ? jsonSchema(endpoint.response, 'output') : {},
      ...(endpoint.paged ? { pagination: jsonSchema(Pagination, 'output') } : {}),
    },
  }
  const answers = {
    data: { description: 'Success', ...(endpoint.cached ? { headers: ETAG } : {}), content: json(success) },
    file: { description: 'A file', content: { '*/*': { schema: { type: 'string' } } } },
    stream: STREAM,
    redirect: { description: 'Elsewhere', headers: { location: { schema: { type: 'string' } } } },
  }
  const same = endpoint.cached ? { 304: { description: 'Nothing has changed since that ETag', headers: ETAG } } : {}
  return { ...body, responses: { [endpoint.status]: answers[endpoint.answers], ...same, ...failures(endpoint) } }
}

const ETAG = { etag: { description: 'Changes with each change of the answer', schema: { type: 'string' } } }

/** Also of a HEAD, and of 206 for a range. */
const STREAM = {
  description: 'Bytes; Range (206), If-Range, If-Match, If-None-Match (304) and HEAD are understood',
  headers: {
    etag: { description: 'Changes with each change of the bytes', schema: { type: 'string' } },
    'accept-ranges': { description: 'Where ranges can be asked for', schema: { type: 'string' } },
  },
  content: { '*/*': { schema: { type: 'string', format: 'binary' } } },
}

function requestBody({ accepts, body }: Endpoint): Record<string, unknown> {
  if (accepts === 'stream') {
    return { required: true, content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } } }
  }
  if (accepts === 'json') return { required: isRequired(body), content: json(jsonSchema(body, 'input')) }
  const file = { type: 'string', format: 'binary' }
  const schema = { type: 'object', required: ['file'], properties: { file } }
  return { required: true, content: { 'multipart/form-data': { schema } } }
}

function streamParts(stream: StreamEndpoint): Record<string, unknown> {
  return {
    'x-events': Object.fromEntries(
      Object.entries(stream.events).map(([name, schema]) => [name, jsonSchema(schema, 'output')]),
    ),
    responses: {
      200: { description: 'Server-Sent Events', content: { 'text/event-stream': { schema: { type: 'string' } } } },
      ...failures(stream),
    },
  }
}

function failures(endpoint: Endpoint | StreamEndpoint): Record<string, unknown> {
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of [...answerCodes(endpoint)].sort()) {
    byStatus.set(ERRORS[code].status, [...(byStatus.get(ERRORS[code].status) ?? []), code])
  }
  return Object.fromEntries(
    [...byStatus].map(([status, list]) => [
      status,
      {
        description: list.join(', '),
        ...(WITH_RETRY_AFTER.includes(status) ? { headers: RETRY_AFTER } : {}),
        content: json({ $ref: '#/components/schemas/Error' }),
      },
    ]),
  )
}

function json(schema: unknown): Record<string, unknown> {
  return { 'application/json': { schema } }
}

function isRequired(schema: z.ZodType): boolean {
  return !schema.safeParse(undefined).success
}

function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): unknown {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      // Names that only zod knows stop strict readers; the pattern beside them says the same.
      if (jsonSchema.format !== undefined && !FORMATS.includes(jsonSchema.format)) delete jsonSchema.format
    },
  })
  return rest
}
