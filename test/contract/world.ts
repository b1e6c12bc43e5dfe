import { createServerInvite, setServerAccess } from '../../src/shared/api/access.ts'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { createAlertRule, testAlertRule } from '../../src/shared/api/alert-rules.ts'
import { createAllocations, listAllocations } from '../../src/shared/api/allocations.ts'
import { createApiKey, listRoles } from '../../src/shared/api/api-keys.ts'
import { assignNode } from '../../src/shared/api/assignments.ts'
import { getMe, listSessions, login } from '../../src/shared/api/auth.ts'
import { createBackupPolicy, runBackupPolicy } from '../../src/shared/api/backup-policies.ts'
import { createBackupStore } from '../../src/shared/api/backup-stores.ts'
import { createDatabaseHost } from '../../src/shared/api/database-hosts.ts'
import { createServerDatabase } from '../../src/shared/api/databases.ts'
import { createIpPool } from '../../src/shared/api/ip-pools.ts'
import { createLocation } from '../../src/shared/api/locations.ts'
import { listLockouts } from '../../src/shared/api/lockouts.ts'
import { MigrationOptions } from '../../src/shared/api/migration.ts'
import { createNest } from '../../src/shared/api/nests.ts'
import { createNode } from '../../src/shared/api/nodes.ts'
import { beginPasskey, verifyPasskey } from '../../src/shared/api/passkeys.ts'
import { putProvider } from '../../src/shared/api/providers.ts'
import { createRole } from '../../src/shared/api/roles.ts'
import { createTask } from '../../src/shared/api/schedules.ts'
import { createSelfBackup, getSelfBackup } from '../../src/shared/api/self-backups.ts'
import { addServerAllocation } from '../../src/shared/api/server-allocations.ts'
import { createServer, getServer, type Server } from '../../src/shared/api/servers.ts'
import { listSystemErrors, reportSystemError } from '../../src/shared/api/system-errors.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { createWebhook, testWebhook } from '../../src/shared/api/webhooks.ts'
import type { Client } from '../../src/shared/client.ts'
import type { Endpoint, StreamEndpoint } from '../../src/shared/kernel/contract.ts'
import { newId, ProviderId } from '../../src/shared/kernel/ids.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { createPasskey, type SoftPasskey } from '../authenticator.ts'
import { installExample } from '../daemon/plugins/plugin-stage.ts'
import type { TestPanel } from '../panel.ts'
import { startPostgresPeer } from '../postgres-peer.ts'
import { keptBackup } from './backup-inputs.ts'
import { waitingJob } from './job-inputs.ts'
import { addKey, openSession } from './sftp-session.ts'

export const PASSWORD = 'Correct-horse-1'

/** A game that echoes its console, and ends on `stop`. */
const ECHO = 'echo ready; while read -r line; do echo "got $line"; [ "$line" = stop ] && exit 0; done'

/** One row of each kind, so that every path of the API can be filled in. */
export interface World {
  readonly panel: TestPanel
  readonly admin: Client
  /** The ids by the names of path parameters. */
  readonly ids: Readonly<Record<string, string>>
  /** A session of somebody who holds no permission and owns nothing. */
  readonly powerless: string
  readonly powerlessId: string
  /** The administrator, and the role that makes him one. */
  readonly adminId: string
  readonly administratorId: string
  /** A number that no earlier call got: names and ports that are not taken. */
  next(): number
}

/** Builds it through the API. */
export async function buildWorld(panel: TestPanel): Promise<World> {
  const admin = panel.client
  let count = 0
  const next = (): number => ++count
  const location = await admin.call(createLocation, { body: { name: 'Bonn' } })
  const spare = await admin.call(createNode, {
    body: { name: 'spare', locationId: location.id, maxMemoryMb: 8192, maxCpuCores: 64 },
  })
  await admin.call(createAllocations, { params: { nodeId: spare.id }, body: { ip: '127.0.0.1', ports: '40000' } })
  const allocations = await admin.page(listAllocations, { params: { nodeId: spare.id } })
  const nest = await admin.call(createNest, { body: { name: 'Games' } })
  const template = await admin.call(createTemplate, {
    body: {
      name: 'Echo',
      startup: ECHO,
      stopCommand: 'stop',
      startupDetection: { done: [{ kind: 'contains', value: 'ready' }] },
      nestId: nest.id,
    },
  })
  const powerless = await signIn(panel, 'powerless')
  const [session] = (await panel.as(powerless.token).page(listSessions)).data
  const key = await admin.call(createApiKey, { body: { name: 'some key', permissions: ['server.read'] } })
  const server = await admin.call(createServer, {
    body: {
      name: 'first',
      templateId: template.id,
      nodeId: spare.id,
      locationId: location.id,
      primaryPort: 40_100,
      databaseAllocation: 1000,
      ...SIZE,
    },
  })
  await panel
    .as(undefined)
    .call(login, { body: { email: 'stranger@example.org', password: 'wrong' } })
    .catch(() => undefined) // it is refused
  await admin.call(addServerAllocation, { params: { serverId: server.id }, body: { containerPort: 40_101 } })
  const [lockout] = await admin.call(listLockouts, { query: { search: 'stranger' } })
  const role = await admin.call(createRole, { body: { name: 'Watchers', permissions: ['server.read'] } })
  const member = await admin.call(createUser, {
    body: { email: 'member@example.org', username: 'member', password: PASSWORD },
  })
  await admin.call(setServerAccess, {
    params: { serverId: server.id },
    body: { targetUserId: member.id, permissions: ['server.read'] },
  })
  const invite = await admin.call(createServerInvite, {
    params: { serverId: server.id },
    body: { email: 'guest@example.org', permissions: ['server.read'] },
  })
  const assignment = await admin.call(assignNode, {
    params: { nodeId: spare.id },
    body: { targetType: 'user', targetId: member.id },
  })
  const pool = await admin.call(createIpPool, {
    body: { nodeId: spare.id, networkName: 'lan', cidr: '10.0.0.0/24' },
  })
  const store = await admin.call(createBackupStore, { body: { kind: 'local', name: 'shelf', folder: 'shelf' } })
  const policy = await admin.call(createBackupPolicy, {
    body: { name: 'weekly', cron: '0 5 * * 0', enabled: false, target: 'node', nodeId: spare.id },
  })
  const policyRun = await admin.call(runBackupPolicy, { params: { policyId: policy.id } })
  const [auditRow] = await admin.call(listAuditLogs, { query: { limit: 1 } })
  const host = await admin.call(createDatabaseHost, { body: { name: 'elephant', ...(await databaseService()) } })
  const database = await admin.call(createServerDatabase, { params: { serverId: server.id }, body: {} })
  const errorId = await systemError({ admin, next })
  const schedule = await scheduleWithRun(panel, admin, server.id)
  const providerId = 'corp'
  await admin.call(putProvider, {
    params: { providerId: ProviderId.parse(providerId) },
    body: { clientId: 'panel', discoveryUrl: 'http://127.0.0.1:1' },
  })
  const rule = await admin.call(createAlertRule, { body: { name: 'away', type: 'node_offline', target: 'global' } })
  const alert = await admin.call(testAlertRule, { params: { ruleId: rule.id } })
  const webhook = await admin.call(createWebhook, { body: { name: 'hook', url: NOBODY_LISTENS, events: ['node.*'] } })
  const delivery = await admin.call(testWebhook, { params: { webhookId: webhook.id } })
  await installExample(panel.dataDir)
  const ids = {
    alertId: alert.id,
    catalogName: 'mumble',
    deliveryId: delivery.deliveryId,
    ruleId: rule.id,
    webhookId: webhook.id,
    assignmentId: assignment.id,
    inviteId: invite.id,
    permission: 'server.read',
    roleId: role.id,
    targetId: member.id,
    targetType: 'user',
    targetUserId: member.id,
    ticket: 'no-ticket',
    token: invite.token ?? '',
    tokenUserId: member.id,
    allocationId: allocations.data[0]?.id ?? '',
    containerPort: '40101',
    auditLogId: auditRow?.id ?? '',
    databaseId: database.id,
    errorId,
    hostId: host.id,
    keyId: key.id,
    locationId: location.id,
    backupId: await keptBackup({ panel, next }, server),
    jobId: await waitingJob({ panel, next }),
    stepId: 'step_nothing',
    ...(await endedMigration(panel)),
    lockoutId: lockout?.id ?? '',
    name: 'greeter',
    nestId: nest.id,
    passkeyId: (await addPasskey(panel, admin)).id,
    providerId,
    nodeId: spare.id,
    policyId: policy.id,
    poolId: pool.id,
    runId: policyRun.id,
    selfBackupId: await selfBackup(admin),
    serverId: server.id,
    storeId: store.id,
    sessionId: session?.id ?? '',
    ...schedule,
    sftpSessionId: await openSession(panel, { userId: powerless.id, serverId: server.id, nodeId: spare.id }),
    sshKeyId: await addKey(admin),
    templateId: template.id,
    userId: member.id,
  }
  const { id: adminId } = await admin.call(getMe)
  const roles = (await admin.page(listRoles, {})).data
  const administratorId = roles.find(({ name }) => name === 'Administrator')?.id ?? ''
  const powers = { powerless: powerless.token, powerlessId: powerless.id }
  return { panel, admin, adminId, administratorId, ids, ...powers, next }
}

/** A schedule of a server with one run in its history. */
async function scheduleWithRun(
  { app }: TestPanel,
  admin: Client,
  serverId: Server['id'],
): Promise<{ taskId: string; taskRunId: string }> {
  const body = { name: 'yearly', schedule: '@yearly', action: 'wait', payload: { seconds: 1 } } as const
  const { id: taskId } = await admin.call(createTask, { params: { serverId }, body })
  const taskRunId = newId('srn', systemClock)
  await app.core.db.write((tx) =>
    tx.q
      .insertInto('scheduleRun')
      .values({
        ...{ id: taskRunId, scheduleId: taskId, cause: 'schedule', status: 'skipped', reason: 'NODE_OFFLINE' },
        ...{ steps: '[]', dueAt: tx.now, endedAt: tx.now },
      })
      .execute(),
  )
  return { taskId, taskRunId }
}

/** A migration that has completed, with a step. */
async function endedMigration({ app }: TestPanel): Promise<Record<string, string>> {
  const [jobId, stepId] = [newId('mig', systemClock), newId('mgs', systemClock)]
  const config = {
    ...{ scope: 'full', nodeMappings: {}, serverMappings: {}, dryRun: false, phases: [], verifyOf: null },
    options: MigrationOptions.parse({}),
  }
  await app.core.db.write(async (tx) => {
    const none = { requested: null, sourceKind: null, sourceVersion: null, sourceFp: null, keys: null, keysUntil: null }
    const empty = { plan: null, planHash: null, report: null, currentPhase: null, error: null, errorCode: null }
    await tx.q
      .insertInto('migrationJob')
      .values({
        ...{ id: jobId, status: 'completed', outcome: 'clean', sourceUrl: NOBODY_LISTENS, createdBy: null },
        ...{ ...none, ...empty, config: JSON.stringify(config) },
        ...{ createdAt: tx.now, updatedAt: tx.now, startedAt: tx.now, completedAt: tx.now },
      })
      .execute()
    const step = { phase: 'users', action: 'import_user', name: 'somebody', status: 'completed', input: '{}' } as const
    const about = { jobId, id: stepId, seq: 1, sourceType: 'user', sourceId: '1', targetId: null, updatedAt: tx.now }
    await tx.q
      .insertInto('migrationStep')
      .values({ ...about, ...step })
      .execute()
  })
  return { 'migration jobId': jobId, 'migration stepId': stepId }
}

/** Requests to this port are refused at once. */
export const NOBODY_LISTENS = 'http://127.0.0.1:9/hook'

export const SIZE = { allocatedMemoryMb: 64, allocatedCpuCores: 0.1, allocatedDiskMb: 64 } as const

/** A fresh backup of the panel, completed. */
export async function selfBackup(admin: Client): Promise<string> {
  const { backup } = await admin.call(createSelfBackup, { body: {} })
  const params = { selfBackupId: backup.id }
  let seen = ''
  await until(
    async () => {
      seen = (await admin.call(getSelfBackup, { params })).status
      return seen === 'completed'
    },
    () => `the backup is completed, not ${seen}`,
  )
  return backup.id
}

/** A passkey of the client's account, as a page on `localhost` makes it. */
export async function addPasskey(panel: TestPanel, client: Client): Promise<{ id: string; key: SoftPasskey }> {
  const options = await client.call(beginPasskey)
  const key = createPasskey(panel.url.replace('127.0.0.1', 'localhost'))
  const { id } = await client.call(verifyPasskey, { body: { response: key.register(options) } })
  return { id, key }
}

/** Something that answers like a database host, and how to get in; the password is looked for by test/contract/secrets.test.ts. */
export async function databaseService() {
  const { port } = await startPostgresPeer()
  return { engine: 'postgresql', host: '127.0.0.1', port, username: 'panel', password: HOST_PASSWORD } as const
}

export const HOST_PASSWORD = 'Elephant-that-is-sealed-55'

/** A fresh account without roles, signed in. */
export async function signIn(panel: TestPanel, username: string): Promise<{ id: string; token: string }> {
  const email = `${username}@example.org`
  const { id } = await panel.client.call(createUser, { body: { email, username, password: PASSWORD } })
  const { token } = await panel.as(undefined).call(login, { body: { email, password: PASSWORD } })
  return { id, token }
}

/** A key of the administrator that holds exactly these. */
export async function keyWith(panel: TestPanel, permissions: readonly string[]): Promise<string> {
  const body = { name: 'exact', permissions: [...permissions], rateLimitEnabled: false }
  return (await panel.client.call(createApiKey, { body })).key
}

/** A fresh system error, open. */
export async function systemError({ admin, next }: Pick<World, 'admin' | 'next'>): Promise<string> {
  const component = `screen-${next()}`
  await admin.call(reportSystemError, { body: { component, message: 'it broke' } })
  let id: string | undefined
  await until(
    async () => {
      const rows = await admin.call(listSystemErrors, { query: { component } })
      id = rows.find((row) => row.component === `client/${component}`)?.id
      return id !== undefined
    },
    () => 'the system error is written down',
  )
  return id ?? ''
}

/** The path parameters of an endpoint, filled from the world. */
export function paramsOf(world: World, endpoint: Endpoint | StreamEndpoint): Record<string, string> {
  return Object.fromEntries(
    Object.keys(endpoint.params).map((name) => {
      // Its jobs and steps are not those of the engine.
      const of = endpoint.id.startsWith('migration.') ? `migration ${name}` : name
      const id = world.ids[of]
      if (id === undefined) throw new Error(`the world has no ${name}`)
      return [name, id]
    }),
  )
}

/** The same with ids that nothing has. */
export function unknownParams(endpoint: Endpoint | StreamEndpoint): Record<string, string> {
  const shaped: Readonly<Record<string, string>> = {
    permission: 'nobody.has_this',
    name: 'nobody-has-this',
    containerPort: '9',
  }
  const unknown = (name: string): string => shaped[name] ?? 'nobody_has_this'
  return Object.fromEntries(Object.keys(endpoint.params).map((name) => [name, unknown(name)]))
}

/** A server on the panel's own node, in the requested status. */
export async function freshServer(world: World, start: boolean): Promise<Server> {
  const { panel, admin, ids } = world
  const number = world.next()
  const server = await admin.call(createServer, {
    body: {
      name: `fresh ${number}`,
      templateId: ids['templateId'] ?? '',
      nodeId: panel.nodeId,
      locationId: panel.locationId,
      // Below the ports that the system gives to outgoing connections: those may be taken at any moment.
      primaryPort: 18_000 + number,
      start,
      ...SIZE,
    },
  })
  await reaches(world, server.id, start ? 'running' : 'stopped')
  return server
}

/** Waits until the server has that status. */
export async function reaches(world: World, serverId: string, status: string): Promise<void> {
  let seen = ''
  await until(
    async () => {
      const server = await world.admin.call(getServer, { params: { serverId } })
      seen = `${server.status}, ${server.reason}`
      if (server.status === 'error' || server.status === 'crashed') throw new Error(`${serverId} is ${seen}`)
      return server.status === status
    },
    () => `${serverId} is ${status}, not ${seen}`,
  )
}

/** Polls until the condition holds. */
export async function until(condition: () => Promise<boolean> | boolean, what: () => string): Promise<void> {
  const deadline = systemClock.monotonicMs() + 30_000
  while (!(await condition())) {
    if (systemClock.monotonicMs() > deadline) throw new Error(`it did not come to pass: ${what()}`)
    await systemClock.sleep(20)
  }
}
