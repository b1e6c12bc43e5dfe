import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import type { Metrics } from '../../../core/metrics.ts'
import type { Db } from '../../../db/db.ts'
import { refused, tokenOf } from '../../../http/callers.ts'
import type { HttpServer } from '../../../http/server.ts'

/** What the routes outside the API's contract need. */
interface SystemDeps {
  readonly db: Db
  readonly metrics: Metrics
  readonly version: string
  readonly openApi: () => Record<string, unknown>
  readonly isStopping: () => boolean
}

/** Whether requests are served, and in a few words what is wrong. */
interface Readiness {
  readonly ok: boolean
  readonly status: 'ok' | 'degraded' | 'unhealthy' | 'stopping'
  readonly reason?: string
}

/** Liveness, readiness, metrics and the OpenAPI document: for machines, outside the envelope. */
export function addSystemRoutes({ app, deps }: HttpServer, system: SystemDeps): void {
  app.get('/livez', async () => ({ status: 'ok' }))
  const readiness = async (): Promise<Readiness> => {
    if (system.isStopping()) return { ok: false, status: 'stopping' }
    const { status } = system.db.health()
    if (status === 'damaged') return { ok: false, status: 'unhealthy', reason: 'the database is damaged' }
    try {
      await system.db.read.selectFrom('setting').select('key').limit(1).execute()
    } catch {
      return { ok: false, status: 'unhealthy' } // the answer says so, to whoever watches
    }
    // Lists, consoles, stop and kill go on without writing: whoever takes the panel away now takes those too.
    if (status === 'unwritable') return { ok: true, status: 'degraded', reason: 'the database cannot be written' }
    return { ok: true, status: 'ok' }
  }
  app.get('/readyz', async (_, reply) => {
    const { ok, ...body } = await readiness()
    return reply.status(ok ? 200 : 503).send(body)
  })
  app.get('/health', async (_, reply) => {
    const { ok, status, ...why } = await readiness()
    const timestamp = new Date(deps.clock.nowMs()).toISOString()
    return reply.status(ok ? 200 : 503).send({ status: ok ? status : 'unhealthy', ...why, timestamp })
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
