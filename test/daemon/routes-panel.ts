import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createAudit } from '../../src/daemon/access/audit.ts'
import { createBus } from '../../src/daemon/core/bus.ts'
import { createLog } from '../../src/daemon/core/log.ts'
import { createMetrics } from '../../src/daemon/core/metrics.ts'
import { createVault } from '../../src/daemon/core/secrets.ts'
import { openSettings } from '../../src/daemon/core/settings.ts'
import { ShortReads } from '../../src/daemon/core/short-reads.ts'
import { openDb } from '../../src/daemon/db/db.ts'
import { migrate } from '../../src/daemon/db/migrations.ts'
import { createCredentials } from '../../src/daemon/features/accounts/auth/credentials.ts'
import { createDeliveries } from '../../src/daemon/features/accounts/auth/deliveries.ts'
import { createPasswords } from '../../src/daemon/features/accounts/auth/passwords.ts'
import { createSetupGate } from '../../src/daemon/features/accounts/auth/setup.ts'
import type { Mailer } from '../../src/daemon/features/signals/mail/mailer.ts'
import { createIdempotency } from '../../src/daemon/http/idempotency.ts'
import type { Route } from '../../src/daemon/http/route.ts'
import { addRoute, createHttpServer, type HttpServer } from '../../src/daemon/http/server.ts'
import { type Clock, systemClock } from '../../src/shared/kernel/time.ts'
import { placeDatabase } from '../new-database.ts'

export const SETUP_TOKEN = 'the-setup-token-of-these-tests'

/** The machine's clock, which tests can put forward. */
export interface MovableClock extends Clock {
  advance(ms: number): void
}

/** What routes are made from. */
export type RouteParts = Awaited<ReturnType<typeof makeParts>>['parts'] & { readonly http: HttpServer }

/** How one panel differs from another. */
export interface RoutesPanelOptions {
  readonly mailer: Mailer
  /** `undefined`: a daemon without a key for secrets at rest. */
  readonly credentialKey: string | undefined
  /** What mails and agents are given; its own address where it is absent. */
  readonly publicUrl?: string
  /** Those on this machine say for whom they call. */
  readonly behindProxy: boolean
  /** Serves the same routes a second time, without a cache of answers. */
  readonly uncachedTwin?: true
  /** The routes that it has. */
  readonly routes: (parts: RouteParts) => readonly Route[]
}

/**
 * Some of the daemon's routes over a real database and real HTTP on loopback, without gateway, jobs and streams: for tests that need
 * a clock of their own, or parts of their own in place of nodes and mail.
 */
export async function startRoutes(options: RoutesPanelOptions) {
  const folder = await mkdtemp(join(tmpdir(), 'panel-routes-'))
  const file = join(folder, 'panel.db')
  await placeDatabase(file)
  await migrate(file)
  let url = ''
  const made = await makeParts(file, { ...options, ownUrl: () => options.publicUrl ?? url })
  const { db, clock, log, credentials, deliveries } = made.parts
  const stopping = new AbortController()
  const http = await createHttpServer({
    identifyNode: () => Promise.reject(new Error('there are no nodes here')),
    ...made.parts,
    idempotency: createIdempotency(db, clock),
    metrics: createMetrics('test', stopping.signal),
    reads: new ShortReads(),
    stopping: stopping.signal,
    trustedProxies: options.behindProxy ? ['127.0.0.1'] : [],
    tls: undefined,
    allowedHosts: [],
    maxConnections: 10_000,
  })
  const parts = { ...made.parts, http }
  const routes = options.routes(parts)
  url = await serve(http, routes)
  const twin = options.uncachedTwin === true ? await createHttpServer({ ...http.deps, cacheBytes: 0 }) : undefined
  const twinUrl = twin === undefined ? '' : await serve(twin, routes)
  const close = async (): Promise<void> => {
    stopping.abort()
    await twin?.app.close()
    await http.app.close()
    await deliveries.close()
    await credentials.close()
    await db.close()
    await rm(folder, { recursive: true })
  }
  return { url, twinUrl, file, parts, log, logged: made.logged, close }
}

async function serve(http: HttpServer, routes: readonly Route[]): Promise<string> {
  for (const route of routes) addRoute(http, route)
  await http.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = http.app.server.address() as AddressInfo // it listens on a port
  return `http://127.0.0.1:${port}`
}

async function makeParts(
  file: string,
  { mailer, credentialKey, ownUrl }: Pick<RoutesPanelOptions, 'mailer' | 'credentialKey'> & { ownUrl: () => string },
) {
  const clock = movableClock()
  const db = await openDb(file, clock)
  // Tests ask for more than people do in a minute.
  const plenty = { value: 1_000_000, source: 'env', name: 'PANEL_LIMITS__AUTH_REQUESTS_PER_MINUTE' } as const
  const settings = await openSettings(db, { 'limits.authRequestsPerMinute': plenty })
  const bus = createBus(db)
  const lines: string[] = []
  const log = createLog({ level: 'debug', destination: { write: (line: string): void => void lines.push(line) } })
  const account = {
    db,
    bus,
    clock,
    settings,
    audit: createAudit(bus, clock),
    credentials: createCredentials({ db, clock, log }),
    passwords: createPasswords(),
  }
  const mail = { mailer, publicUrl: ownUrl, deliveries: createDeliveries(log), vault: createVault(credentialKey) }
  const parts = { ...account, ...mail, log, gate: createSetupGate(SETUP_TOKEN) }
  return { parts, logged: (): string => lines.join('') }
}

function movableClock(): MovableClock {
  let ahead = 0
  return {
    nowMs: () => systemClock.nowMs() + ahead,
    monotonicMs: () => systemClock.monotonicMs() + ahead,
    sleep: systemClock.sleep,
    advance: (ms) => {
      ahead += ms
    },
  }
}
