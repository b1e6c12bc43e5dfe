import { randomUUID } from 'node:crypto'
import type { Audit } from '../../src/daemon/access/audit.ts'
import type { Bus } from '../../src/daemon/core/bus.ts'
import type { Settings } from '../../src/daemon/core/settings.ts'
import type { Db } from '../../src/daemon/db/db.ts'
import type { LiveCredentials } from '../../src/daemon/features/accounts/auth/credentials.ts'
import { authRoutes } from '../../src/daemon/features/accounts/auth/routes.ts'
import { roleRoutes } from '../../src/daemon/features/accounts/users/role-routes.ts'
import { userRoutes } from '../../src/daemon/features/accounts/users/routes.ts'
import { templateRoutes } from '../../src/daemon/features/catalog/templates/routes.ts'
import { locationRoutes } from '../../src/daemon/features/fleet/locations/routes.ts'
import { createNodeKeys, type NodeKeys } from '../../src/daemon/features/fleet/nodes/keys.ts'
import { PortLooks } from '../../src/daemon/features/fleet/nodes/port-looks.ts'
import { nodeRoutes } from '../../src/daemon/features/fleet/nodes/routes.ts'
import type { HealthReport } from '../../src/daemon/features/fleet/nodes/stats.ts'
import { auditLogRoutes } from '../../src/daemon/features/operations/audit-log/routes.ts'
import { LiveStates } from '../../src/daemon/features/servers/servers/live-states.ts'
import { serverRoutes } from '../../src/daemon/features/servers/servers/routes.ts'
import type { ServerRow } from '../../src/daemon/features/servers/servers/rows.ts'
import { TemplateViews } from '../../src/daemon/features/servers/servers/template-views.ts'
import { UnstoredOrders } from '../../src/daemon/features/servers/servers/unstored-orders.ts'
import type { CurrentUsage } from '../../src/daemon/features/servers/servers/usage.ts'
import { accessRoutes } from '../../src/daemon/features/servers/sharing/routes.ts'
import type { Mailer } from '../../src/daemon/features/signals/mail/mailer.ts'
import { completeSetup } from '../../src/shared/api/auth.ts'
import { createLocation } from '../../src/shared/api/locations.ts'
import { createNode } from '../../src/shared/api/nodes.ts'
import { createServer, type NewServer, type Server } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { type Client, createClient } from '../../src/shared/client.ts'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import type { Clock } from '../../src/shared/kernel/time.ts'
import { SETUP_TOKEN, startRoutes } from './routes-panel.ts'

/** The mailer of a panel without a mail server. */
const noMailer: Mailer = {
  isConfigured: () => false,
  send: () => Promise.reject(new Error('there is no mail server')),
}

/** The daemon's routes over a real database and real HTTP, without agents: the test says which nodes are connected. */
export interface PlacePanel {
  readonly url: string
  /** Where the same routes answer without a cache. */
  readonly twinUrl: string
  /** The file of the database. */
  readonly file: string
  /** The usage that agents have reported, by server. */
  readonly usage: Map<string, CurrentUsage>
  readonly token: string
  readonly credentials: LiveCredentials
  /** Signed in as the first administrator, by the token. */
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
export async function startPlacePanel(options: { readonly uncachedTwin?: true } = {}): Promise<PlacePanel> {
  const usage = new Map<string, CurrentUsage>()
  const online = new Set<string>()
  const health = new Map<string, HealthReport>()
  const isOnline = (nodeId: string): boolean => online.has(nodeId)
  const ask = (): Promise<never> => Promise.reject(new Error('no agent is asked here'))
  const facts = {
    isOnline,
    usage: (serverId: string) => usage.get(serverId),
    templates: new TemplateViews(),
    observed: (row: ServerRow) => row,
    isStored: () => true,
  }
  let keys: NodeKeys | undefined
  const { url, twinUrl, file, parts, close } = await startRoutes({
    ...options,
    mailer: noMailer,
    credentialKey: undefined,
    behindProxy: false,
    routes: (core) => {
      keys = createNodeKeys(core)
      const live = new LiveStates(isOnline)
      const portLooks = new PortLooks({ ask, isOnline, clock: core.clock })
      const unstored = new UnstoredOrders({ ...core, live, isOnline, send: () => undefined })
      return [
        ...authRoutes({ ...core, usedNow: (keyId) => core.http.limits.usedNow(keyId) }),
        ...userRoutes(core),
        ...roleRoutes(core),
        ...accessRoutes({ ...core, isOnline, facts }),
        ...auditLogRoutes(core),
        ...locationRoutes({ ...core, isOnline }),
        ...templateRoutes(core),
        ...nodeRoutes({ ...core, keys, isOnline, health: (id) => health.get(id) }),
        ...serverRoutes({
          ...core,
          ...{ unstored, isOnline, ask, facts, portLooks, beforeDelete: [], onSuspension: [] },
          can: () => false,
          wake: () => undefined,
          refusalOf: () => undefined,
        }),
      ]
    },
  })
  if (keys === undefined) throw new Error('no routes were made')
  const { db, bus, audit, settings, clock } = parts
  const nobody = createClient({ baseUrl: url, fetch })
  const { token } = await nobody.call(completeSetup, {
    body: {
      setupToken: SETUP_TOKEN,
      email: 'ada@example.org',
      username: 'ada',
      password: 'correct-Horse-7-battery',
    },
  })
  const admin = createClient({ baseUrl: url, fetch, token })
  return {
    url,
    twinUrl,
    file,
    usage,
    token,
    credentials: parts.credentials,
    admin,
    nobody,
    db,
    bus,
    audit,
    settings,
    clock,
    keys,
    online,
    health,
    advance: clock.advance,
    close,
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
