import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endpoints, streams } from '../../src/shared/endpoints.ts'
import { isDeclared } from '../../src/shared/kernel/contract.ts'
import type { ErrorCode } from '../../src/shared/kernel/errors.ts'
import { ERRORS } from '../../src/shared/kernel/errors.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { eachCase, LOOP } from './each-case.ts'
import { exampleBody } from './example.ts'
import { callEndpoint, isObject, type Parts, type Reply, refusalOf } from './http-call.ts'
import { PICTURE, validOf } from './inputs.ts'
import { buildWorld, PASSWORD, paramsOf, unknownParams, type World } from './world.ts'

// Agents have endpoints of their own, and their errors another cause: test/daemon/servers/transfers.test.ts.
const all = [...endpoints, ...streams].filter(({ access }) => access !== 'agent')

/** The code for a path parameter that names nothing. */
const MISSING: Readonly<Record<string, ErrorCode>> = {
  alertId: 'ALERT_NOT_FOUND',
  assignmentId: 'ASSIGNMENT_NOT_FOUND',
  deliveryId: 'WEBHOOK_DELIVERY_NOT_FOUND',
  backupId: 'BACKUP_NOT_FOUND',
  inviteId: 'INVITE_NOT_FOUND',
  permission: 'NOT_FOUND',
  passkeyId: 'NOT_FOUND',
  providerId: 'PROVIDER_NOT_FOUND',
  roleId: 'ROLE_NOT_FOUND',
  ruleId: 'ALERT_RULE_NOT_FOUND',
  targetId: 'ASSIGNMENT_NOT_FOUND',
  targetUserId: 'ACCESS_NOT_FOUND',
  token: 'INVITE_NOT_FOUND',
  tokenUserId: 'SFTP_TOKEN_NOT_FOUND',
  allocationId: 'ALLOCATION_NOT_FOUND',
  containerPort: 'ALLOCATION_NOT_FOUND',
  catalogName: 'TEMPLATE_NOT_FOUND',
  databaseId: 'DATABASE_NOT_FOUND',
  hostId: 'ADMIN_DATABASE_HOST_NOT_FOUND',
  errorId: 'ADMIN_SYSTEM_ERROR_NOT_FOUND',
  keyId: 'API_KEY_NOT_FOUND',
  locationId: 'LOCATION_NOT_FOUND',
  jobId: 'JOB_NOT_FOUND',
  stepId: 'JOB_STEP_NOT_FOUND',
  lockoutId: 'ADMIN_LOCKOUT_NOT_FOUND',
  name: 'PLUGIN_NOT_FOUND',
  nestId: 'NEST_NOT_FOUND',
  nodeId: 'NODE_NOT_FOUND',
  poolId: 'ADMIN_IP_POOL_NOT_FOUND',
  serverId: 'SERVER_NOT_FOUND',
  sessionId: 'NOT_FOUND',
  taskRunId: 'TASK_RUN_NOT_FOUND',
  taskId: 'TASK_NOT_FOUND',
  sftpSessionId: 'SFTP_SESSION_NOT_FOUND',
  sshKeyId: 'SSH_KEY_NOT_FOUND',
  templateId: 'TEMPLATE_NOT_FOUND',
  userId: 'USER_NOT_FOUND',
  policyId: 'BACKUP_POLICY_NOT_FOUND',
  runId: 'BACKUP_POLICY_RUN_NOT_FOUND',
  selfBackupId: 'SELF_BACKUP_NOT_FOUND',
  storeId: 'BACKUP_STORE_NOT_FOUND',
  webhookId: 'WEBHOOK_NOT_FOUND',
}

/** The same of migrations, whose jobs and steps are not those of the engine. */
const OF_MIGRATION: Readonly<Record<string, ErrorCode>> = {
  jobId: 'MIGRATION_NOT_FOUND',
  stepId: 'MIGRATION_STEP_NOT_FOUND',
}

/** Declared codes whose causes are made in other files, and where. */
const ELSEWHERE: Partial<Readonly<Record<ErrorCode, string>>> = {
  ADMIN_DATABASE_HOST_IN_USE: 'test/daemon/databases/hosts.test.ts',
  ADMIN_DATABASE_HOST_NAME_TAKEN: 'test/daemon/databases/hosts.test.ts',
  BACKUP_DISABLED: 'test/daemon/backups/backups.test.ts',
  BACKUP_LOCKED: 'test/daemon/backups/backups.test.ts',
  BACKUP_NOT_READY: 'test/daemon/backups/backups.test.ts',
  BACKUP_QUOTA_EXCEEDED: 'test/daemon/backups/backups.test.ts',
  BACKUP_STORE_FAILED: 'test/daemon/stores/object-store.test.ts',
  BACKUP_STORE_IN_USE: 'test/daemon/stores/stores.test.ts',
  BACKUP_STORE_NAME_TAKEN: 'test/daemon/stores/stores.test.ts',
  DATABASE_DISABLED: 'test/daemon/databases/hosts.test.ts',
  DATABASE_LIMIT_REACHED: 'test/daemon/databases/hosts.test.ts',
  DATABASE_NOT_MANAGED: 'test/daemon/databases/mariadb.test.ts',
  DATABASE_PROVISION_FAILED: 'test/daemon/databases/hosts.test.ts',
  JOB_ENDED: 'test/daemon/jobs/jobs.test.ts',
  JOB_NOT_CONTROLLABLE: 'test/daemon/jobs/jobs.test.ts',
  JOB_STEP_NOT_FAILED: 'test/daemon/jobs/jobs.test.ts',
  JOB_STEP_NOT_RETRYABLE: 'test/daemon/jobs/jobs.test.ts',
  VALIDATION_ERROR: 'test/daemon/migration/migration.test.ts',
  MIGRATION_IN_PROGRESS: 'test/daemon/migration/migration.test.ts',
  MIGRATION_INVALID_STATE: 'test/daemon/migration/migration.test.ts',
  MIGRATION_STEP_NOT_FOUND: 'test/daemon/migration/migration.test.ts',
  MIGRATION_STEP_NOT_RETRYABLE: 'test/daemon/migration/migration.test.ts',
  MIGRATION_TARGET_NODES_NOT_FOUND: 'test/daemon/migration/migration.test.ts',
  MIGRATION_TARGET_NODES_OFFLINE: 'test/daemon/migration/migration.test.ts',
  NODE_IN_MAINTENANCE: 'test/daemon/nodes.test.ts',
  ADMIN_IP_POOL_IN_USE: 'test/daemon/ip-pools.test.ts',
  SERVER_ALREADY_SUSPENDED: 'test/daemon/servers/suspend.test.ts',
  CREDENTIAL_ENCRYPTION_KEY_MISSING: 'test/daemon/settings/settings.test.ts',
  ACCESS_EXISTS: 'test/daemon/access.test.ts',
  ASSIGNMENT_EXISTS: 'test/daemon/access.test.ts',
  INVITE_EXPIRED: 'test/daemon/access.test.ts',
  INVITE_INACTIVE: 'test/daemon/access.test.ts',
  INVITE_WRONG_ACCOUNT: 'test/daemon/access.test.ts',
  LAST_ADMIN: 'test/daemon/user-edits.test.ts',
  ROLE_IN_USE: 'test/daemon/roles.test.ts',
  USER_OWNS_SERVERS: 'test/daemon/user-edits.test.ts',
  ACCOUNT_BANNED: 'test/daemon/auth.test.ts',
  ACCOUNT_LOCKED: 'test/contract/idempotency.test.ts',
  AGENT_ERROR: 'test/daemon/core/agent-errors.test.ts',
  AGENT_KEY_EXISTS: 'test/daemon/enroll.test.ts',
  AGENT_TIMEOUT: 'test/daemon/console-commands.test.ts',
  ETAG_MISMATCH: 'test/daemon/servers/files.test.ts',
  FILE_ARCHIVE_UNSUPPORTED: 'test/security/archive-jail.test.ts',
  FILE_NOT_FOUND: 'test/daemon/servers/files.test.ts',
  FILE_PATH_INVALID: 'test/daemon/servers/files.test.ts',
  INSUFFICIENT_SPACE: 'test/daemon/servers/files.test.ts',
  RANGE_NOT_SATISFIABLE: 'test/daemon/servers/files.test.ts',
  AGENT_VERSION: 'test/protocol/definitions.test.ts',
  ALLOCATION_EXISTS: 'test/daemon/servers/ports.test.ts',
  ALLOCATION_IN_USE: 'test/daemon/allocations.test.ts',
  AUTH_EXPIRED: 'test/daemon/api-keys.test.ts',
  CONFLICT: 'test/daemon/auth.test.ts',
  CONSOLE_NO_INPUT: 'test/daemon/console-kinds.test.ts',
  CONSOLE_UNAVAILABLE: 'test/daemon/console-kinds.test.ts',
  EMAIL_NOT_VERIFIED: 'test/daemon/recovery.test.ts',
  FEATURE_DISABLED: 'test/daemon/recovery.test.ts',
  LAST_SIGN_IN_METHOD: 'test/daemon/passkeys.test.ts',
  PAYLOAD_TOO_LARGE: 'test/daemon/own-account.test.ts',
  PERMISSION_DENIED: 'test/contract/access.test.ts',
  PROVIDER_DISABLED: 'test/daemon/sso/forgeries.test.ts',
  PROVIDER_FAILED: 'test/daemon/sso/forgeries.test.ts',
  PLUGIN_CONFIG_INVALID: 'test/daemon/plugins/config.test.ts',
  PLUGIN_ERROR: 'test/daemon/plugins/bad-plugin.ts',
  RATE_LIMITED: 'test/daemon/console-commands.test.ts',
  TEMPLATE_EDITED: 'test/daemon/templates/catalog.test.ts',
  SELF_BACKUP_NOT_READY: 'test/daemon/self-backups/self-backups.test.ts',
  SERVER_MUST_BE_STOPPED: 'test/daemon/servers/edit.test.ts',
  SERVER_NAME_TAKEN: 'test/daemon/servers/names.test.ts',
  SERVER_SUSPENDED: 'test/daemon/servers/power.test.ts',
  TASK_ALREADY_RUNNING: 'test/daemon/schedules/runs.test.ts',
  TASK_LIMIT_REACHED: 'test/daemon/schedules/schedules.test.ts',
  TASK_NOT_RUNNING: 'test/daemon/schedules/runs.test.ts',
  SSH_KEY_EXISTS: 'test/daemon/servers/sftp.test.ts',
  SSH_KEY_LIMIT_REACHED: 'test/daemon/servers/sftp.test.ts',
  SETUP_REQUIRED: 'test/daemon/setup.test.ts',
  SETUP_TOKEN_INVALID: 'test/daemon/setup.test.ts',
  TOKEN_INVALID: 'test/daemon/recovery.test.ts',
  TWO_FACTOR_INVALID: 'test/daemon/two-factor.test.ts',
  TWO_FACTOR_REQUIRED: 'test/daemon/two-factor.test.ts',
  UNAUTHENTICATED: 'test/daemon/two-factor.test.ts',
  STREAM_LIMIT_REACHED: 'test/daemon/core/streams.test.ts',
}

/** A request that ends in one declared code. */
interface Cause {
  readonly id: string
  readonly code: ErrorCode
  readonly parts: (world: World) => Parts
}

const nothing = 'nobody_has_this'
const body =
  (id: string, change: Readonly<Record<string, unknown>>) =>
  (world: World): Parts => {
    const made = validOf(world, id)
    const valid = made instanceof Promise || !isObject(made?.body) ? {} : made.body
    return { body: { ...valid, ...change } }
  }
const on =
  (name: string, extra: Parts = {}) =>
  ({ ids }: World): Parts => ({ params: { [name]: ids[name] ?? '' }, ...extra })

const CAUSES: readonly Cause[] = [
  { id: 'alert_rules.create', code: 'NODE_NOT_FOUND', parts: body('alert_rules.create', { targetId: nothing }) },
  { id: 'locations.create', code: 'LOCATION_NAME_TAKEN', parts: body('locations.create', { name: 'Bonn' }) },
  { id: 'locations.delete', code: 'LOCATION_IN_USE', parts: on('locationId') },
  { id: 'nests.create', code: 'NEST_NAME_TAKEN', parts: body('nests.create', { name: 'Games' }) },
  { id: 'nodes.create', code: 'NODE_NAME_TAKEN', parts: body('nodes.create', { name: 'spare' }) },
  { id: 'nodes.create', code: 'LOCATION_NOT_FOUND', parts: body('nodes.create', { locationId: nothing }) },
  { id: 'nodes.delete', code: 'NODE_IN_USE', parts: on('nodeId') },
  { id: 'nodes.key_delete', code: 'API_KEY_NOT_FOUND', parts: on('nodeId') },
  { id: 'templates.create', code: 'TEMPLATE_NAME_TAKEN', parts: body('templates.create', { name: 'Echo' }) },
  { id: 'templates.create', code: 'NEST_NOT_FOUND', parts: body('templates.create', { nestId: nothing }) },
  { id: 'templates.import_egg', code: 'TEMPLATE_NAME_TAKEN', parts: body('templates.import_egg', { name: 'Echo' }) },
  { id: 'templates.import_egg', code: 'NEST_NOT_FOUND', parts: body('templates.import_egg', { nestId: nothing }) },
  { id: 'templates.delete', code: 'TEMPLATE_IN_USE', parts: on('templateId') },
  { id: 'roles.create', code: 'ROLE_NAME_TAKEN', parts: body('roles.create', { name: 'watchers' }) },
  {
    id: 'users.two_factor_disable',
    code: 'USER_SELF_ACTION',
    parts: ({ adminId }) => ({ params: { userId: adminId } }),
  },
  {
    id: 'users.ban',
    code: 'USER_SELF_ACTION',
    parts: ({ adminId }) => ({ params: { userId: adminId }, body: {} }),
  },
  {
    id: 'access.set',
    code: 'OWNER_IMMUTABLE',
    parts: ({ ids, adminId }) => ({
      params: { serverId: ids['serverId'] ?? '' },
      body: { targetUserId: adminId, permissions: ['server.read'] },
    }),
  },
  {
    id: 'roles.update',
    code: 'ROLE_PROTECTED',
    parts: ({ administratorId }) => ({ params: { roleId: administratorId }, body: { name: 'other' } }),
  },
  { id: 'users.create', code: 'USER_EXISTS', parts: body('users.create', { email: 'powerless@example.org' }) },
  { id: 'users.create', code: 'ROLE_NOT_FOUND', parts: body('users.create', { roleIds: [nothing] }) },
  { id: 'servers.create', code: 'TEMPLATE_NOT_FOUND', parts: body('servers.create', { templateId: nothing }) },
  { id: 'servers.create', code: 'NODE_NOT_FOUND', parts: body('servers.create', { nodeId: nothing }) },
  { id: 'servers.create', code: 'LOCATION_NOT_FOUND', parts: body('servers.create', { locationId: nothing }) },
  { id: 'servers.create', code: 'USER_NOT_FOUND', parts: body('servers.create', { ownerId: nothing }) },
  { id: 'servers.create', code: 'PORT_IN_USE', parts: body('servers.create', { primaryPort: 40_100 }) },
  {
    id: 'servers.create',
    code: 'INSUFFICIENT_RESOURCES',
    parts: body('servers.create', { allocatedMemoryMb: 1_000_000 }),
  },
  {
    id: 'servers.create',
    code: 'ALLOCATION_NOT_FOUND',
    parts: body('servers.create', { primaryPort: undefined, allocationId: nothing }),
  },
  {
    id: 'ip_pools.create',
    code: 'ADMIN_IP_POOL_OVERLAP',
    parts: ({ ids }) => ({ body: { nodeId: ids['nodeId'], networkName: 'other', cidr: '10.0.0.128/25' } }),
  },
  {
    id: 'ip_pools.create',
    code: 'NODE_NOT_FOUND',
    parts: () => ({ body: { nodeId: nothing, networkName: 'lan', cidr: '10.0.0.0/24' } }),
  },
  { id: 'servers.create', code: 'ADMIN_IP_POOL_NOT_FOUND', parts: body('servers.create', { networkMode: 'wan' }) },
  { id: 'servers.unsuspend', code: 'SERVER_NOT_SUSPENDED', parts: on('serverId') },
  {
    id: 'servers.bulk_actions',
    code: 'NOT_FOUND',
    parts: () => ({ body: { serverIds: [nothing], action: 'start' } }),
  },
  { id: 'servers.eula', code: 'EULA_NOT_PENDING', parts: on('serverId', { body: { accepted: true } }) },
  { id: 'servers.stop', code: 'SERVER_INVALID_STATE', parts: on('serverId') },
  { id: 'servers.power', code: 'NODE_OFFLINE', parts: on('serverId', { body: { action: 'start' } }) },
  { id: 'console.command', code: 'SERVER_INVALID_STATE', parts: on('serverId', { body: { command: 'x' } }) },
  {
    id: 'auth.login',
    code: 'INVALID_CREDENTIALS',
    parts: () => ({ body: { email: 'nobody@example.org', password: PASSWORD } }),
  },
  // The test's own panel has this limit raised by its environment.
  { id: 'settings.security_update', code: 'SETTING_LOCKED', parts: () => ({ body: { requestRateLimitMax: 1000 } }) },
  { id: 'agent.enroll', code: 'DEPLOYMENT_TOKEN_INVALID', parts: () => ({ body: { deploymentToken: 'none' } }) },
  {
    id: 'setup.complete',
    code: 'SETUP_ALREADY_COMPLETE',
    parts: () => ({ body: { email: 'x@example.org', username: 'xxx', password: PASSWORD } }),
  },
]

let panel: TestPanel
let world: World
beforeAll(async () => {
  panel = await startPanel()
  world = await buildWorld(panel)
})
afterAll(() => panel.close())

const call = (id: string, parts: Parts): Promise<Reply> => {
  const endpoint = all.find((one) => one.id === id)
  if (endpoint === undefined) throw new Error(`there is no ${id}`)
  return callEndpoint(panel.url, endpoint, parts, { token: panel.adminToken })
}

describe('a refusal', () => {
  // A browser that comes back is known by its state; where it comes back to is looked at after that.
  const named = all.filter(({ id, params }) => Object.keys(params).length > 0 && id !== 'sso.callback')

  // The database of a server is kept by one request at a time, even while it looks whether there is one.
  const inTurn = named.filter(({ params }) => 'databaseId' in params)
  const atOnce = named.filter((one) => !inTurn.includes(one))

  it('names what is not there', LOOP, async () => {
    await eachCase(atOnce, namesMissing)
    await eachCase(inTurn, namesMissing, 1)
  })

  async function namesMissing(one: (typeof all)[number]): Promise<void> {
    // A word of a path that is a choice of two is refused as such.
    // What a node has without a record is only known by the node, and this one has no agent.
    const unseen = one.id.startsWith('nodes.orphan_') ? 'serverId' : 'targetType'
    for (const name of Object.keys(one.params).filter((key) => key !== 'targetType' && key !== unseen)) {
      const ofMigration = one.id.startsWith('migration.') ? OF_MIGRATION[name] : undefined
      const code = ofMigration ?? MISSING[name] ?? 'NOT_FOUND'
      expect(one.errors, `${one.id} declares ${code}`).toContain(code)
      const params = { ...paramsOf(world, one), [name]: unknownParams(one)[name] ?? '' }
      const reply = await call(one.id, { params, ...bodyFor(one.id) })
      expect(refusalOf(reply), reply.text).toEqual({ status: 404, code })
    }
  }

  it('is by its cause', LOOP, () =>
    eachCase(CAUSES, async ({ id, code, parts }) => {
      expect(all.find((one) => one.id === id)?.errors).toContain(code)
      const reply = await call(id, parts(world))
      expect(refusalOf(reply), reply.text).toEqual({ status: ERRORS[code].status, code })
    }),
  )
})

describe('the declared codes', () => {
  it('are each reached here or in the file that is named for them', async () => {
    const here = new Set<string>([
      ...CAUSES.map(({ code }) => code),
      ...Object.values(MISSING),
      ...Object.values(OF_MIGRATION),
    ])
    const declared = [...new Set(all.flatMap(({ errors }) => [...errors]))].sort()
    const missing: string[] = []
    for (const code of declared) {
      const file = ELSEWHERE[code]
      if (here.has(code)) continue
      if (file === undefined) missing.push(code)
      else
        expect(await readFile(new URL(`../../${file}`, import.meta.url), 'utf8'), `${code} in ${file}`).toContain(code)
    }
    expect(missing).toEqual([])
  })
})

/** A valid body, for endpoints that look at theirs before the path's resource. */
function bodyFor(id: string): Parts {
  if (id === 'sftp.revoke_user') return { query: { serverId: world.ids['serverId'] ?? '' } }
  if (id === 'backups.file') return { query: { path: 'a' } }
  if (id === 'tasks.preview') return { query: { schedule: '@daily' } }
  if (id === 'files.pull') return { body: { url: 'https://example.org/x' } }
  const endpoint = endpoints.find((one) => one.id === id)
  if (
    endpoint !== undefined &&
    id.startsWith('files.') &&
    !(endpoint.accepts === 'json' && isDeclared(endpoint.body))
  ) {
    return {
      query: { path: 'a' },
      ...(id === 'files.write' ? { body: 'x' } : {}),
      ...(id === 'files.upload' ? { file: PICTURE } : {}),
    }
  }
  const made = endpoint === undefined ? undefined : exampleBody(endpoint, { unique: 'x', ids: {} })
  return made === undefined ? {} : { body: made }
}
