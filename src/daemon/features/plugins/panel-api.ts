import { z } from 'zod'
import { readEnvelope } from '../../../shared/client.ts'
import { endpoints, streams } from '../../../shared/endpoints.ts'
import { ERRORS, PanelError } from '../../../shared/kernel/errors.ts'
import type { Refusal } from '../../../shared/protocol/plugin-frames.ts'
import { CallFailure } from './failures.ts'
import type { PluginRights } from './rights.ts'
import type { PluginStorage } from './storage.ts'

/** A request that is answered inside of this process, through the whole pipeline of the API. */
export type Inject = (request: {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  url: string
  headers: Record<string, string>
  payload?: string
}) => Promise<{ statusCode: number; body: string }>

/** What plugins may ask of the panel. */
export interface PanelApi {
  request(plugin: string, op: string, input: unknown): Promise<unknown>
  refusal(error: unknown): Refusal
}

const MOST_BYTES = 1024 * 1024

const ApiCall = z.object({
  method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
  path: z
    .string()
    .max(2000)
    .regex(/^\/api\/[^?#\s]*$/, 'must be a path below /api without a query'),
  query: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).default({}),
  body: z.json().optional(),
})

const Stored = z.object({ key: z.unknown(), value: z.unknown(), prefix: z.unknown() }).partial()

/** Every way of the API, those with words before those with parameters, as the router decides. */
function everyWay() {
  return [
    ...endpoints.map(({ method, path, answers }) => ({ method, path, callable: answers === 'data' })),
    ...streams.map(({ path }) => ({ method: 'GET' as const, path, callable: false })),
  ]
    .map((way) => ({
      ...way,
      pattern: new RegExp(`^${way.path.replace(/:\w+/g, '[^/]+')}$`),
      order: orderOf(way.path),
    }))
    .sort((left, right) => (left.order < right.order ? -1 : 1))
}

/** Made when a plugin calls first. */
let ways: ReturnType<typeof everyWay> | undefined

/** The narrow way from plugins back to the panel: what they store, and the JSON API with their own rights. */
export function createPanelApi(deps: { storage: PluginStorage; rights: PluginRights; inject: Inject }): PanelApi {
  const { storage } = deps
  return {
    request: async (plugin, op, input) => {
      const { key, value, prefix } = Stored.safeParse(input).data ?? {}
      switch (op) {
        case 'storage.get':
          return storage.get(plugin, key)
        case 'storage.set':
          await storage.set(plugin, key, value)
          return null
        case 'storage.delete':
          return storage.delete(plugin, key)
        case 'storage.list':
          return storage.list(plugin, prefix)
        case 'api':
          return callApi(deps, plugin, input)
        default:
          throw new PanelError('VALIDATION_ERROR', `There is nothing that is called ${op}`)
      }
    },
    refusal: (error) => {
      if (error instanceof CallFailure) return { code: 'RATE_LIMITED', message: error.message }
      if (!(error instanceof PanelError))
        return { code: 'INTERNAL_ERROR', message: 'Something went wrong in the daemon' }
      const { code, message, details } = error
      return { code, message, status: ERRORS[code].status, ...(details === undefined ? {} : { details }) }
    },
  }
}

async function callApi(
  { rights, inject }: { rights: PluginRights; inject: Inject },
  plugin: string,
  input: unknown,
): Promise<unknown> {
  const parsed = ApiCall.safeParse(input)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw new PanelError('VALIDATION_ERROR', `The call is not valid: ${issue?.path.join('.')} ${issue?.message}`)
  }
  const { method, path, query, body } = parsed.data
  const url = new URL(path, 'http://panel.invalid')
  // Streams and files are not for plugins: their answers have no end that could be waited for.
  ways ??= everyWay()
  if (ways.find((way) => way.method === method && way.pattern.test(url.pathname))?.callable !== true) {
    throw new PanelError('NOT_FOUND', `There is no ${method} ${path} that plugins can call`)
  }
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value))
  const token = rights.token(plugin)
  if (token === undefined)
    throw new PanelError('UNAUTHENTICATED', 'The plugin has no rights (any more); enable it again')
  const answer = await inject({
    method,
    url: url.pathname + url.search,
    headers: {
      authorization: `Bearer ${token}`,
      'user-agent': `panel-plugin/${plugin}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { payload: JSON.stringify(body) }),
  })
  if (Buffer.byteLength(answer.body) > MOST_BYTES) {
    throw new PanelError('PAYLOAD_TOO_LARGE', `The answer has more than ${MOST_BYTES} bytes; ask for a smaller page`)
  }
  const { data, pagination } = readEnvelope(answer.statusCode, answer.body)
  return { data, pagination: pagination ?? null }
}

function orderOf(path: string): string {
  return path
    .split('/')
    .map((word) => (word.startsWith(':') ? '1' : '0'))
    .join('')
}
