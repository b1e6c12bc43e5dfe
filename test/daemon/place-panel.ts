import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Audit, createAudit } from '../../src/daemon/access/audit.ts'
import { type Bus, createBus } from '../../src/daemon/core/bus.ts'
import { createLog } from '../../src/daemon/core/log.ts'
import { createMetrics } from '../../src/daemon/core/metrics.ts'
import { createVault } from '../../src/daemon/core/secrets.ts'
import { openSettings, type Settings } from '../../src/daemon/core/settings.ts'
import { type Db, openDb } from '../../src/daemon/db/db.ts'
import { migrate } from '../../src/daemon/db/migrations.ts'
import { createCredentials } from '../../src/daemon/features/accounts/auth/credentials.ts'
import { createDeliveries } from '../../src/daemon/features/accounts/auth/deliveries.ts'
import { createPasswords } from '../../src/daemon/features/accounts/auth/passwords.ts'
import { authRoutes } from '../../src/daemon/features/accounts/auth/routes.ts'
import { createSetupGate } from '../../src/daemon/features/accounts/auth/setup.ts'
import { userRoutes } from '../../src/daemon/features/accounts/users/routes.ts'
import { templateRoutes } from '../../src/daemon/features/catalog/templates/routes.ts'
import { locationRoutes } from '../../src/daemon/features/fleet/locations/routes.ts'
import { createNodeKeys, type NodeKeys } from '../../src/daemon/features/fleet/nodes/keys.ts'
import { nodeRoutes } from '../../src/daemon/features/fleet/nodes/routes.ts'
import type { HealthReport } from '../../src/daemon/features/fleet/nodes/stats.ts'
import { auditLogRoutes } from '../../src/daemon/features/operations/audit-log/audit-log.ts'
import { LiveStates } from '../../src/daemon/features/servers/servers/live-states.ts'
import { serverRoutes } from '../../src/daemon/features/servers/servers/routes.ts'
import type { ServerRow } from '../../src/daemon/features/servers/servers/rows.ts'
import { TemplateViews } from '../../src/daemon/features/servers/servers/template-views.ts'
import { UnstoredOrders } from '../../src/daemon/features/servers/servers/unstored-orders.ts'
import type { Mailer } from '../../src/daemon/features/signals/mail/mailer.ts'
import { createIdempotency } from '../../src/daemon/http/idempotency.ts'
import { addRoute, createHttpServer } from '../../src/daemon/http/server.ts'
import { completeSetup } from '../../src/shared/api/auth.ts'
import { createLocation } from '../../src/shared/api/locations.ts'
import { createNode } from '../../src/shared/api/nodes.ts'
import { createServer, type NewServer, type Server } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { type Client, createClient } from '../../src/shared/client.ts'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import { type Clock, systemClock } from '../../src/shared/kernel/time.ts'

/** The mailer of a panel without a mail server. */
const noMailer: Mailer = {
  isConfigured: () => false,
  send: () => Promise.reject(new Error('there is no mail server')),
}

/** The daemon's routes over a real database and real HTTP, without agents: the test says which nodes are connected. */
export interface PlacePanel {
  readonly url: string
  /** Signed in as the first administrator. */
  readonly admin: Client
  /** Signed in as nobody. */
  readonly nobody: Client
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
  readonly settings: Settings
  readonly clock: Clock
  readonly keys: NodeKeys
  readonly online: Set<string>
  readonly health: Map<string, HealthReport>
  /** Makes the clock show a later time. */
  advance(ms: number): void
  close(): Promise<void>
}

/** Starts one on a free port of the loopback. */
export async function startPlacePanel(): Promise<PlacePanel> {
  const folder = await mkdtemp(join(tmpdir(), 'panel-places-'))
  let ahead = 0
  const clock: Clock = { ...systemClock, nowMs: () => systemClock.nowMs() + ahead }
  await migrate(join(folder, 'panel.db'))
  const db = await openDb(join(folder, 'panel.db'), clock)
  const log = createLog({ level: 'error' })
  const [settings, bus] = [await openSettings(db), createBus(db)]
  const audit = createAudit(bus, clock)
  const credentials = createCredentials({ db, clock, log })
  const core = { db, bus, audit, clock, settings, credentials, log, passwords: createPasswords() }
  const stopping = new AbortController().signal
  const parts = { idempotency: createIdempotency(db, clock), metrics: createMetrics('0'), stopping, tls: undefined }
  const door = await createHttpServer({
    identifyNode: () => Promise.reject(new Error('there are no nodes here')),
    ...core,
    ...parts,
    trustedProxies: [],
    allowedHosts: [],
    maxConnections: 10_000,
  })
  const keys = createNodeKeys({ db, clock })
  const online = new Set<string>()
  const health = new Map<string, HealthReport>()
  const isOnline = (nodeId: string): boolean => online.has(nodeId)
  const mail = {
    mailer: noMailer,
    deliveries: createDeliveries(log),
    vault: createVault(undefined),
    publicUrl: () => url,
  }
  const gate = createSetupGate('the-setup-token-of-the-tests')
  const ask = (): Promise<never> => Promise.reject(new Error('no agent is asked here'))
  const facts = {
    isOnline,
    figures: () => undefined,
    templates: new TemplateViews(),
    observed: (row: ServerRow) => row,
  }
  const live = new LiveStates(isOnline)
  const unstored = new UnstoredOrders({ ...core, live, isOnline, send: () => undefined })
  const routes = [
    ...authRoutes({ ...core, ...mail, gate, usedNow: (keyId) => door.limits.usedNow(keyId) }),
    ...userRoutes({ ...core, mailer: noMailer, publicUrl: () => url }),
    ...auditLogRoutes(core),
    ...locationRoutes({ ...core, isOnline }),
    ...templateRoutes(core),
    ...nodeRoutes({ ...core, keys, isOnline, health: (id) => health.get(id), publicUrl: () => url }),
    ...serverRoutes({ ...core, unstored, isOnline, ask, wake: () => undefined, facts, beforeDelete: [] }),
  ]
  for (const route of routes) addRoute(door, route)
  await door.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = door.app.server.address() as AddressInfo // a TCP listener has one
  const url = `http://127.0.0.1:${port}`
  const nobody = createClient({ baseUrl: url, fetch })
  const { token } = await nobody.call(completeSetup, {
    body: {
      setupToken: 'the-setup-token-of-the-tests',
      email: 'ada@example.org',
      username: 'ada',
      password: 'correct-Horse-7-battery',
    },
  })
  return {
    url,
    admin: createClient({ baseUrl: url, fetch, token }),
    nobody,
    db,
    bus,
    audit,
    settings,
    clock,
    keys,
    online,
    health,
    advance: (ms) => {
      ahead += ms
    },
    close: async () => {
      await door.app.close()
      await credentials.close()
      await db.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** The refusal that the call ends with: its code, refused fields, and meta; fails when the call succeeds. */
export async function refusal(
  call: Promise<unknown>,
): Promise<{ code: string; fields: string[]; meta: Readonly<Record<string, unknown>> }> {
  try {
    await call
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    return { code: error.code, fields: (error.details ?? []).map(({ field }) => field), meta: error.meta }
  }
  throw new Error('the call was not refused')
}

/** A location, a node in it with 1024 MiB and 4 cores, and a template. */
export async function place(panel: PlacePanel): Promise<{ locationId: string; nodeId: string; templateId: string }> {
  const { id: locationId } = await panel.admin.call(createLocation, { body: { name: 'Bonn' } })
  const { id: nodeId } = await panel.admin.call(createNode, {
    body: { name: 'rack-1', locationId, maxMemoryMb: 1024, maxCpuCores: 4 },
  })
  const { id: templateId } = await panel.admin.call(createTemplate, { body: { name: 'Sleep', startup: 'sleep 1000' } })
  return { locationId, nodeId, templateId }
}

/** What servers of a test may differ in. */
type Differing = 'name' | 'primaryPort' | 'primaryIp' | 'networkMode' | 'allocatedMemoryMb'

/** A server of 128 MiB and 0.5 cores at that place. */
export function addServer(
  panel: PlacePanel,
  at: { locationId: string; nodeId: string; templateId: string },
  differs: Partial<Pick<NewServer, Differing>> & { allocationId?: string } = {},
): Promise<Server> {
  const port = differs.allocationId === undefined ? { primaryPort: 25_565 } : {}
  const size = { allocatedMemoryMb: 128, allocatedCpuCores: 0.5, allocatedDiskMb: 64 }
  // Names are given once; tests that care name their servers.
  const name = `server ${randomUUID()}`
  return panel.admin.call(createServer, { body: { name, ...size, ...at, ...port, ...differs } })
}
