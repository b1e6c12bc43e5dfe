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
import { type Db, openDb } from '../../src/daemon/db/db.ts'
import { migrate } from '../../src/daemon/db/migrations.ts'
import { createCredentials, type LiveCredentials } from '../../src/daemon/features/accounts/auth/credentials.ts'
import { createDeliveries } from '../../src/daemon/features/accounts/auth/deliveries.ts'
import type { AccountDeps } from '../../src/daemon/features/accounts/auth/deps.ts'
import { createPasswords } from '../../src/daemon/features/accounts/auth/passwords.ts'
import { authRoutes } from '../../src/daemon/features/accounts/auth/routes.ts'
import { createSetupGate } from '../../src/daemon/features/accounts/auth/setup.ts'
import { roleRoutes } from '../../src/daemon/features/accounts/users/role-routes.ts'
import { userRoutes } from '../../src/daemon/features/accounts/users/routes.ts'
import { auditLogRoutes } from '../../src/daemon/features/operations/audit-log/audit-log.ts'
import type { ServerRow } from '../../src/daemon/features/servers/servers/rows.ts'
import { TemplateViews } from '../../src/daemon/features/servers/servers/template-views.ts'
import { accessRoutes } from '../../src/daemon/features/servers/sharing/routes.ts'
import type { Mail, Mailer } from '../../src/daemon/features/signals/mail/mailer.ts'
import { createIdempotency } from '../../src/daemon/http/idempotency.ts'
import { addRoute, createHttpServer, type HttpServer } from '../../src/daemon/http/server.ts'
import { createApiKey } from '../../src/shared/api/api-keys.ts'
import { completeSetup, login } from '../../src/shared/api/auth.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { type Client, createClient } from '../../src/shared/client.ts'
import type { ErrorCode } from '../../src/shared/kernel/errors.ts'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import { newId } from '../../src/shared/kernel/ids.ts'
import { type Clock, now, systemClock } from '../../src/shared/kernel/time.ts'

export const SETUP_TOKEN = 'the-setup-token-of-these-tests'
export const PASSWORD = 'Correct-horse-1'
export const HOUR = 3_600_000
export const DAY = 24 * HOUR

/** The machine's clock, which tests can put forward. */
export interface MovableClock extends Clock {
  advance(ms: number): void
}

/** The daemon's HTTP door with the routes of accounts on a database of its own, all real. */
export interface AccountsDoor {
  readonly url: string
  readonly db: Db
  /** The file of the database. */
  readonly file: string
  readonly clock: MovableClock
  readonly credentials: LiveCredentials
  /** What the routes work with. */
  readonly deps: AccountDeps
  /** A client with this token, calling from this address. */
  client(token?: string, ip?: string): Client
  /** The mails that went out, and whether any go. */
  readonly mails: readonly Mail[]
  readonly post: { configured: boolean; works: boolean }
  /** The mails that went out, after all that is under way. */
  allMails(): Promise<readonly Mail[]>
  /** The daemon's log so far. */
  logged(): string
  close(): Promise<void>
}

/** Adds routes of other slices to the door. */
type MoreRoutes = (door: HttpServer, deps: AccountDeps) => void

/** `credentialKey` null is a daemon without a key for secrets at rest. */
interface DoorOptions {
  readonly more?: MoreRoutes
  readonly credentialKey?: null
}

export async function openAccountsDoor(options: DoorOptions = {}): Promise<AccountsDoor> {
  const folder = await mkdtemp(join(tmpdir(), 'panel-accounts-'))
  const file = join(folder, 'panel.db')
  await migrate(file)
  const clock = movableClock()
  const db = await openDb(file, clock)
  // Tests ask for more than people do in a minute.
  const plenty = { value: 1_000_000, source: 'env', name: 'PANEL_LIMITS__AUTH_REQUESTS_PER_MINUTE' } as const
  const settings = await openSettings(db, { 'limits.authRequestsPerMinute': plenty })
  const bus = createBus(db)
  const lines: string[] = []
  const destination = { write: (line: string): void => void lines.push(line) }
  const log = createLog({ level: 'debug', destination })
  const credentials = createCredentials({ db, clock, log })
  const mails: Mail[] = []
  const post = { configured: false, works: true }
  const mailer: Mailer = {
    isConfigured: () => post.configured,
    send: async (mail) => {
      if (!post.works) throw new Error('the mail server is away')
      mails.push(mail)
    },
  }
  const publicUrl = (): string => 'https://panel.example.org'
  const account = {
    db,
    bus,
    clock,
    settings,
    credentials,
    audit: createAudit(bus, clock),
    passwords: createPasswords(),
  }
  const deps = { ...account, mailer, publicUrl, log }
  const stopping = new AbortController()
  const door = await createHttpServer({
    identifyNode: () => Promise.reject(new Error('there are no nodes here')),
    ...deps,
    log,
    idempotency: createIdempotency(db, clock),
    metrics: createMetrics('test'),
    stopping: stopping.signal,
    trustedProxies: ['127.0.0.1'],
    tls: undefined,
    allowedHosts: [],
    maxConnections: 10_000,
  })
  const gate = createSetupGate(SETUP_TOKEN)
  const deliveries = createDeliveries(log)
  const vault = createVault(options.credentialKey === null ? undefined : 'ab'.repeat(32))
  const usedNow = (keyId: string): number => door.limits.usedNow(keyId)
  const isOnline = (): boolean => false
  const facts = {
    isOnline,
    figures: () => undefined,
    templates: new TemplateViews(),
    observed: (row: ServerRow) => row,
  }
  const routes = [
    ...authRoutes({ ...deps, deliveries, vault, gate, usedNow }),
    ...userRoutes(deps),
    ...roleRoutes(deps),
    ...accessRoutes({ ...deps, isOnline, facts }),
    ...auditLogRoutes(deps),
  ]
  for (const route of routes) addRoute(door, route)
  options.more?.(door, deps)
  await door.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = door.app.server.address() as AddressInfo // it listens on a port
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    db,
    file,
    clock,
    credentials,
    deps,
    client: (token, ip = '192.0.2.1') =>
      createClient({ baseUrl: url, token, fetch, headers: { 'x-forwarded-for': ip } }),
    mails,
    post,
    allMails: async () => {
      await deliveries.settled()
      return mails
    },
    logged: () => lines.join(''),
    close: async () => {
      stopping.abort()
      await door.app.close()
      await deliveries.close()
      await credentials.close()
      await db.close()
      await rm(folder, { recursive: true })
    },
  }
}

/** A door whose setup is done, with the administrator's session. */
export async function openSetUpDoor(
  options: DoorOptions = {},
): Promise<AccountsDoor & { admin: Client; adminId: string }> {
  const door = await openAccountsDoor(options)
  const made = await door.client().call(completeSetup, {
    body: { setupToken: SETUP_TOKEN, email: 'root@example.org', username: 'root', password: PASSWORD },
  })
  return { ...door, admin: door.client(made.token), adminId: made.id }
}

/** A user with a role of exactly these permissions; answers a client with his session. */
export async function person(
  door: AccountsDoor & { admin: Client },
  username: string,
  permissions: readonly string[],
): Promise<Client & { id: string; roleId: string; token: string }> {
  const roleId = newId('role', door.clock)
  await door.db.write(async (tx) => {
    const stamps = { createdAt: tx.now, updatedAt: tx.now }
    const row = {
      id: roleId,
      name: username,
      description: null,
      permissions: JSON.stringify(permissions),
      protected: 0 as const,
    }
    await tx.q
      .insertInto('role')
      .values({ ...row, ...stamps })
      .execute()
  })
  const email = `${username}@example.org`
  const user = await door.admin.call(createUser, { body: { email, username, password: PASSWORD, roleIds: [roleId] } })
  const { token } = await door.client().call(login, { body: { email, password: PASSWORD } })
  return { ...door.client(token), id: user.id, roleId, token }
}

/** Changes a role as its future endpoint will. */
export async function setRole(door: AccountsDoor, roleId: string, permissions: readonly string[]): Promise<void> {
  await door.db.write(async (tx) => {
    await tx.q
      .updateTable('role')
      .set({ permissions: JSON.stringify(permissions) })
      .where('id', '=', roleId)
      .execute()
    tx.onCommit(() => door.credentials.changed())
  })
}

/** A key of the caller. */
export async function keyOf(door: AccountsDoor, owner: Client, permissions: readonly string[] | 'all') {
  const rights = permissions === 'all' ? { allPermissions: true } : { permissions: [...permissions] }
  const made = await owner.call(createApiKey, { body: { name: 'a key', ...rights } })
  return { ...door.client(made.key), id: made.id, token: made.key }
}

/** A server of this owner, with the rows that it hangs on. */
export async function serverOf(door: AccountsDoor, ownerId: string): Promise<string> {
  const at = now(door.clock)
  const stamps = { createdAt: at, updatedAt: at }
  const locationId = newId('loc', door.clock)
  const nodeId = newId('node', door.clock)
  const templateId = newId('tpl', door.clock)
  const id = newId('srv', door.clock)
  const allocationId = newId('alc', door.clock)
  await door.db.write(async ({ q }) => {
    await q
      .insertInto('location')
      .values({ id: locationId, name: locationId, description: null, ...stamps })
      .execute()
    const place = { locationId, hostname: 'h', publicAddress: '127.0.0.1', defaultIp: '127.0.0.1' }
    const capacity = { maxMemoryMb: 1024, maxCpuCores: 1, memoryOverallocatePercent: 0, cpuOverallocatePercent: 0 }
    const agent = { lastSeenAt: null, agentVersion: null, os: null, arch: null, runtimes: '[]', addresses: '[]' }
    const journal = {
      journalId: null,
      eventAck: 0,
      machineId: null,
      machineBootId: null,
      maintenance: 0 as const,
      isOnline: 0 as const,
    }
    const node = { id: nodeId, name: nodeId, description: null, ...place, ...capacity, ...agent, ...journal, ...stamps }
    await q.insertInto('node').values(node).execute()
    await q
      .insertInto('template')
      .values({ id: templateId, name: templateId, nestId: null, definition: '{}', ...stamps })
      .execute()
    const wish = { desired: 'stopped', generation: 0, restartPolicy: 'never', maxCrashCount: 3 } as const
    const size = { memoryMb: 64, cpuCores: 1, diskMb: 64, swapMb: 0, runtime: 'process', environment: '{}' } as const
    const life = {
      power: 'offline',
      installed: 1,
      failed: 0,
      crashed: 0,
      crashCount: 0,
      observedGeneration: 0,
    } as const
    const refs = { templateId, nodeId, locationId, ownerId, allocationId }
    await q
      .insertInto('server')
      .values({ id, uuid: id, name: 's', ...refs, ...size, ...wish, ...life, ...noSuch, ...stamps })
      .execute()
    const address = { nodeId, serverId: id, ip: '127.0.0.1', port: 25_565, alias: null, notes: null }
    await q
      .insertInto('allocation')
      .values({ id: allocationId, ...address, ...stamps })
      .execute()
  })
  return id
}

/** The code that the call is refused with. */
export async function refusal(
  call: Promise<unknown>,
): Promise<{ code: ErrorCode; meta: Readonly<Record<string, unknown>> }> {
  try {
    await call
  } catch (error) {
    if (error instanceof PanelError) return { code: error.code, meta: error.meta }
    throw error
  }
  throw new Error('the call was not refused')
}

/** Waits until the condition holds. */
export async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = performance.now() + 20_000
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`it did not come to pass: ${what}`)
    await systemClock.sleep(25)
  }
}

const noSuch = {
  description: null,
  startupCommand: null,
  suspendedAt: null,
  suspensionReason: null,
  archivedAt: null,
  deletingAt: null,
  lastKnownPower: null,
  activity: null,
  reason: null,
  observedAt: null,
  startedAt: null,
  pid: null,
  lastExitCode: null,
  lastExitSignal: null,
  lastCrashAt: null,
  nextRestartAt: null,
} as const

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
