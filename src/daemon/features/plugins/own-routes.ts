import { z } from 'zod'
import { PluginName } from '../../../shared/api/plugins.ts'
import { defineEndpoint } from '../../../shared/kernel/contract.ts'
import { type ErrorCode, PanelError } from '../../../shared/kernel/errors.ts'
import { grants } from '../../../shared/kernel/permissions.ts'
import { callerOf, type Route, route } from '../../http/route.ts'
import { CallFailure } from './failures.ts'
import type { RouteEntry } from './manifest.ts'
import type { Plugins } from './plugins.ts'
import { findPlugin } from './rows.ts'

/** How long a plugin may take for an answer. */
const ANSWER_MS = 10_000
const BODY_LIMIT = 256 * 1024

/** The codes with which a plugin itself can refuse. */
const REFUSALS = ['VALIDATION_ERROR', 'PERMISSION_DENIED', 'NOT_FOUND', 'CONFLICT'] as const

/**
 * The routes that plugins bring along, below `/api/plugins/<name>/`. They are in no contract, because they come and go; the
 * server treats them as it treats every other: limits, caller, body limit, Idempotency-Key, envelope. A route's own permission
 * is checked here, before the plugin hears of the request.
 */
export function pluginOwnRoutes(plugins: Plugins): Route[] {
  return [
    own(plugins, 'GET', z.undefined()),
    ...(['POST', 'PUT', 'PATCH', 'DELETE'] as const).map((method) => own(plugins, method, z.json().optional())),
  ]
}

function own(plugins: Plugins, method: RouteEntry['method'], body: z.ZodType): Route {
  const endpoint = defineEndpoint({
    id: `plugins.route_${method.toLowerCase()}`,
    tag: 'Plugins',
    summary: 'Call a route of a plugin',
    method,
    path: '/api/plugins/:name/*',
    access: 'session',
    params: { name: PluginName, '*': z.string().max(500) },
    query: z.record(z.string().max(100), z.union([z.string(), z.array(z.string())])),
    body,
    response: z.unknown(),
    errors: [
      'PLUGIN_NOT_FOUND',
      'PLUGIN_DISABLED',
      'PLUGIN_UNAVAILABLE',
      'PLUGIN_FAILED',
      'PLUGIN_TIMEOUT',
      ...REFUSALS,
    ],
    audit: { none: 'what a plugin changes by the API is audited there, as done by its key' },
    bodyLimit: BODY_LIMIT,
  })
  return route(endpoint, async ({ params, query, body: given }, context) => {
    const caller = callerOf(context)
    const found = await find(plugins, { name: params.name, method, path: `/${params['*']}` })
    const { entry, values } = found
    if (entry.permission !== 'session' && !grants(caller.permissions, entry.permission)) {
      context.fail('PERMISSION_DENIED', `This needs the permission ${entry.permission}`, {
        missing: [entry.permission],
      })
    }
    const who = { userId: caller.userId, permissions: [...caller.permissions].sort() }
    const input = { method, path: entry.path, params: values, query, body: given ?? null, caller: who }
    return answer(plugins, { name: params.name, handler: entry.handler, input })
  })
}

async function answer(
  plugins: Plugins,
  { name, handler, input }: { name: string; handler: string; input: unknown },
): Promise<unknown> {
  try {
    const life = plugins.life(name)
    if (life === undefined) throw new CallFailure('gone', 'it could not be read')
    return await life.call(handler, input, ANSWER_MS)
  } catch (error) {
    if (!(error instanceof CallFailure)) throw error
    throw refusalOf(plugins, { name, handler }, error)
  }
}

function refusalOf(
  plugins: Plugins,
  { name, handler }: { name: string; handler: string },
  failure: CallFailure,
): PanelError {
  const refusal = REFUSALS.find((code) => code === failure.code)
  if (refusal !== undefined) return new PanelError(refusal, failure.message.slice(0, 500))
  const codes = {
    threw: 'PLUGIN_FAILED',
    timeout: 'PLUGIN_TIMEOUT',
    gone: 'PLUGIN_UNAVAILABLE',
    busy: 'PLUGIN_UNAVAILABLE',
  }
  const code = codes[failure.end] as ErrorCode // each of them is one
  if (code !== 'PLUGIN_FAILED') {
    const meta = code === 'PLUGIN_UNAVAILABLE' ? { retryAfterSeconds: 5 } : {}
    return new PanelError(code, `The plugin ${name} gives no answer: ${failure.message}`, { meta })
  }
  // What a plugin throws is for administrators, who find it among the system errors.
  plugins.handlerFailed(name, handler, failure)
  return new PanelError(code, `The plugin ${name} failed; its administrators find the reason among the system errors`)
}

interface Found {
  readonly entry: RouteEntry
  readonly values: Record<string, string>
}

async function find(
  plugins: Plugins,
  { name, method, path }: { name: string; method: string; path: string },
): Promise<Found> {
  const life = plugins.life(name)
  if (life === undefined || life.status === 'disabled') {
    const row = await findPlugin(plugins.deps.db.read, name)
    if (row?.enabled === 1) {
      throw new PanelError('PLUGIN_UNAVAILABLE', `The plugin ${name} does not work now`, {
        meta: { retryAfterSeconds: 5 },
      })
    }
    if (await plugins.folder.has(name)) throw new PanelError('PLUGIN_DISABLED', `The plugin ${name} is not enabled`)
    throw new PanelError('PLUGIN_NOT_FOUND', `There is no plugin ${name}`)
  }
  for (const entry of life.definition.routes) {
    const values = entry.method === method ? match(entry.path, path) : undefined
    if (values !== undefined) return { entry, values }
  }
  throw new PanelError('NOT_FOUND', `The plugin ${name} has no ${method} ${path}`)
}

/** The values of the `:names` of a pattern, `undefined` when the path does not fit. The path is decoded already. */
function match(pattern: string, path: string): Record<string, string> | undefined {
  const [wanted, given] = [pattern.split('/'), path.split('/')]
  if (wanted.length !== given.length) return undefined
  const values: Record<string, string> = {}
  for (const [at, word] of wanted.entries()) {
    const part = given[at] ?? ''
    if (word.startsWith(':') && part !== '') values[word.slice(1)] = part
    else if (word !== part) return undefined
  }
  return values
}
