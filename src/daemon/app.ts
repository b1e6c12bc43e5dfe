import type { IncomingMessage } from 'node:http'
import proxyAddr from '@fastify/proxy-addr'
import type { FastifyInstance } from 'fastify'
import { endpoints, streams } from '../shared/endpoints.ts'
import { newIdSuffix } from '../shared/ids.ts'
import { toOpenApi } from '../shared/openapi.ts'
import { type Clock, now } from '../shared/time.ts'
import { watchExpiry } from './access/expiry.ts'
import { accessRoutes } from './access/routes.ts'
import { countOpenAlerts } from './alerts/alert-rows.ts'
import { Evaluator } from './alerts/evaluator.ts'
import { watchEvents } from './alerts/event-watch.ts'
import { alertRoutes } from './alerts/routes.ts'
import { auditLogRoutes } from './audit-log/audit-log.ts'
import { createCredentials } from './auth/credentials.ts'
import { createDeliveries } from './auth/deliveries.ts'
import { tellLockouts } from './auth/lockout-frames.ts'
import { createPasswords } from './auth/passwords.ts'
import { authRoutes } from './auth/routes.ts'
import { createSetupGate } from './auth/setup.ts'
import { isSetupRequired } from './auth/setup-state.ts'
import type { Config } from './config.ts'
import { createConsole } from './console/hub.ts'
import { consoleRoutes, consoleStreams } from './console/routes.ts'
import { createAudit } from './core/audit.ts'
import { chainOldRows } from './core/audit-chain.ts'
import { createBus } from './core/bus.ts'
import { Cleanup } from './core/cleanup.ts'
import type { Db, Tx } from './core/db.ts'
import { createGateway, type Gateway } from './core/gateway/gateway.ts'
import { addRoute, createDoor } from './core/http.ts'
import { addStreams } from './core/http-streams.ts'
import { createIdempotency } from './core/idempotency.ts'
import { IntegrityCheck } from './core/integrity-check.ts'
import type { Log } from './core/log.ts'
import { createMetrics } from './core/metrics.ts'
import type { Route, StreamRoute } from './core/route.ts'
import { createVault } from './core/secrets.ts'
import { openSettings, type Settings } from './core/settings.ts'
import { createSystemErrors } from './core/system-errors.ts'
import { databaseHostRoutes } from './databases/host-routes.ts'
import { HostWork } from './databases/host-work.ts'
import { databaseRoutes } from './databases/routes.ts'
import { metricsStreams } from './events/metrics-routes.ts'
import { eventStreams } from './events/routes.ts'
import { locationRoutes } from './locations/routes.ts'
import { createSmtpMailer } from './mail/smtp-mailer.ts'
import { NodeFiguresBoard } from './nodes/figures.ts'
import { createNodeKeys } from './nodes/keys.ts'
import { createNodeLink } from './nodes/link.ts'
import { nodeRoutes } from './nodes/routes.ts'
import { overviewRoutes } from './overview/routes.ts'
import { passkeyRoutes } from './passkeys/routes.ts'
import { pluginOwnRoutes } from './plugins/own-routes.ts'
import { Plugins } from './plugins/plugins.ts'
import { pluginRoutes } from './plugins/routes.ts'
import { Figures } from './servers/figures.ts'
import { createServerLink } from './servers/link.ts'
import { serverRoutes } from './servers/routes.ts'
import { TemplateViews } from './servers/template-views.ts'
import { settingsRoutes } from './settings/routes.ts'
import { authProviders } from './sso/oidc-settings.ts'
import { ssoRoutes } from './sso/routes.ts'
import { addSystemRoutes } from './system/health.ts'
import { startUpkeep } from './system/upkeep.ts'
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
  const settings = await openSettings(db, config.fixed)
  await nameInstallation(db, settings, clock)
  const bus = createBus(db)
  await chainOldRows(db, log)
  const systemErrors = createSystemErrors({ db, bus, clock, log })
  cleanup.add(() => systemErrors.close())
  const audit = createAudit(bus, clock)
  const credentials = createCredentials({ db, clock, log })
  cleanup.add(() => credentials.close())
  const metrics = createMetrics(version)
  const idempotency = createIdempotency(db, clock)
  const passwords = createPasswords()
  const keys = createNodeKeys({ db, clock })
  const gate = createSetupGate(config.setupToken)
  const vault = createVault(config.credentialKey)
  const mailer = createSmtpMailer({ settings, vault, log: log.child({ component: 'mail' }), ca: config.mailCa })
  cleanup.add(() => mailer.close())
  const deliveries = createDeliveries(log.child({ component: 'mail' }))
  cleanup.add(() => deliveries.close())
  const core = { db, bus, audit, clock, settings, credentials, log, vault, mailer, systemErrors }
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
  const nodeFigures = new NodeFiguresBoard(clock)

  const isOnline = (nodeId: string): boolean => gateway.isOnline(nodeId)
  const figures = new Figures(clock, (nodeId, serverIds) => {
    if (!gateway.isOnline(nodeId)) return
    gateway
      .request(nodeId, { op: 'stats.watch', serverIds })
      .catch((err: unknown) => log.debug({ err, nodeId }, 'figures could not be asked for'))
  })
  const serverDeps = {
    ...core,
    isOnline,
    leaving,
    wake: (nodeId: string) => gateway.wake(nodeId),
    facts: { isOnline, figures: (serverId: string) => figures.get(serverId), templates: new TemplateViews() },
  }
  const serverLink = createServerLink({ db, bus, settings, leaving })
  const nodeLink = createNodeLink({
    ...core,
    servers: serverLink,
    isOnline,
  })
  const console = createConsole({ ...core, gateway: () => gateway })
  const gateway: Gateway = createGateway({
    db,
    clock,
    log: log.child({ component: 'gateway' }),
    version,
    registry: metrics.registry,
    framesPerSecond: () => settings.get('limits.agentFramesPerSecond'),
    ...(config.trustedProxies.length === 0 ? {} : { addressOf: clientAddress(config.trustedProxies) }),
    verify: (nodeId, key) => keys.verify(nodeId, key),
    onMishap: (error, { level, nodeId }) =>
      systemErrors.capture(error, { component: 'gateway', level, metadata: nodeId === undefined ? {} : { nodeId } }),
    handlers: {
      ...nodeLink,
      onEvent: serverLink.onEvent,
      commandFrame: serverLink.commandFrame,
      onOnline: async (nodeId) => {
        // At once: whoever begins to watch while the node's row is written would otherwise be subscribed twice.
        figures.watchAgain(nodeId)
        console.nodeOnline(nodeId)
        await nodeLink.onOnline(nodeId)
      },
      onOffline: async (nodeId) => {
        console.nodeOffline(nodeId)
        await nodeLink.onOffline(nodeId)
      },
      onConsole: (nodeId, frame) => console.lines(nodeId, frame),
      onConsoleGap: (nodeId, frame) => console.gap(nodeId, frame),
      onHealth: (nodeId, health) => nodeFigures.report(nodeId, health),
      onStats: (nodeId, reported) => {
        figures.report(db.read, nodeId, reported).catch((err: unknown) => {
          log.error({ err, nodeId }, 'figures could not be read')
          systemErrors.capture(err, { component: 'figures', metadata: { nodeId } })
        })
      },
    },
  })
  const evaluator = new Evaluator({
    ...core,
    outbox,
    isOnline,
    health: (nodeId) => gateway.health(nodeId),
    figures: (serverId) => figures.get(serverId),
  })
  keys.onRevoked((nodeId) => gateway.disconnect(nodeId))

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
      publicUrl = config.publicUrl ?? url
      const update = await noteVersion({ ...core, version, startedAt: life.startedAt, schema })
      if (update !== undefined) updates.completed(update)
      await nodeLink.start(stopping.signal)
      startUpkeep({ ...core, idempotency }, stopping.signal)
      void watchExpiry(core, stopping.signal)
      void courier.run(stopping.signal)
      void evaluator.run(stopping.signal)
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
      await cleanup.run()
    },
  }
}

/** Where an upgrade request comes from, as Fastify tells it of other requests: proxies that are trusted are looked through. */
function clientAddress(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  const trust = proxyAddr.compile([...trustedProxies])
  return (request) => proxyAddr(request, trust)
}

/** Gives a new installation its name, which event ids carry. */
async function nameInstallation(db: Db, settings: Settings, clock: Clock): Promise<void> {
  if (settings.get('install.epoch') === '')
    await db.write((tx) => settings.set(tx, 'install.epoch', newIdSuffix(clock)))
}
