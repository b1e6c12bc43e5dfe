import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { endpoints, streams } from '../shared/endpoints.ts'
import { type Clock, now } from '../shared/kernel/time.ts'
import { toOpenApi } from '../shared/openapi.ts'
import type { Config } from './config/config.ts'
import type { Cleanup } from './core/cleanup.ts'
import type { Log } from './core/log.ts'
import { wireCore } from './core-wiring.ts'
import type { Db, Tx } from './db/db.ts'
import { retryWrites } from './db/db-recovery.ts'
import { IntegrityCheck } from './db/integrity-check.ts'
import { holderOf } from './features/accounts/auth/job-holder.ts'
import { reportLockouts } from './features/accounts/auth/lockout-frames.ts'
import { authRoutes } from './features/accounts/auth/routes.ts'
import { createSetupGate } from './features/accounts/auth/setup.ts'
import { isSetupRequired } from './features/accounts/auth/setup-state.ts'
import { createTurns } from './features/accounts/auth/turns.ts'
import { passkeyRoutes } from './features/accounts/passkeys/routes.ts'
import { sshKeyRoutes } from './features/accounts/ssh-keys/routes.ts'
import { authProviders } from './features/accounts/sso/oidc-settings.ts'
import { ssoRoutes } from './features/accounts/sso/routes.ts'
import { roleRoutes } from './features/accounts/users/role-routes.ts'
import { userRoutes } from './features/accounts/users/routes.ts'
import { templateRoutes } from './features/catalog/templates/routes.ts'
import { locationRoutes } from './features/fleet/locations/routes.ts'
import { nodeRoutes } from './features/fleet/nodes/routes.ts'
import { auditLogRoutes } from './features/operations/audit-log/routes.ts'
import { lookNow, registerPolicies } from './features/operations/backup-policies/policy-job.ts'
import { backupPolicyRoutes } from './features/operations/backup-policies/routes.ts'
import { jobRoutes } from './features/operations/jobs/routes.ts'
import { registerMigrations } from './features/operations/migration/jobs.ts'
import { migrationRoutes } from './features/operations/migration/routes.ts'
import { RunningSteps } from './features/operations/migration/running-steps.ts'
import { sourceOpener } from './features/operations/migration/source-opener.ts'
import { overviewRoutes } from './features/operations/overview/routes.ts'
import { clearFolder } from './features/operations/self-backups/archive.ts'
import { registerSelfBackups } from './features/operations/self-backups/create-job.ts'
import { selfBackupRoutes } from './features/operations/self-backups/routes.ts'
import { beginSchedule, registerSchedule } from './features/operations/self-backups/schedule.ts'
import { settingsRoutes } from './features/operations/settings/routes.ts'
import { ObjectStores } from './features/operations/stores/object-stores.ts'
import { backupStoreRoutes } from './features/operations/stores/routes.ts'
import { addSystemRoutes } from './features/operations/system/routes.ts'
import { beginUpkeep, registerUpkeep } from './features/operations/system/upkeep.ts'
import { updateRoutes } from './features/operations/updates/routes.ts'
import { Updates } from './features/operations/updates/updates.ts'
import { noteVersion, type SchemaChange } from './features/operations/updates/version-change.ts'
import { pluginOwnRoutes } from './features/plugins/own-routes.ts'
import { Plugins } from './features/plugins/plugins.ts'
import { pluginRoutes } from './features/plugins/routes.ts'
import { registerBackups } from './features/servers/backups/jobs.ts'
import { backupRoutes } from './features/servers/backups/routes.ts'
import { createBackupStores } from './features/servers/backups/stores.ts'
import { beginBackupUpkeep } from './features/servers/backups/upkeep.ts'
import { CommandLimit } from './features/servers/console/command-limit.ts'
import { consoleRoutes, consoleStreams } from './features/servers/console/routes.ts'
import { DatabaseWork } from './features/servers/databases/database-work.ts'
import { databaseHostRoutes } from './features/servers/databases/host-routes.ts'
import { databaseRoutes } from './features/servers/databases/routes.ts'
import { registerDatabaseWork } from './features/servers/databases/unfinished-work.ts'
import { registerFileJobs } from './features/servers/files/file-job.ts'
import { fileRoutes } from './features/servers/files/routes.ts'
import { lookForDue, registerDue } from './features/servers/schedules/due-job.ts'
import { scheduleRoutes } from './features/servers/schedules/routes.ts'
import { registerRuns } from './features/servers/schedules/run-job.ts'
import { endWithServer, followSuspension } from './features/servers/schedules/server-life.ts'
import { prepareServerView, serverRoutes } from './features/servers/servers/routes.ts'
import type { OnSuspension } from './features/servers/servers/suspend.ts'
import { sftpRoutes } from './features/servers/sftp/routes.ts'
import { SftpSessions } from './features/servers/sftp/sessions.ts'
import { followGrants, registerExpiry } from './features/servers/sharing/expiry.ts'
import { accessRoutes } from './features/servers/sharing/routes.ts'
import { countOpenAlerts } from './features/signals/alerts/alert-rows.ts'
import { Evaluator } from './features/signals/alerts/evaluator.ts'
import { watchEvents } from './features/signals/alerts/event-watch.ts'
import { alertRoutes } from './features/signals/alerts/routes.ts'
import { alertRefusal } from './features/signals/alerts/rule-holds.ts'
import { metricsStreams } from './features/signals/events/metrics-routes.ts'
import { eventStreams } from './features/signals/events/routes.ts'
import { systemErrorRoutes } from './features/signals/system-errors/routes.ts'
import { registerDeliveries } from './features/signals/webhooks/delivery-job.ts'
import { createOutbox } from './features/signals/webhooks/outbox.ts'
import { webhookRoutes } from './features/signals/webhooks/routes.ts'
import { createSender } from './features/signals/webhooks/sender.ts'
import { notifyWebhooks } from './features/signals/webhooks/subscriptions.ts'
import { StoreTickets } from './gateway/store-tickets.ts'
import { defaultMaxConnections } from './http/connection-limits.ts'
import type { Route, StreamRoute } from './http/route.ts'
import { addRoute, createHttpServer } from './http/server.ts'
import { addStreams } from './http/streams.ts'
import { createJobs } from './jobs/jobs.ts'
import { wireNodes } from './node-wiring.ts'
import { reachableUrl } from './start/reachable-url.ts'

/** How long requests that are under way may take when the daemon stops. */
const DRAIN_MS = 10_000

/** How long what follows a start lets reads pass, at each of its steps. */
const READS_MS = 100

/** Sign-ins over SSH of one address that may wait for each other. */
const SFTP_WAITING = 100

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
  /** Ends what was begun, also when the rest of the start fails; the database is closed behind it. */
  readonly cleanup: Cleanup
}

/** The wired daemon, before and after it listens. */
export type App = Awaited<ReturnType<typeof createApp>>

/** Builds every slice and hands its routes to the HTTP server: the only place that knows all of them. */
export async function createApp({ config, db, clock, log, version, holder, schema, cleanup }: AppOptions) {
  const life = { startedAt: now(clock), startedMs: clock.monotonicMs() }
  const stopping = new AbortController()
  cleanup.add(() => stopping.abort())
  /** What goes on until the daemon stops; the database is closed after it. */
  const loops: Promise<void>[] = []
  const { core, metrics, idempotency, passwords, deliveries, reads } = await wireCore({
    ...{ config, db, clock, log, version, cleanup },
  })
  const { bus, settings, vault, credentials, systemErrors } = core
  const jobs = createJobs({ ...core, registry: metrics.registry, holderOf })
  const gate = createSetupGate(config.setupToken)
  const outbox = createOutbox({ clock, vault, jobs })
  const sender = createSender({ settings, clock })
  cleanup.add(() => sender.close())
  registerDeliveries(jobs, { ...core, sender, alertRefusal })
  notifyWebhooks(bus, outbox)
  watchEvents(bus, { ...core, outbox })
  const databaseWork = new DatabaseWork(jobs)
  registerDatabaseWork(jobs, core)
  registerUpkeep(jobs, { ...core, idempotency })
  registerExpiry(jobs, core)
  const beforeDelete = [(tx: Tx, serverId: string) => databaseWork.beforeServerDelete(tx, serverId)]
  let publicUrl = ''
  const people = { ...core, passwords, publicUrl: () => publicUrl }
  const runDeps = { ...core, jobs }
  beforeDelete.push((tx, serverId) => endWithServer(tx, runDeps, serverId))
  const onSuspension: OnSuspension = [
    (tx, serverId, isSuspended) => followSuspension(tx, runDeps, serverId, isSuspended),
  ]

  const integrity = new IntegrityCheck({
    file: db.file,
    clock,
    changed: (status) => {
      db.write((tx) => bus.append(tx, { type: 'db_status_changed', data: { status } })).catch((err: unknown) =>
        log.error({ err, status }, 'cannot announce database check result'),
      )
    },
  })
  cleanup.add(() => integrity.close())
  const updates = new Updates({ version, feedUrl: config.updateFeed, clock, log, signal: stopping.signal })
  const nodeWiring = wireNodes({ core, config, version, metrics, reads, beforeDelete, onSuspension })
  const { gateway, isOnline, keys, usage, transfers, commandReports, nodeUsage, serverDeps, nodeLink, console } =
    nodeWiring
  // Beside the making of routes, and before any node can come in.
  const nodesAway = nodeLink.start(stopping.signal)
  nodesAway.catch(() => undefined) // whoever awaits it below gets the failure
  const stores = new ObjectStores(core)
  cleanup.add(() => stores.close())
  const storeTickets = new StoreTickets({ objects: (storeId) => stores.find(storeId) })
  const selfBackups = {
    ...{ ...core, jobs, stores, version },
    credentialKey: config.credentialKey,
    backupDir: config.backupDir,
    workDir: join(config.dataDir, 'self-backup'),
  }
  registerSelfBackups(jobs, selfBackups)
  cleanup.add(registerSchedule(jobs, selfBackups))
  const commandLimit = new CommandLimit(clock)
  const sftpDeps = { ...core, passwords, gateway, isOnline, limit: commandLimit, turns: createTurns(SFTP_WAITING) }
  const sftpSessions = new SftpSessions(sftpDeps, stopping.signal)
  registerFileJobs(jobs, { ...core, gateway, transfers })
  const backupStores = createBackupStores({ ...core, objects: stores, tickets: storeTickets })
  const backups = { ...core, gateway, transfers, jobs, stores: backupStores }
  registerBackups(jobs, backups)
  registerPolicies(jobs, backups)
  registerDue(jobs, { ...runDeps, isOnline })
  registerRuns(jobs, { ...serverDeps, ...runDeps, gateway, limit: new CommandLimit(clock), backups })
  const migrations = {
    ...{ ...serverDeps, ...people, ...runDeps, gateway, transfers, backups },
    databases: { ...core, work: databaseWork },
    openSource: sourceOpener({ clock, gateway }),
    running: new RunningSteps(),
  }
  cleanup.add(registerMigrations(jobs, migrations))
  const evaluator = new Evaluator({
    ...core,
    outbox,
    metrics,
    isOnline,
    health: (nodeId) => gateway.health(nodeId),
    usage: (serverId) => usage.get(serverId),
  })

  const http = await createHttpServer({
    db,
    credentials,
    identifyNode: (request) => gateway.identify(request, request.ip),
    idempotency,
    reads,
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
    jobs,
    dataDir: config.dataDir,
    inject: (request) => http.app.inject(request),
  })
  const routes: Route[] = [
    ...authRoutes({ ...people, gate, deliveries, usedNow: (keyId) => http.limits.usedNow(keyId) }),
    ...userRoutes(people),
    ...roleRoutes(people),
    ...auditLogRoutes(core),
    ...systemErrorRoutes(core),
    ...settingsRoutes({ ...core, authProviders }),
    ...ssoRoutes({ ...people, deliveries }),
    ...sshKeyRoutes(core),
    ...passkeyRoutes({ ...people, deliveries }),
    ...webhookRoutes({ ...core, outbox, sender }),
    ...alertRoutes({ ...core, outbox }),
    ...locationRoutes({ ...core, isOnline }),
    ...templateRoutes(core),
    ...nodeRoutes({ ...core, keys, isOnline, health: (nodeId) => gateway.health(nodeId), publicUrl: () => publicUrl }),
    ...serverRoutes(serverDeps),
    ...databaseHostRoutes({ ...core, work: databaseWork }),
    ...databaseRoutes({ ...core, work: databaseWork }),
    ...backupRoutes(backups),
    ...backupPolicyRoutes(backups),
    ...backupStoreRoutes({ ...core, stores, tickets: storeTickets, gateway }),
    ...selfBackupRoutes(selfBackups),
    ...scheduleRoutes({ ...runDeps, isOnline }),
    ...jobRoutes({ ...core, jobs }),
    ...migrationRoutes(migrations),
    ...pluginRoutes(plugins),
    ...accessRoutes({ ...people, isOnline, facts: serverDeps.facts }),
    ...consoleRoutes({ ...core, console, gateway, isOnline, limit: commandLimit }),
    ...fileRoutes({ ...core, gateway, transfers, jobs }),
    ...sftpRoutes(sftpDeps, sftpSessions),
    ...overviewRoutes({
      ...{ db, clock, version, life, integrity, nodeUsage, isOnline },
      connected: () => gateway.connected().length,
      alerts: countOpenAlerts,
    }),
    ...updateRoutes(updates),
  ]
  const streamRoutes: StreamRoute[] = [
    ...eventStreams({ ...core, usage, commandReports }),
    ...metricsStreams({ ...core, usage, nodeUsage }),
    ...consoleStreams({ ...core, console, isOnline }),
  ]
  for (const route of [...routes, ...pluginOwnRoutes(plugins)]) addRoute(http, route)
  cleanup.add(reportLockouts(core, addStreams(http, streamRoutes)))
  addSystemRoutes(http, {
    db,
    metrics,
    version,
    openApi: () => toOpenApi(endpoints, streams),
    isStopping: () => stopping.signal.aborted,
  })
  http.app.server.on('upgrade', (request, socket, head) => gateway.upgrade(request, socket, head))
  await nodesAway

  return {
    http: http.app satisfies FastifyInstance,
    routes,
    streamRoutes,
    core,
    jobs,
    keys,
    gateway,
    serverDeps,
    stores,
    storeTickets,
    holder,
    setupToken: gate.token,
    isSetupRequired: () => isSetupRequired(db.read, settings),
    /** Called once, when the daemon listens. */
    begin: async (url: string): Promise<void> => {
      prepareServerView()
      publicUrl = config.publicUrl ?? reachableUrl(url)
      if (publicUrl !== url && config.publicUrl === undefined)
        log.warn(
          { publicUrl },
          'http.publicUrl is not set: mails and enrolment commands name an address of this machine',
        )
      const update = await noteVersion({ ...core, version, startedAt: life.startedAt, schema })
      if (update !== undefined) updates.completed(update)
      const { signal } = stopping
      loops.push(evaluator.run(signal), retryWrites({ db, clock, log }, signal))
      // Whoever has waited for the start comes now, and code that runs for the first time takes long.
      await reads.passed(READS_MS)
      await databaseWork.begin(db)
      await clearFolder(selfBackups.workDir)
      await reads.passed(READS_MS)
      await db.write(async (tx) => {
        await beginUpkeep(tx, jobs)
        await beginBackupUpkeep(tx, jobs)
        await lookNow(tx, jobs)
        await beginSchedule(tx, selfBackups)
        await lookForDue(tx, jobs)
      })
      await reads.passed(READS_MS)
      cleanup.add(followGrants(jobs, core))
      jobs.start()
      await plugins.begin()
    },
    /** Ends what goes on; what it stands on is ended by the cleanup. */
    close: async (): Promise<void> => {
      stopping.abort()
      const drained = new AbortController()
      void clock.sleep(DRAIN_MS, drained.signal).then(() => http.app.server.closeAllConnections())
      // Together: the HTTP server waits for upgraded sockets too, which only the gateway ends.
      await Promise.all([http.app.close(), gateway.close(), plugins.close(), jobs.close()])
      drained.abort()
      console.close()
      await Promise.all(loops)
    },
  }
}

function hostOf(url: string | undefined): string[] {
  return url === undefined ? [] : [new URL(url).hostname]
}
