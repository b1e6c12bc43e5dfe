import type { Db } from '../../src/daemon/db/db.ts'
import type { LiveCredentials } from '../../src/daemon/features/accounts/auth/credentials.ts'
import type { AccountDeps } from '../../src/daemon/features/accounts/auth/deps.ts'
import { authRoutes } from '../../src/daemon/features/accounts/auth/routes.ts'
import { roleRoutes } from '../../src/daemon/features/accounts/users/role-routes.ts'
import { userRoutes } from '../../src/daemon/features/accounts/users/routes.ts'
import { auditLogRoutes } from '../../src/daemon/features/operations/audit-log/routes.ts'
import type { ServerRow } from '../../src/daemon/features/servers/servers/rows.ts'
import { TemplateViews } from '../../src/daemon/features/servers/servers/template-views.ts'
import { accessRoutes } from '../../src/daemon/features/servers/sharing/routes.ts'
import type { Mail, Mailer } from '../../src/daemon/features/signals/mail/mailer.ts'
import type { HttpServer } from '../../src/daemon/http/server.ts'
import { createApiKey } from '../../src/shared/api/api-keys.ts'
import { completeSetup, login } from '../../src/shared/api/auth.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { type Client, createClient } from '../../src/shared/client.ts'
import type { ErrorCode } from '../../src/shared/kernel/errors.ts'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import { newId } from '../../src/shared/kernel/ids.ts'
import { now } from '../../src/shared/kernel/time.ts'
import { betweenLooks } from '../looks.ts'
import { type MovableClock, SETUP_TOKEN, startRoutes } from './routes-panel.ts'

export const PASSWORD = 'Correct-horse-1'
export const HOUR = 3_600_000
export const DAY = 24 * HOUR

/** The daemon's HTTP server with the routes of accounts on a database of its own, all real. */
export interface AccountsPanel {
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

/** Adds routes of other slices to the server. */
type MoreRoutes = (http: HttpServer, deps: AccountDeps) => void

/** `credentialKey` null is a daemon without a key for secrets at rest. */
interface AccountsPanelOptions {
  readonly more?: MoreRoutes
  readonly credentialKey?: null
}

export async function openAccountsPanel(options: AccountsPanelOptions = {}): Promise<AccountsPanel> {
  const mails: Mail[] = []
  const post = { configured: false, works: true }
  const mailer: Mailer = {
    isConfigured: () => post.configured,
    send: async (mail) => {
      if (!post.works) throw new Error('the mail server is away')
      mails.push(mail)
    },
  }
  const isOnline = (): boolean => false
  const facts = {
    isOnline,
    usage: () => undefined,
    templates: new TemplateViews(),
    observed: (row: ServerRow) => row,
    isStored: () => true,
  }
  const { url, file, parts, logged, close } = await startRoutes({
    mailer,
    credentialKey: options.credentialKey === null ? undefined : 'ab'.repeat(32),
    publicUrl: 'https://panel.example.org',
    behindProxy: true,
    routes: (deps) => {
      options.more?.(deps.http, deps)
      return [
        ...authRoutes({ ...deps, usedNow: (keyId) => deps.http.limits.usedNow(keyId) }),
        ...userRoutes(deps),
        ...roleRoutes(deps),
        ...accessRoutes({ ...deps, isOnline, facts }),
        ...auditLogRoutes(deps),
      ]
    },
  })
  const { db, clock, credentials, deliveries } = parts
  return {
    url,
    db,
    file,
    clock,
    credentials,
    deps: parts,
    client: (token, ip = '192.0.2.1') =>
      createClient({ baseUrl: url, token, fetch, headers: { 'x-forwarded-for': ip } }),
    mails,
    post,
    allMails: async () => {
      await deliveries.settled()
      return mails
    },
    logged,
    close,
  }
}

/** One whose setup is done, with the administrator's session. */
export async function openSetUpPanel(
  options: AccountsPanelOptions = {},
): Promise<AccountsPanel & { admin: Client; adminId: string }> {
  const panel = await openAccountsPanel(options)
  const made = await panel.client().call(completeSetup, {
    body: { setupToken: SETUP_TOKEN, email: 'root@example.org', username: 'root', password: PASSWORD },
  })
  return { ...panel, admin: panel.client(made.token), adminId: made.id }
}

/** A user with a role of exactly these permissions; answers a client with his session. */
export async function person(
  panel: AccountsPanel & { admin: Client },
  username: string,
  permissions: readonly string[],
): Promise<Client & { id: string; roleId: string; token: string }> {
  const roleId = newId('role', panel.clock)
  await panel.db.write(async (tx) => {
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
  const user = await panel.admin.call(createUser, { body: { email, username, password: PASSWORD, roleIds: [roleId] } })
  const { token } = await panel.client().call(login, { body: { email, password: PASSWORD } })
  return { ...panel.client(token), id: user.id, roleId, token }
}

/** Changes a role as its future endpoint will. */
export async function setRole(panel: AccountsPanel, roleId: string, permissions: readonly string[]): Promise<void> {
  await panel.db.write(async (tx) => {
    await tx.q
      .updateTable('role')
      .set({ permissions: JSON.stringify(permissions) })
      .where('id', '=', roleId)
      .execute()
    tx.onCommit(() => panel.credentials.changed())
  })
}

/** A key of the caller. */
export async function keyOf(panel: AccountsPanel, owner: Client, permissions: readonly string[] | 'all') {
  const rights = permissions === 'all' ? { allPermissions: true } : { permissions: [...permissions] }
  const made = await owner.call(createApiKey, { body: { name: 'a key', ...rights } })
  return { ...panel.client(made.key), id: made.id, token: made.key }
}

/** A server of this owner, with the rows that it hangs on. */
export async function serverOf(panel: AccountsPanel, ownerId: string): Promise<string> {
  const at = now(panel.clock)
  const stamps = { createdAt: at, updatedAt: at }
  const locationId = newId('loc', panel.clock)
  const nodeId = newId('node', panel.clock)
  const templateId = newId('tpl', panel.clock)
  const id = newId('srv', panel.clock)
  const allocationId = newId('alc', panel.clock)
  await panel.db.write(async ({ q }) => {
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
    const request = { desired: 'stopped', generation: 0, restartPolicy: 'never', maxCrashCount: 3 } as const
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
      .values({ id, uuid: id, name: 's', ...refs, ...size, ...request, ...life, ...noSuch, ...stamps })
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
  const start = performance.now()
  while (!(await condition())) {
    if (performance.now() > start + 20_000) throw new Error(`it did not come to pass: ${what}`)
    await betweenLooks(start)
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
