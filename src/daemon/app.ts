import type { IncomingMessage } from 'node:http'
import proxyAddr from '@fastify/proxy-addr'
import type { FastifyInstance } from 'fastify'
import { endpoints, streams } from '../shared/endpoints.ts'
import { newIdSuffix } from '../shared/ids.ts'
import { toOpenApi } from '../shared/openapi.ts'
import type { Clock } from '../shared/time.ts'
import { watchExpiry } from './access/expiry.ts'
import { accessRoutes } from './access/routes.ts'
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
import type { Db } from './core/db.ts'
import { createGateway, type Gateway } from './core/gateway/gateway.ts'
import { addRoute, createDoor } from './core/http.ts'
import { addStreams } from './core/http-streams.ts'
import { createIdempotency } from './core/idempotency.ts'
import type { Log } from './core/log.ts'
import { createMetrics } from './core/metrics.ts'
import type { Route, StreamRoute } from './core/route.ts'
import { createVault } from './core/secrets.ts'
import { openSettings, type Settings } from './core/settings.ts'
import { createSystemErrors } from './core/system-errors.ts'
import { eventStreams } from './events/routes.ts'
import { locationRoutes } from './locations/routes.ts'
import { createSmtpMailer } from './mail/smtp-mailer.ts'
import { createNodeKeys } from './nodes/keys.ts'
import { createNodeLink } from './nodes/link.ts'
import { nodeRoutes } from './nodes/routes.ts'
import { pluginOwnRoutes } from './plugins/own-routes.ts'
import { Plugins } from './plugins/plugins.ts'
import { pluginRoutes } from './plugins/routes.ts'
import { Figures } from './servers/figures.ts'
import { createServerLink } from './servers/link.ts'
import { serverRoutes } from './servers/routes.ts'
import { TemplateViews } from './servers/template-views.ts'
import { settingsRoutes } from './settings/routes.ts'
import { addSystemRoutes } from './system/health.ts'
import { startUpkeep } from './system/upkeep.ts'
import { systemErrorRoutes } from './system-errors/routes.ts'
import { templateRoutes } from './templates/routes.ts'
import { roleRoutes } from './users/roles.ts'
import { userRoutes } from './users/users.ts'

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
}

/** The wired daemon, before and after it listens. */
export type App = Awaited<ReturnType<typeof createApp>>

/** Builds every slice and hands its routes to the HTTP door: the only place that knows all of them. */
export async function createApp({ config, db, clock, log, version, holder }: AppOptions) {
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
  let publicUrl = ''
  const people = { ...core, passwords, publicUrl: () => publicUrl }

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
    wake: (nodeId: string) => gateway.wake(nodeId),
    facts: { isOnline, figures: (serverId: string) => figures.get(serverId), templates: new TemplateViews() },
  }
  const serverLink = createServerLink({ db, bus, settings })
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
      onStats: (nodeId, reported) => {
        figures.report(db.read, nodeId, reported).catch((err: unknown) => {
          log.error({ err, nodeId }, 'figures could not be read')
          systemErrors.capture(err, { component: 'figures', metadata: { nodeId } })
        })
      },
    },
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
    // People sign in by password only: there is no identity provider that could be set up.
    ...settingsRoutes({ ...core, authProviders: () => ({ whmcs: false, paymenter: false }) }),
    ...locationRoutes({ ...core, isOnline }),
    ...templateRoutes(core),
    ...nodeRoutes({ ...core, keys, isOnline, health: (nodeId) => gateway.health(nodeId), publicUrl: () => publicUrl }),
    ...serverRoutes(serverDeps),
    ...pluginRoutes(plugins),
    ...accessRoutes({ ...people, isOnline, facts: serverDeps.facts }),
    ...consoleRoutes({ ...core, console, gateway, isOnline }),
  ]
  const streamRoutes: StreamRoute[] = [
    ...eventStreams({ ...core, figures }),
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
      publicUrl = url
      await nodeLink.start(stopping.signal)
      startUpkeep({ ...core, idempotency }, stopping.signal)
      void watchExpiry(core, stopping.signal)
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
