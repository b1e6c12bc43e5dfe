import type { FastifyInstance } from 'fastify'
import { endpoints, streams } from '../shared/endpoints.ts'
import { toOpenApi } from '../shared/openapi.ts'
import { type Clock, now } from '../shared/time.ts'
import { watchExpiry } from './access/expiry.ts'
import { accessRoutes } from './access/routes.ts'
import { countOpenAlerts } from './alerts/alert-rows.ts'
import { Evaluator } from './alerts/evaluator.ts'
import { watchEvents } from './alerts/event-watch.ts'
import { alertRoutes } from './alerts/routes.ts'
import { auditLogRoutes } from './audit-log/audit-log.ts'
import { tellLockouts } from './auth/lockout-frames.ts'
import { authRoutes } from './auth/routes.ts'
import { createSetupGate } from './auth/setup.ts'
import { isSetupRequired } from './auth/setup-state.ts'
import type { Config } from './config.ts'
import { consoleRoutes, consoleStreams } from './console/routes.ts'
import { Cleanup } from './core/cleanup.ts'
import { defaultMaxConnections } from './core/connection-limits.ts'
import type { Db, Tx } from './core/db.ts'
import { retryWrites } from './core/db-recovery.ts'
import { addRoute, createDoor } from './core/http.ts'
import { addStreams } from './core/http-streams.ts'
import { IntegrityCheck } from './core/integrity-check.ts'
import type { Log } from './core/log.ts'
import type { Route, StreamRoute } from './core/route.ts'
import { databaseHostRoutes } from './databases/host-routes.ts'
import { HostWork } from './databases/host-work.ts'
import { databaseRoutes } from './databases/routes.ts'
import { metricsStreams } from './events/metrics-routes.ts'
import { eventStreams } from './events/routes.ts'
import { layFoundation } from './foundation.ts'
import { locationRoutes } from './locations/routes.ts'
import { createNodeSide } from './node-side.ts'
import { nodeRoutes } from './nodes/routes.ts'
import { overviewRoutes } from './overview/routes.ts'
import { passkeyRoutes } from './passkeys/routes.ts'
import { pluginOwnRoutes } from './plugins/own-routes.ts'
import { Plugins } from './plugins/plugins.ts'
import { pluginRoutes } from './plugins/routes.ts'
import { reachableUrl } from './reachable-url.ts'
import { serverRoutes } from './servers/routes.ts'
import { settingsRoutes } from './settings/routes.ts'
import { authProviders } from './sso/oidc-settings.ts'
import { ssoRoutes } from './sso/routes.ts'
import { addSystemRoutes } from './system/health.ts'
import { runUpkeep } from './system/upkeep.ts'
import { systemErrorRoutes } from './system-errors/routes.ts'
import { templateRoutes } from './templates/routes.ts'
import { updateRoutes } from './updates/routes.ts'
import { Updates } from './updates/updates.ts'
import { noteVersion, type SchemaChange } from './updates/version-change.ts'
import { roleRoutes } from './users/roles.ts'
import { userRoutes } from './users/users.ts'
import { Courier } from './webhooks/courier.ts'
import { createOutbox } from './webhooks/outbox.ts'
import { webhookRoutes } from './webhooks/routes.ts'
import { createSender } from './webhooks/sender.ts'
import { tellWebhooks } from './webhooks/subscriptions.ts'

/** How long requests that are under way may take when the daemon stops. */
const DRAIN_MS = 10_000

/** What the wiring is given. */
interface AppOptions {
  readonly config: Config
  readonly db: Db
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  readonly holder: readonly [string, ...string[]]
  /** What this start has done to the database's schema. */
  readonly schema: SchemaChange
}

/** The wired daemon, before and after it listens. */
export type App = Awaited<ReturnType<typeof createApp>>

/** Builds every slice and hands its routes to the HTTP door: the only place that knows all of them. */
export async function createApp({ config, db, clock, log, version, holder, schema }: AppOptions) {
  const life = { startedAt: now(clock), startedMs: clock.monotonicMs() }
  const cleanup = new Cleanup()
  const stopping = new AbortController()
  /** What goes on until the daemon stops; the database is closed after it. */
  const loops: Promise<void>[] = []
  const { core, metrics, idempotency, passwords, deliveries } = await layFoundation({
    ...{ config, db, clock, log, version, cleanup },
  })
  const { bus, settings, vault, credentials, systemErrors } = core
  const gate = createSetupGate(config.setupToken)
  const outbox = createOutbox({ clock, vault })
  const sender = createSender({ settings, clock })
  cleanup.add(() => sender.close())
  const courier = new Courier({ ...core, sender, outbox })
  tellWebhooks(bus, outbox)
  watchEvents(bus, { ...core, outbox })
  const databaseWork = new HostWork(core)
  cleanup.add(() => databaseWork.close())
  const leaving = [(tx: Tx, serverId: string) => databaseWork.serverLeaves(tx, serverId)]
  let publicUrl = ''
  const people = { ...core, passwords, publicUrl: () => publicUrl }

  const integrity = new IntegrityCheck({
    file: db.file,
    clock,
    changed: (status) => {
      db.write((tx) => bus.append(tx, { type: 'db_status_changed', data: { status } })).catch((err: unknown) =>
        log.error({ err, status }, 'the result of the database check could not be announced'),
      )
    },
  })
  cleanup.add(() => integrity.close())
  const updates = new Updates({ version, feedUrl: config.updateFeed, clock, log, signal: stopping.signal })
  const nodeSide = createNodeSide({ core, config, version, metrics, leaving })
  const { gateway, isOnline, keys, figures, nodeFigures, serverDeps, nodeLink, console } = nodeSide
  const evaluator = new Evaluator({
    ...core,
    outbox,
    metrics,
    isOnline,
    health: (nodeId) => gateway.health(nodeId),
    figures: (serverId) => figures.get(serverId),
  })

  const door = await createDoor({
    db,
    credentials,
    idempotency,
    settings,
    metrics,
    log,
    clock,
    stopping: stopping.signal,
    systemErrors,
    trustedProxies: config.trustedProxies,
    tls: config.tls,
    maxConnections: config.maxConnections ?? defaultMaxConnections(),
    allowedHosts: [config.host, ...config.allowedHosts, ...hostOf(config.publicUrl)],
  })
  const plugins = new Plugins({
    ...core,
    version,
    dataDir: config.dataDir,
    inject: (request) => door.app.inject(request),
  })
  const routes: Route[] = [
    ...authRoutes({ ...people, gate, deliveries, usedNow: (keyId) => door.limits.usedNow(keyId) }),
    ...userRoutes(people),
    ...roleRoutes(people),
    ...auditLogRoutes(core),
    ...systemErrorRoutes(core),
    ...settingsRoutes({ ...core, authProviders: () => authProviders(core) }),
    ...ssoRoutes({ ...people, deliveries }),
    ...passkeyRoutes({ ...people, deliveries }),
    ...webhookRoutes({ ...core, outbox, courier }),
    ...alertRoutes({ ...core, outbox }),
    ...locationRoutes({ ...core, isOnline }),
    ...templateRoutes(core),
    ...nodeRoutes({ ...core, keys, isOnline, health: (nodeId) => gateway.health(nodeId), publicUrl: () => publicUrl }),
    ...serverRoutes(serverDeps),
    ...databaseHostRoutes({ ...core, work: databaseWork }),
    ...databaseRoutes({ ...core, work: databaseWork }),
    ...pluginRoutes(plugins),
    ...accessRoutes({ ...people, isOnline, facts: serverDeps.facts }),
    ...consoleRoutes({ ...core, console, gateway, isOnline }),
    ...overviewRoutes({
      ...{ db, clock, version, life, integrity, nodeFigures, isOnline },
      connected: () => gateway.connected().length,
      alerts: countOpenAlerts,
    }),
    ...updateRoutes(updates),
  ]
  const streamRoutes: StreamRoute[] = [
    ...eventStreams({ ...core, figures }),
    ...metricsStreams({ ...core, figures, nodeFigures }),
    ...consoleStreams({ ...core, console, isOnline }),
  ]
  for (const route of [...routes, ...pluginOwnRoutes(plugins)]) addRoute(door, route)
  cleanup.add(tellLockouts(core, addStreams(door, streamRoutes)))
  addSystemRoutes(door, {
    db,
    metrics,
    version,
    openApi: () => toOpenApi(endpoints, streams),
    isStopping: () => stopping.signal.aborted,
  })
  door.app.server.on('upgrade', (request, socket, head) => gateway.upgrade(request, socket, head))

  return {
    http: door.app satisfies FastifyInstance,
    routes,
    streamRoutes,
    core,
    keys,
    gateway,
    serverDeps,
    holder,
    setupToken: gate.token,
    isSetupRequired: () => isSetupRequired(db.read, settings),
    /** Called once, when the daemon listens. */
    begin: async (url: string): Promise<void> => {
      publicUrl = config.publicUrl ?? reachableUrl(url)
      if (publicUrl !== url && config.publicUrl === undefined)
        log.warn(
          { publicUrl },
          'http.publicUrl is not set: mails and enrolment commands name an address of this machine',
        )
      const update = await noteVersion({ ...core, version, startedAt: life.startedAt, schema })
      if (update !== undefined) updates.completed(update)
      await nodeLink.start(stopping.signal)
      const { signal } = stopping
      loops.push(runUpkeep({ ...core, idempotency }, signal), watchExpiry(core, signal))
      loops.push(courier.run(signal), evaluator.run(signal), retryWrites({ db, clock, log }, signal))
      databaseWork.start()
      await plugins.begin()
    },
    close: async (): Promise<void> => {
      stopping.abort()
      const drained = new AbortController()
      void clock.sleep(DRAIN_MS, drained.signal).then(() => door.app.server.closeAllConnections())
      // Together: the HTTP server waits for upgraded sockets too, which only the gateway ends.
      await Promise.all([door.app.close(), gateway.close(), plugins.close()])
      drained.abort()
      console.close()
      await Promise.all(loops)
      await cleanup.run()
    },
  }
}

function hostOf(url: string | undefined): string[] {
  return url === undefined ? [] : [new URL(url).hostname]
}
