import { PanelError } from '../../shared/errors.ts'
import { grants } from '../../shared/permissions.ts'
import type { Db } from '../core/db.ts'
import type { Door } from '../core/http.ts'
import { refused, tokenOf } from '../core/http-callers.ts'
import type { Metrics } from '../core/metrics.ts'

/** What the routes outside the API's contract need. */
interface SystemDeps {
  readonly db: Db
  readonly metrics: Metrics
  readonly version: string
  readonly openApi: () => Record<string, unknown>
  readonly isStopping: () => boolean
}

/** Liveness, readiness, figures and the OpenAPI document: for machines, outside the envelope (decisions #27–#29). */
export function addSystemRoutes({ app, deps }: Door, system: SystemDeps): void {
  app.get('/livez', async () => ({ status: 'ok' }))
  const ready = async (): Promise<boolean> => {
    if (system.isStopping()) return false
    try {
      await system.db.read.selectFrom('setting').select('key').limit(1).execute()
      return true
    } catch {
      return false // the answer says so, to whoever watches
    }
  }
  app.get('/readyz', async (_, reply) => {
    const ok = await ready()
    return reply.status(ok ? 200 : 503).send({ status: ok ? 'ok' : system.isStopping() ? 'stopping' : 'unhealthy' })
  })
  app.get('/health', async (_, reply) => {
    const ok = await ready()
    const timestamp = new Date(deps.clock.nowMs()).toISOString()
    return reply.status(ok ? 200 : 503).send({ status: ok ? 'ok' : 'unhealthy', timestamp })
  })
  let document: string | undefined
  app.get('/api/openapi.json', async (_, reply) => {
    document ??= JSON.stringify(system.openApi())
    return reply.header('content-type', 'application/json; charset=utf-8').send(document)
  })
  app.get('/metrics', async (request, reply) => {
    const { token } = tokenOf(request)
    if (token === undefined) throw new PanelError('UNAUTHENTICATED', 'Send an API key that holds admin.read')
    const caller = await deps.credentials.resolve(token)
    if (typeof caller === 'string') throw refused(caller)
    if (!grants(caller.permissions, 'admin.read')) {
      throw new PanelError('PERMISSION_DENIED', 'This needs the permission admin.read', {
        meta: { missing: ['admin.read'] },
      })
    }
    return reply
      .header('content-type', system.metrics.registry.contentType)
      .send(await system.metrics.registry.metrics())
  })
}
