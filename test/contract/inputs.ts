import { URI } from 'otpauth'
import { createServerInvite, setServerAccess } from '../../src/shared/api/access.ts'
import { forgotPassword, resendVerification } from '../../src/shared/api/account-recovery.ts'
import { createAlertRule } from '../../src/shared/api/alert-rules.ts'
import { createAllocations, listAllocations } from '../../src/shared/api/allocations.ts'
import { createApiKey } from '../../src/shared/api/api-keys.ts'
import { assignEveryNode, assignNode } from '../../src/shared/api/assignments.ts'
import { listSessions, login } from '../../src/shared/api/auth.ts'
import { createBackupStore } from '../../src/shared/api/backup-stores.ts'
import { createBackup, getBackup } from '../../src/shared/api/backups.ts'
import { createDatabaseHost } from '../../src/shared/api/database-hosts.ts'
import { createServerDatabase } from '../../src/shared/api/databases.ts'
import { compressFiles } from '../../src/shared/api/files.ts'
import { createIpPool } from '../../src/shared/api/ip-pools.ts'
import { createLocation } from '../../src/shared/api/locations.ts'
import { listLockouts } from '../../src/shared/api/lockouts.ts'
import { createNest } from '../../src/shared/api/nests.ts'
import { createDeploymentToken, createNode, createNodeKey } from '../../src/shared/api/nodes.ts'
import { getProfile, setAvatar } from '../../src/shared/api/profile.ts'
import { addRoleMember, createRole } from '../../src/shared/api/roles.ts'
import { addServerAllocation } from '../../src/shared/api/server-allocations.ts'
import { createServer, getServer } from '../../src/shared/api/servers.ts'
import { suspendServer } from '../../src/shared/api/suspension.ts'
import { listCatalog } from '../../src/shared/api/template-catalog.ts'
import { pinServer } from '../../src/shared/api/template-pin.ts'
import { createTemplate, deleteTemplate } from '../../src/shared/api/templates.ts'
import { enableTwoFactor, verifyTotp } from '../../src/shared/api/two-factor.ts'
import { banUser, inviteUser } from '../../src/shared/api/users.ts'
import { createWebhook, testWebhook } from '../../src/shared/api/webhooks.ts'
import { endpoints } from '../../src/shared/endpoints.ts'
import { isDeclared } from '../../src/shared/kernel/contract.ts'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import type { ServerId } from '../../src/shared/kernel/ids.ts'
import { gameSpec } from '../agent/agent-stage.ts'
import { AgentPeer, report } from '../daemon/agent-peer.ts'
import { enable, writePlugin } from '../daemon/plugins/plugin-stage.ts'
import { startPanel } from '../panel.ts'
import { gone, keptBackup } from './backup-inputs.ts'
import { exampleBody } from './example.ts'
import type { Parts } from './http-call.ts'
import { failedJob, pausedJob, waitingJob } from './job-inputs.ts'
import { sendBy, withMailServer } from './mailbox.ts'
import { MIGRATION_INPUTS } from './migration-inputs.ts'
import { openAlert } from './open-alert.ts'
import { POLICY_INPUTS } from './policy-inputs.ts'
import { SCHEDULE_INPUTS } from './schedule-inputs.ts'
import { SFTP_INPUTS } from './sftp-inputs.ts'
import { SIGN_IN_INPUTS } from './sign-in-inputs.ts'
import {
  databaseService,
  freshServer,
  NOBODY_LISTENS,
  PASSWORD,
  paramsOf,
  SIZE,
  selfBackup,
  signIn,
  systemError,
  until,
  type World,
} from './world.ts'

/** A valid request of one endpoint in the world; what it needs has been made for it alone. */
export interface Valid extends Parts {
  readonly headers?: Readonly<Record<string, string>>
  /** Whose call it is, when not the administrator's; `null`: nobody's. */
  readonly token?: string | null
  /** Another body that is valid too, for the reuse of an Idempotency-Key. */
  readonly otherBody?: unknown
  /** Another daemon, for what works once in the life of an installation. */
  readonly at?: { readonly url: string; close(): Promise<void> }
  /** Ends what the request needed. */
  readonly after?: () => Promise<void>
}

export type Make = (world: World) => Promise<Valid> | Valid

const NEW_PASSWORD = 'Other-horse-22'

const named = (world: World): string => `name-${world.next()}`

/** A server on the panel's own node that has the file a.txt. */
async function withFile(world: World): Promise<string> {
  const { id } = await freshServer(world, true)
  const options = { headers: { authorization: `Bearer ${world.panel.adminToken}` }, method: 'PUT', body: 'content' }
  await fetch(`${world.panel.url}/api/servers/${id}/files/content?path=a.txt`, options)
  return id
}

/** One server for all that only look at its file. */
function withFileToRead(world: World): Promise<string> {
  const known = READ.get(world) ?? withFile(world)
  READ.set(world, known)
  return known
}

const READ = new WeakMap<World, Promise<string>>()

async function withArchive(world: World): Promise<string> {
  const serverId = await withFile(world)
  const body = { paths: ['a.txt'], archiveName: 'a.tar' }
  await world.admin.call(compressFiles, { params: { serverId: serverId as ServerId }, body })
  return serverId
}

const filesWork =
  (body: object, otherBody: object): Make =>
  async (world) => ({ params: { serverId: await withFile(world) }, body, otherBody })

async function location(world: World): Promise<string> {
  return (await world.admin.call(createLocation, { body: { name: named(world) } })).id
}

async function node(world: World): Promise<string> {
  const body = { name: named(world), locationId: world.ids['locationId'] ?? '', maxMemoryMb: 1024, maxCpuCores: 2 }
  return (await world.admin.call(createNode, { body })).id
}

async function nodeWithKey(world: World): Promise<string> {
  const nodeId = await node(world)
  await world.admin.call(createNodeKey, { params: { nodeId } })
  return nodeId
}

/** A node whose agent has a server that the panel does not know. */
const orphan =
  (use?: 'adopted') =>
  async (world: World): Promise<Valid> => {
    const nodeId = await node(world)
    const { apiKey } = await world.admin.call(createNodeKey, { params: { nodeId: nodeId as never } })
    const peer = await AgentPeer.connect(world.panel.url, nodeId, apiKey)
    await peer.enter()
    const serverId = `srv_orphan${world.next()}`
    const spec = gameSpec(serverId, 3, { uuid: serverId, templateId: world.ids['templateId'] ?? '' })
    peer.holdings.set(serverId, { ...spec, ports: [{ ip: '127.0.0.1', port: 30_000 + world.next(), primary: true }] })
    const valid = { params: { nodeId, serverId }, after: () => peer.leave() }
    return use === undefined ? valid : { ...valid, body: { name: named(world) }, otherBody: { name: named(world) } }
  }

/** A server at rest with a further port. */
async function furtherPort(world: World): Promise<{ serverId: string; containerPort: string }> {
  const { id: serverId } = await freshServer(world, false)
  const { containerPort } = await world.admin.call(addServerAllocation, {
    params: { serverId },
    body: { containerPort: 46_000 + world.next() },
  })
  return { serverId, containerPort: String(containerPort) }
}

async function allocation(world: World): Promise<{ nodeId: string; allocationId: string }> {
  const nodeId = await node(world)
  await world.admin.call(createAllocations, { params: { nodeId }, body: { ip: '127.0.0.1', ports: '5000' } })
  const { data } = await world.admin.page(listAllocations, { params: { nodeId } })
  return { nodeId, allocationId: data[0]?.id ?? '' }
}

async function person(world: World): Promise<{ id: string; token: string }> {
  return signIn(world.panel, `person-${world.next()}`)
}

const egg = (name: string) => ({
  meta: { version: 'PTDL_v2', update_url: null },
  name,
  docker_images: { only: 'registry.example/game:1' },
  startup: './game {{ARGS}}',
  config: { files: '{}', startup: '{"done":"up"}', logs: '{}', stop: 'stop' },
  scripts: { installation: { script: '', container: '', entrypoint: 'sh' } },
  variables: [{ name: 'Arguments', env_variable: 'ARGS', default_value: '', rules: 'nullable|string' }],
})

const key = async (world: World): Promise<string> =>
  (await world.admin.call(createApiKey, { body: { name: named(world), permissions: ['server.read'] } })).id

const power =
  (start: boolean, body: unknown = {}, otherBody: unknown = { graceSeconds: 599 }): Make =>
  async (world) => ({ params: { serverId: (await freshServer(world, start)).id }, body, otherBody })

const bulk =
  (more: object): Make =>
  async (world) => {
    const body = { serverIds: [(await freshServer(world, false)).id] }
    return { body, otherBody: { ...body, ...more } }
  }

async function suspended(world: World): Promise<string> {
  const { id } = await freshServer(world, false)
  await world.admin.call(suspendServer, { params: { serverId: id } })
  return id
}

/** A server of its own node, whose game waits for an agreement. */
async function asking(world: World): Promise<{ serverId: string; after: () => Promise<void> }> {
  const nodeId = await node(world)
  const { apiKey } = await world.admin.call(createNodeKey, { params: { nodeId: nodeId as never } })
  const serverId = await serverOf(world, nodeId, { startup: 'sleep 1000' })
  const peer = await AgentPeer.connect(world.panel.url, nodeId, apiKey)
  const eula = { state: 'pending', file: 'eula.txt', text: 'eula=false', asked: 1 } as const
  const servers = [report(serverId, { power: 'offline', pid: null, uptimeMs: null, eula })]
  await peer.enter({ capabilities: ['servers@1', 'console@1', 'node@1', 'server-life@1'], servers })
  const isAsked = async (): Promise<boolean> =>
    (await world.admin.call(getServer, { params: { serverId: serverId as never } })).eula !== null
  await until(isAsked, () => 'the agreement to be asked for')
  return { serverId, after: () => peer.leave() }
}

async function serverOf(world: World, nodeId: string, template: Record<string, unknown>): Promise<string> {
  const { id } = await world.admin.call(createTemplate, { body: { name: named(world), ...template } as never })
  const place = { templateId: id, nodeId, locationId: world.ids['locationId'], primaryPort: 45_000 + world.next() }
  return (await world.admin.call(createServer, { body: { name: named(world), ...place, ...SIZE } as never })).id
}

async function pool(world: World): Promise<string> {
  const body = { nodeId: await node(world), networkName: named(world), cidr: '10.0.0.0/24' }
  return (await world.admin.call(createIpPool, { body })).id
}

/**
 * Valid requests by the ids of their endpoints, where a value has a meaning that no schema tells: a resource of its own, a
 * token, a change. All others follow from the contract ({@link validOf}).
 */
export const VALID: Readonly<Record<string, Make>> = {
  ...MIGRATION_INPUTS,
  ...SCHEDULE_INPUTS,
  ...SFTP_INPUTS,
  ...SIGN_IN_INPUTS,
  ...POLICY_INPUTS,
  'access.remove': async (world) => {
    const { id } = await person(world)
    const body = { targetUserId: id, permissions: ['server.read' as const] }
    await world.admin.call(setServerAccess, { params: ofServer(world), body })
    return { params: { ...ofServer(world), targetUserId: id } }
  },
  'access.set': async (world) => {
    const body = { targetUserId: (await person(world)).id, permissions: ['server.read', 'console.read'] }
    return { params: ofServer(world), body, otherBody: { ...body, permissions: ['server.read'] } }
  },
  'alert_rules.create': ({ ids, ...world }) => {
    const body = { name: `rule-${world.next()}`, type: 'node_offline', target: 'node', targetId: ids['nodeId'] }
    return { body, otherBody: { ...body, name: 'other' } }
  },
  'alert_rules.delete': async (world) => ({ params: { ruleId: await rule(world) } }),
  'alert_rules.test': async (world) => ({ params: { ruleId: await rule(world) } }),
  'alert_rules.update': async (world) => ({
    params: { ruleId: await rule(world) },
    body: { name: named(world), conditions: { offlineThreshold: 7 }, actions: { emails: ['ops@example.org'] } },
  }),
  'alerts.bulk_resolve': async ({ panel, ids }) => ({
    body: { alertIds: [await openAlert(panel, ids['ruleId'] ?? '')] },
    otherBody: { alertIds: [await openAlert(panel, ids['ruleId'] ?? '')] },
  }),
  'alerts.delete': async ({ panel, ids }) => ({ params: { alertId: await openAlert(panel, ids['ruleId'] ?? '') } }),
  'alerts.resolve': async ({ panel, ids }) => ({ params: { alertId: await openAlert(panel, ids['ruleId'] ?? '') } }),
  'allocations.create': async (world) => ({
    params: { nodeId: await node(world) },
    body: { ip: '127.0.0.1', ports: '6000-6003' },
    otherBody: { ip: '127.0.0.1', ports: '6000-6004' },
  }),
  'allocations.delete': async (world) => ({ params: await allocation(world) }),
  'allocations.update': async (world) => ({ params: await allocation(world), body: { alias: 'play.example.org' } }),
  'api_keys.delete': async (world) => ({ params: { keyId: await key(world) } }),
  'api_keys.update': async (world) => ({ params: { keyId: await key(world) }, body: { name: 'renamed' } }),
  'audit.export': () => ({ query: { format: 'jsonl' } }),
  'auth.forgot_password': () => ({
    token: null,
    body: { email: 'powerless@example.org' },
    otherBody: { email: 'nobody@example.org' },
  }),
  'auth.register': async (world) => {
    await world.panel.configure('security.registrationEnabled', true)
    const body = (name: string) => ({ email: `${name}@example.org`, username: name, password: PASSWORD })
    return { token: null, body: body(named(world)), otherBody: body(named(world)) }
  },
  'auth.resend_verification': async (world) => {
    await sendBy(world.panel, 9)
    return { token: (await unverified(world)).token }
  },
  'auth.reset_password': async (world) => {
    const token = await resetToken(world)
    const body = { token, password: NEW_PASSWORD }
    return { token: null, body, otherBody: { ...body, password: `${NEW_PASSWORD}!` } }
  },
  'auth.reset_validate': () => ({ token: null, query: { token: 'none' } }),
  'auth.verify_email': async (world) => {
    const { email, token } = await unverified(world)
    const mailed = await withMailServer(world.panel, async (mails) => {
      await world.panel.as(token).call(resendVerification)
      return mails.token(email)
    })
    return { token: null, query: { token: mailed } }
  },
  'files.write': async (world) => {
    const { id } = await freshServer(world, true)
    return {
      params: { serverId: id },
      query: { path: 'a.txt' },
      body: 'content',
      headers: { 'content-type': 'text/plain' },
    }
  },
  'files.read': async (world) => ({ params: { serverId: await withFileToRead(world) }, query: { path: 'a.txt' } }),
  'files.download': async (world) => ({ params: { serverId: await withFileToRead(world) }, query: { path: 'a.txt' } }),
  'files.list': async (world) => ({ params: { serverId: await withFileToRead(world) }, query: { path: '/' } }),
  'files.stat': async (world) => ({ params: { serverId: await withFileToRead(world) }, query: { path: 'a.txt' } }),
  'files.usage': async (world) => ({ params: { serverId: await withFileToRead(world) } }),
  'files.search': async (world) => ({ params: { serverId: await withFileToRead(world) }, query: { name: 'a*' } }),
  'files.checksums': filesWork({ paths: ['a.txt'] }, { paths: ['/'] }),
  'files.create': filesWork({ path: 'new', isDirectory: true }, { path: 'new', isDirectory: false }),
  'files.write_text': filesWork({ path: 'a.txt', content: 'x' }, { path: 'a.txt', content: 'y' }),
  'files.rename': filesWork({ from: 'a.txt', to: 'b' }, { from: 'a.txt', to: 'c' }),
  'files.copy': filesWork({ from: 'a.txt', to: 'b' }, { from: 'a.txt', to: 'c' }),
  'files.permissions': filesWork({ path: 'a.txt', mode: '600' }, { path: 'a.txt', mode: '644' }),
  'files.link': filesWork({ path: 'link', target: 'a.txt' }, { path: 'link', target: 'b' }),
  'files.delete_many': filesWork({ paths: ['a.txt'] }, { paths: ['b'] }),
  'files.delete': async (world) => ({ params: { serverId: await withFile(world) }, query: { path: 'a.txt' } }),
  'files.compress': filesWork({ paths: ['a.txt'], archiveName: 'a.tar' }, { paths: ['a.txt'], archiveName: 'b.tar' }),
  'files.decompress': async (world) => ({
    params: { serverId: await withArchive(world) },
    body: { archivePath: 'a.tar' },
    otherBody: { archivePath: 'a.tar', targetPath: 'x' },
  }),
  'files.archive_contents': async (world) => ({
    params: { serverId: await withArchive(world) },
    body: { archivePath: 'a.tar' },
    otherBody: { archivePath: 'a.tar', limit: 1 },
  }),
  'files.pull': async (world) => ({
    params: { serverId: await withFile(world) },
    body: { url: `${world.panel.url}/api/openapi.json` },
    otherBody: { url: `${world.panel.url}/api/openapi.json`, name: 'b' },
  }),
  'files.start_job': filesWork(
    { work: { kind: 'delete', paths: ['a.txt'] } },
    { work: { kind: 'delete', paths: ['b.txt'] } },
  ),
  'files.upload': async (world) => ({
    params: { serverId: await withFile(world) },
    query: { path: '/' },
    file: PICTURE,
  }),
  'console.download': async (world) => ({ params: { serverId: (await freshServer(world, true)).id } }),
  'agent.enroll': async (world) => {
    const params = { nodeId: await node(world) }
    const { deploymentToken } = await world.admin.call(createDeploymentToken, { params })
    return { token: null, body: { deploymentToken }, otherBody: { deploymentToken, hostname: 'other' } }
  },
  'auth.login': () => {
    const email = 'powerless@example.org'
    return {
      token: null,
      body: { email, password: PASSWORD },
      otherBody: { email, password: PASSWORD, rememberMe: true },
    }
  },
  'auth.logout': async (world) => ({ token: (await person(world)).token }),
  'auth.sign_out': async (world) => ({ token: (await person(world)).token }),
  'auth.password_change': async (world) => ({
    token: (await person(world)).token,
    body: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD },
    otherBody: { currentPassword: PASSWORD, newPassword: `${NEW_PASSWORD}!` },
  }),
  // The panel's own administrator is made without a password.
  'auth.password_set': () => ({ body: { newPassword: NEW_PASSWORD }, otherBody: { newPassword: `${NEW_PASSWORD}!` } }),
  'auth.invite_accept': async (world) => {
    const email = `${named(world)}@example.org`
    const { token } = (await world.admin.call(inviteUser, { body: { email } })).invite
    const body = { token, password: NEW_PASSWORD }
    return { token: null, body, otherBody: { ...body, username: 'other' } }
  },
  'auth.session_revoke': async (world) => {
    const { token, id } = await person(world)
    const { data } = await world.panel.as(token).page(listSessions)
    return { token, params: { sessionId: data[0]?.id ?? id } }
  },
  'auth.sessions_revoke': async (world) => {
    const { token } = await person(world)
    const email = `person-${world.next() - 1}@example.org`
    await world.panel.as(undefined).call(login, { body: { email, password: PASSWORD } })
    return { token }
  },
  'backup_stores.create': (world) => {
    const body = { kind: 'local', name: named(world), folder: 'nas' }
    return { body, otherBody: { ...body, folder: 'disk' } }
  },
  'backup_stores.delete': async (world) => ({ params: { storeId: await backupStore(world) } }),
  'backup_stores.set_default': async (world) => {
    const body = { scope: 'location', id: await location(world), storeId: await backupStore(world) }
    return { body, otherBody: { ...body, storeId: null } }
  },
  'backup_stores.update': async (world) => ({
    params: { storeId: await backupStore(world) },
    body: { name: named(world) },
    otherBody: { name: named(world), folder: 'disk' },
  }),
  'backup_settings.update': (world) => ({
    params: ofServer(world),
    body: { retentionCount: 1 + (world.next() % 1000) },
    otherBody: { retentionDays: 9 },
  }),
  'backups.create': async (world) => ({
    params: { serverId: (await freshServer(world, true)).id },
    body: { name: 'one' },
    otherBody: { name: 'other' },
  }),
  'backups.delete': async (world) => ({ params: await backup(world) }),
  'backups.delete_any': async (world) => ({ params: { backupId: await keptBackup(world, gone(world)) } }),
  'backups.download': async (world) => ({ params: await madeBackup(world, await withFile(world)) }),
  'backups.entries': async (world) => ({ params: await madeBackup(world, await withFile(world)) }),
  'backups.file': async (world) => ({
    params: await madeBackup(world, await withFile(world)),
    query: { path: 'a.txt' },
  }),
  'backups.prune': (world) => ({ params: ofServer(world), body: {}, otherBody: { dryRun: true } }),
  'backups.reattach': async (world) => ({
    params: { backupId: await keptBackup(world, gone(world)) },
    body: ofServer(world),
    otherBody: { serverId: (await freshServer(world, false)).id },
  }),
  'backups.restore': async (world) => ({
    params: await backup(world),
    body: { keepOthers: true },
    otherBody: { keepOthers: false },
  }),
  'backups.scan': ({ panel: { nodeId } }) => ({
    body: { storeId: 'bst_local', nodeId },
    otherBody: { storeId: 'bst_local', nodeId, dryRun: true },
  }),
  'backups.update': async (world) => ({
    params: await backup(world),
    body: { name: named(world) },
    otherBody: { locked: false },
  }),
  'backups.verify': async (world) => ({ params: await backup(world), body: {}, otherBody: { deep: false } }),
  'self_backups.create': (world) => ({ body: {}, otherBody: { storeId: world.ids['storeId'] } }),
  'self_backups.delete': async (world) => ({ params: { selfBackupId: await selfBackup(world.admin) } }),
  'self_backups.set_schedule': (world) => {
    const body = { cron: `${world.next() % 60} 3 * * *`, keep: 100 + world.next() }
    return { body, otherBody: { ...body, cron: null } }
  },
  'console.command': async (world) => ({
    params: { serverId: (await freshServer(world, true)).id },
    body: { command: 'hello' },
    otherBody: { command: 'good evening' },
  }),
  'console.logs': async (world) => ({ params: { serverId: (await freshServer(world, true)).id } }),
  'database_hosts.create': async (world) => {
    const body = { name: named(world), host: 'db.example.org', username: 'panel', password: 'Another-elephant-66' }
    return { body, otherBody: { ...body, port: 3307 } }
  },
  'database_hosts.delete': async (world) => ({ params: { hostId: await databaseHost(world) } }),
  'database_hosts.update': async (world) => ({
    params: { hostId: await databaseHost(world) },
    body: { name: named(world), port: 3307, tls: 'verify', maxDatabases: 7, password: 'A-third-elephant-77' },
  }),
  'databases.adopt': async (world) => ({ params: await unmanagedDatabase(world) }),
  'databases.create': (world) => ({
    params: ofServer(world),
    body: { hostId: world.ids['hostId'], name: `shop_${world.next()}` },
    otherBody: {},
  }),
  'databases.delete': async (world) => ({ params: await database(world) }),
  'databases.rotate': async (world) => ({ params: await database(world), body: {}, otherBody: { force: true } }),
  'jobs.cancel': async (world) => ({ params: { jobId: await waitingJob(world) } }),
  'jobs.get': async (world) => ({ params: { jobId: await waitingJob(world) } }),
  'jobs.pause': async (world) => ({ params: { jobId: await waitingJob(world) } }),
  'jobs.resume': async (world) => ({ params: { jobId: await pausedJob(world) } }),
  'jobs.retry_step': async (world) => ({ params: await failedJob(world) }),
  'lockouts.delete': async (world) => ({ params: { lockoutId: await lockout(world) } }),
  'invites.accept': async (world) => {
    const { token } = await person(world)
    const email = `person-${world.next() - 1}@example.org`
    const body = { token: (await invite(world, email)).token }
    return { token, body, otherBody: { token: 'another' } }
  },
  'invites.cancel': async (world) => ({
    params: { ...ofServer(world), inviteId: (await invite(world, `${named(world)}@example.org`)).id },
  }),
  'invites.create': (world) => {
    const body = { email: `${named(world)}@example.org`, permissions: ['server.read'] }
    return { params: ofServer(world), body, otherBody: { ...body, permissions: ['console.read'] } }
  },
  'invites.get': async (world) => ({
    params: { token: (await invite(world, `${named(world)}@example.org`)).token },
    token: null,
  }),
  'invites.register': async (world) => {
    const username = named(world)
    const { token } = await invite(world, `${username}@example.org`)
    const body = { token, username, password: NEW_PASSWORD }
    return { token: null, body, otherBody: { ...body, username: 'other' } }
  },
  'ip_pools.create': async (world) => {
    const body = { nodeId: await node(world), networkName: named(world), cidr: '10.0.0.0/24' }
    return { body, otherBody: { ...body, cidr: '10.0.1.0/24' } }
  },
  'ip_pools.delete': async (world) => ({ params: { poolId: await pool(world) } }),
  'ip_pools.update': async (world) => ({
    params: { poolId: await pool(world) },
    body: { gateway: '10.0.0.1', startIp: '10.0.0.9', endIp: '10.0.0.99', reserved: ['10.0.0.10'] },
  }),
  'locations.delete': async (world) => ({ params: { locationId: await location(world) } }),
  'locations.update': async (world) => ({
    params: { locationId: await location(world) },
    body: { name: named(world) },
  }),
  'nests.delete': async (world) => ({ params: { nestId: await nest(world) } }),
  'nests.update': async (world) => ({ params: { nestId: await nest(world) }, body: { name: named(world) } }),
  'nodes.assign': async (world) => {
    const body = { targetType: 'user', targetId: (await person(world)).id }
    return { params: { nodeId: await node(world) }, body, otherBody: { ...body, targetId: 'other' } }
  },
  'nodes.assign_wildcard': async (world) => {
    const body = { targetType: 'role', targetId: await role(world) }
    return { body, otherBody: { ...body, targetId: 'other' } }
  },
  'nodes.unassign': async (world) => {
    const nodeId = await node(world)
    const body = { targetType: 'role' as const, targetId: await role(world) }
    const { id } = await world.admin.call(assignNode, { params: { nodeId }, body })
    return { params: { nodeId, assignmentId: id } }
  },
  'nodes.unassign_wildcard': async (world) => {
    const body = { targetType: 'role' as const, targetId: await role(world) }
    await world.admin.call(assignEveryNode, { body })
    return { params: body }
  },
  'nodes.delete': async (world) => ({ params: { nodeId: await node(world) } }),
  'nodes.deployment_token': async (world) => ({
    params: { nodeId: await node(world) },
    body: { ttlSeconds: 60 },
    otherBody: { ttlSeconds: 61 },
  }),
  'nodes.key_create': async (world) => ({ params: { nodeId: await node(world) }, otherBody: { regenerate: true } }),
  'nodes.key_delete': async (world) => ({ params: { nodeId: await nodeWithKey(world) } }),
  'nodes.orphan_adopt': orphan('adopted'),
  'nodes.orphan_purge': orphan(),
  'nodes.orphans': async (world) => {
    const { params, after = async () => undefined } = await orphan()(world)
    return { params: { nodeId: String(params?.['nodeId']) }, after }
  },
  'nodes.maintenance': async (world) => ({ params: { nodeId: await node(world) }, body: { enabled: true } }),
  'nodes.update': async (world) => ({ params: { nodeId: await node(world) }, body: { description: 'rack 2' } }),
  'plugins.config': async (world) => ({
    params: { name: await plugin(world) },
    body: { config: { greeting: named(world) } },
  }),
  'plugins.enable': async (world) => ({
    params: { name: await plugin(world) },
    body: { enabled: true },
    otherBody: { enabled: false },
  }),
  'plugins.frontend_manifest': async (world) => {
    const name = await plugin(world)
    await enable(world.panel, name)
    return { params: { name } }
  },
  'plugins.reload': async (world) => ({ params: { name: await plugin(world) } }),
  'profile.avatar': async (world) => {
    const { id, token } = await pictured(world)
    return { token, params: { userId: id } }
  },
  'profile.avatar_delete': async (world) => ({ token: (await pictured(world)).token }),
  'profile.avatar_set': async (world) => ({ token: (await person(world)).token, file: PICTURE }),
  'profile.delete': async (world) => {
    const body = { confirm: 'DELETE', currentPassword: PASSWORD }
    return { token: (await person(world)).token, body }
  },
  'profile.preferences': async (world) => ({ token: (await person(world)).token, body: { theme: 'dark' } }),
  'profile.update': async (world) => ({ token: (await person(world)).token, body: { firstName: 'Ann' } }),
  'roles.delete': async (world) => ({ params: { roleId: await role(world) } }),
  'roles.member_add': async (world) => ({ params: { roleId: await role(world), userId: (await person(world)).id } }),
  'roles.member_remove': async (world) => ({ params: await member(world, await role(world)) }),
  'roles.permission_add': async (world) => ({
    params: { roleId: await role(world) },
    body: { permission: 'node.read' },
    otherBody: { permission: 'user.read' },
  }),
  'roles.permission_remove': async (world) => ({
    params: { roleId: await role(world, ['node.read']), permission: 'node.read' },
  }),
  'roles.update': async (world) => ({ params: { roleId: await role(world) }, body: { name: named(world) } }),
  'server_allocations.add': async (world) => ({
    params: { serverId: (await freshServer(world, false)).id },
    body: { containerPort: 45_000 + world.next() },
    otherBody: { containerPort: 44_999 },
  }),
  'server_allocations.primary': async (world) => {
    const { serverId, containerPort } = await furtherPort(world)
    return {
      params: { serverId },
      body: { containerPort: Number(containerPort) },
      otherBody: { containerPort: 44_998 },
    }
  },
  'server_allocations.remove': async (world) => ({ params: await furtherPort(world) }),
  'servers.bulk_actions': async (world) => {
    const body = { serverIds: [(await freshServer(world, false)).id], action: 'suspend' }
    return { body, otherBody: { ...body, action: 'unsuspend' } }
  },
  'servers.bulk_delete': bulk({ serverIds: ['other'] }),
  'servers.bulk_remove': bulk({}),
  'servers.bulk_status': bulk({}),
  'servers.bulk_suspend': bulk({ reason: 'unpaid' }),
  'servers.bulk_unsuspend': async (world) => {
    const body = { serverIds: [await suspended(world)] }
    return { body, otherBody: { serverIds: ['other'] } }
  },
  'servers.create': (world) => {
    const body = {
      name: named(world),
      templateId: world.ids['templateId'],
      nodeId: world.ids['nodeId'],
      locationId: world.ids['locationId'],
      primaryPort: 43_000 + world.next(),
      ...SIZE,
    }
    return { body, otherBody: { ...body, primaryPort: 44_000 } }
  },
  'servers.delete': async (world) => ({ params: { serverId: (await freshServer(world, false)).id } }),
  'servers.eula': async (world) => {
    const { serverId, after } = await asking(world)
    return { params: { serverId }, body: { accepted: true }, otherBody: { accepted: false }, after }
  },
  'servers.eula_by_body': async (world) => {
    const { serverId, after } = await asking(world)
    return { body: { serverId, accepted: true }, otherBody: { serverId, accepted: false }, after }
  },
  'servers.install': power(false, {}, { start: true }),
  'servers.kill': power(true),
  'servers.patch': async (world) => ({
    params: { serverId: (await freshServer(world, false)).id },
    body: { name: named(world) },
  }),
  'servers.pin': power(false, {}, { refresh: true }),
  'servers.power': power(false, { action: 'start' }, { action: 'stop' }),
  'servers.rebuild': async (world) => {
    const { id } = await freshServer(world, false)
    // The node of this panel need not have an engine: its order fails there.
    await world.panel.app.core.db.write(async (tx) => {
      await tx.q.updateTable('server').set({ runtime: 'docker' }).where('id', '=', id).execute()
    })
    return { params: { serverId: id }, body: {}, otherBody: { start: true } }
  },
  'servers.reinstall': power(false, {}, { start: true }),
  'servers.reset_crash_count': async (world) => ({ params: { serverId: (await freshServer(world, false)).id } }),
  'servers.resize_storage': async (world) => ({
    params: { serverId: (await freshServer(world, false)).id },
    body: { allocatedDiskMb: 96 },
    otherBody: { allocatedDiskMb: 97 },
  }),
  'servers.restart': power(true),
  'servers.restart_policy': async (world) => ({
    params: { serverId: (await freshServer(world, false)).id },
    body: { restartPolicy: 'always', maxCrashCount: 7 },
  }),
  'servers.set_variables': async (world) => {
    const variables = [{ name: 'WORD', default: 'one' }]
    const serverId = await serverOf(world, await node(world), { startup: 'sleep 1000', variables })
    return { params: { serverId }, body: { WORD: 'two' } }
  },
  'servers.start': power(false),
  'servers.stop': power(true),
  'servers.suspend': power(false, { reason: 'unpaid' }, {}),
  'servers.transfer_ownership': async (world) => ({
    params: { serverId: (await freshServer(world, false)).id },
    body: { newOwnerId: (await person(world)).id },
    otherBody: { newOwnerId: 'other' },
  }),
  'servers.unpin': async (world) => {
    const { id } = await freshServer(world, false)
    await world.admin.call(pinServer, { params: { serverId: id }, body: {} })
    return { params: { serverId: id } }
  },
  'servers.unsuspend': async (world) => ({ params: { serverId: await suspended(world) } }),
  'servers.update': async (world) => ({
    params: { serverId: (await freshServer(world, false)).id },
    body: { name: named(world), allocatedMemoryMb: 128, allocatedDiskMb: 65, allocatedSwapMb: 1 },
  }),
  'settings.localization_update': (world) => ({ body: { locale: `de-x-${world.next()}`, timezone: 'Europe/Berlin' } }),
  'settings.mod_manager_update': (world) => ({ body: { curseforgeApiKey: named(world) } }),
  'settings.security_update': (world) => ({ body: { auditRetentionDays: 90 + world.next() } }),
  // Nothing listens there: the answer is that the mail was not taken.
  'settings.smtp_test': () => ({ body: { to: 'eve@example.org' }, otherBody: { to: 'ann@example.org' } }),
  'settings.smtp_update': (world) => ({ body: { host: '127.0.0.1', port: 9, from: `${named(world)}@example.org` } }),
  'settings.theme_update': (world) => ({ body: { panelName: named(world) } }),
  'setup.complete': async () => {
    const setupToken = 'the-setup-token-of-this-test'
    const at = await startPanel({ empty: true, env: { PANEL_SETUP_TOKEN: setupToken } })
    const body = { setupToken, email: 'root@example.org', username: 'root', password: PASSWORD }
    return { token: null, at, body, otherBody: { ...body, panelName: 'other' } }
  },
  'system_errors.report': () => ({
    body: { component: 'screen', message: 'it broke' },
    otherBody: { component: 'screen', message: 'it broke again' },
  }),
  'system_errors.resolve': async (world) => ({
    params: { errorId: await systemError(world) },
    body: { note: 'it was the cable' },
    otherBody: { note: 'it was not' },
  }),
  'system_errors.resolve_all': async (world) => ({
    body: { ids: [await systemError(world)] },
    otherBody: { level: 'warn' },
  }),
  'templates.create': (world) => ({
    body: { name: named(world), startup: 'sleep 1' },
    otherBody: { name: named(world), startup: 'sleep 2' },
  }),
  'templates.delete': async (world) => ({ params: { templateId: await template(world) } }),
  'templates.import_egg': (world) => ({ body: egg(named(world)), otherBody: egg(named(world)) }),
  'templates.install': async (world) => ({
    params: { catalogName: await uninstalled(world) },
    body: {},
    otherBody: { force: true },
  }),
  'templates.update': async (world) => ({
    params: { templateId: await template(world) },
    body: { name: named(world) },
  }),
  'two_factor.codes': async (world) => ({ token: (await secured(world)).token, ...withPassword }),
  'two_factor.disable': async (world) => ({ token: (await secured(world)).token, ...withPassword }),
  'two_factor.enable': async (world) => ({ token: (await person(world)).token, ...withPassword }),
  'two_factor.verify_backup_code': async (world) => {
    const { pending, backupCodes } = await secured(world)
    const body = { token: pending, code: backupCodes[0] }
    return { token: null, body, otherBody: { ...body, code: backupCodes[1] } }
  },
  'two_factor.verify_totp': async (world) => {
    const { pending, code } = await secured(world)
    // That of the time before this step was used to confirm the factor; this one is a step further.
    const body = { token: pending, code: code(1) }
    return { token: null, body, otherBody: { ...body, code: '000000' } }
  },
  'users.ban': async (world) => ({
    params: { userId: (await person(world)).id },
    body: { reason: 'shared the account' },
    otherBody: { reason: 'another' },
  }),
  'users.delete': async (world) => ({
    params: { userId: (await person(world)).id },
    body: {},
    otherBody: { force: true },
  }),
  'users.remove': async (world) => ({ params: { userId: (await person(world)).id } }),
  'users.sign_out': async (world) => ({ params: { userId: (await person(world)).id } }),
  'users.two_factor_disable': async (world) => ({ params: { userId: (await secured(world)).id } }),
  'users.unban': async (world) => {
    const { id: userId } = await person(world)
    await world.admin.call(banUser, { params: { userId } })
    return { params: { userId } }
  },
  'users.unlock': async (world) => {
    const { id: userId } = await person(world)
    const email = `person-${world.next() - 1}@example.org`
    await world.panel
      .as(undefined)
      .call(login, { body: { email, password: 'Wrong-horse-1' } })
      .catch(() => undefined) // it is meant to fail: that is what there is to forget
    return { params: { userId } }
  },
  'users.update': async (world) => ({
    params: { userId: (await person(world)).id },
    body: { firstName: 'Nell' },
  }),
  'webhooks.create': (world) => {
    const body = { name: named(world), url: NOBODY_LISTENS, events: ['node.*'] }
    return { body, otherBody: { ...body, name: 'other' } }
  },
  'webhooks.delete': async (world) => ({ params: { webhookId: await webhook(world) } }),
  'webhooks.redeliver': async (world) => {
    const webhookId = await webhook(world)
    const { deliveryId } = await world.admin.call(testWebhook, { params: { webhookId } })
    return { params: { webhookId, deliveryId } }
  },
  'webhooks.test': async (world) => ({ params: { webhookId: await webhook(world) } }),
  'webhooks.update': async (world) => ({
    params: { webhookId: await webhook(world) },
    body: { name: named(world), events: ['server.created'], format: 'slack' },
  }),
}

/**
 * A valid request of the endpoint: of the table, or made from its contract with ids of the world. `undefined` when the contract
 * alone does not tell one.
 */
export function validOf(world: World, id: string): Promise<Valid> | Valid | undefined {
  const endpoint = endpoints.find((one) => one.id === id)
  if (endpoint === undefined || id in VALID) return VALID[id]?.(world)
  const example = () => exampleBody(endpoint, { unique: named(world), ids: world.ids })
  const [body, otherBody] = [example(), example()]
  if (body === undefined && endpoint.method !== 'GET' && isDeclared(endpoint.body)) return undefined
  return {
    params: paramsOf(world, endpoint),
    ...(endpoint.access === 'public' ? { token: null } : {}),
    ...(body === undefined ? {} : { body, otherBody }),
  }
}

async function role(world: World, permissions: readonly string[] = []): Promise<string> {
  return (await world.admin.call(createRole, { body: { name: named(world), permissions: [...permissions] } })).id
}

async function member(world: World, roleId: string): Promise<{ roleId: string; userId: string }> {
  const userId = (await person(world)).id
  await world.admin.call(addRoleMember, { params: { roleId, userId } })
  return { roleId, userId }
}

/** An invitation to the world's server for an address, with the token of its link. */
async function invite(world: World, email: string): Promise<{ id: string; token: string }> {
  const body = { email, permissions: ['server.read' as const] }
  const made = await world.admin.call(createServerInvite, { params: ofServer(world), body })
  return { id: made.id, token: made.token ?? '' }
}

/** A backup of a server on the node that is there. */
async function backup(world: World): Promise<{ serverId: string; backupId: string }> {
  const server = await freshServer(world, false)
  return { serverId: server.id, backupId: await keptBackup(world, server) }
}

/** A backup that was made. */
async function madeBackup(
  { admin }: World,
  serverId: string,
): Promise<{ readonly serverId: string; readonly backupId: string }> {
  const params = { serverId: serverId as never } // made by the world
  const { backupId } = await admin.call(createBackup, { params, body: {} })
  await until(
    async () => (await admin.call(getBackup, { params: { ...params, backupId } })).status === 'completed',
    () => `${backupId} is not made`,
  )
  return { serverId, backupId }
}

async function backupStore(world: World): Promise<string> {
  return (await world.admin.call(createBackupStore, { body: { kind: 'local', name: named(world), folder: 'nas' } })).id
}

async function databaseHost(world: World): Promise<string> {
  const body = { name: named(world), ...(await databaseService()) }
  return (await world.admin.call(createDatabaseHost, { body })).id
}

/** As a migration records one that stays where it lies. */
async function unmanagedDatabase(world: World): Promise<{ serverId: string; databaseId: string }> {
  const params = await database(world)
  await world.panel.app.core.db.write(async (tx) => {
    const recorded = tx.q.updateTable('serverDatabase').set({ managed: 0 })
    await recorded.where('id', '=', params.databaseId).execute()
  })
  return params
}

async function database(world: World): Promise<{ serverId: string; databaseId: string }> {
  const params = ofServer(world)
  const body = { hostId: world.ids['hostId'] }
  return { ...params, databaseId: (await world.admin.call(createServerDatabase, { params, body })).id }
}

const ofServer = ({ ids }: World) => ({ serverId: ids['serverId'] ?? '' })

async function rule(world: World): Promise<string> {
  const body = { name: named(world), type: 'node_offline' as const, target: 'global' as const }
  return (await world.admin.call(createAlertRule, { body })).id
}

async function webhook(world: World): Promise<string> {
  const body = { name: named(world), url: NOBODY_LISTENS, events: ['node.*'] }
  return (await world.admin.call(createWebhook, { body })).id
}

async function nest(world: World): Promise<string> {
  return (await world.admin.call(createNest, { body: { name: named(world) } })).id
}

async function template(world: World): Promise<string> {
  return (await world.admin.call(createTemplate, { body: { name: named(world), startup: 'sleep 1' } })).id
}

/** A template of the catalogue that is not there. */
async function uninstalled(world: World): Promise<string> {
  const all = await world.admin.call(listCatalog)
  const absent = all.find(({ installed }) => installed === null)
  if (absent !== undefined) return absent.name
  const { name, installed } = all.find((one) => one.name === 'bzflag') ?? all[0] ?? { name: '', installed: null }
  if (installed !== null) await world.admin.call(deleteTemplate, { params: { templateId: installed.templateId } })
  return name
}

async function plugin(world: World): Promise<string> {
  const name = `plugin-${world.next()}`
  const configSchema = { type: 'object', properties: { greeting: { type: 'string' } } }
  const manifest = { configSchema, frontend: { entry: '/screens/plugin.js' } }
  await writePlugin(world.panel.dataDir, name, { manifest, code: 'export default () => ({})' })
  return name
}

const withPassword = { body: { password: PASSWORD }, otherBody: { password: `${PASSWORD}!` } }

/** The smallest thing that begins like a PNG. */
export const PICTURE = Buffer.from('\x89PNG\r\n\x1a\n and no more', 'latin1')

async function pictured(world: World): Promise<{ id: string; token: string }> {
  const made = await person(world)
  const content = (async function* () {
    yield PICTURE
  })()
  await world.panel.as(made.token).call(setAvatar, { body: { fileName: 'me', contentType: 'image/png', content } })
  return made
}

/** Somebody who has made his account himself and is signed in without having confirmed his address. */
async function unverified(world: World): Promise<{ email: string; token: string }> {
  const { token } = await person(world)
  const { email, id } = await world.panel.as(token).call(getProfile)
  await world.panel.unverify(id)
  return { email, token }
}

async function resetToken(world: World): Promise<string> {
  const { token } = await person(world)
  const { email } = await world.panel.as(token).call(getProfile)
  return withMailServer(world.panel, async (mails) => {
    await world.panel.as(undefined).call(forgotPassword, { body: { email } })
    return mails.token(email)
  })
}

async function lockout(world: World): Promise<string> {
  const email = `${named(world)}@example.org`
  const call = world.panel.as(undefined).call(login, { body: { email, password: 'wrong' } })
  await call.catch(() => undefined) // it is refused; the row is what matters
  const [row] = await world.admin.call(listLockouts, { query: { search: email } })
  return row?.id ?? ''
}

/** Somebody with a second factor, and a sign-in of his that waits for it; `code` is that of so many steps ahead. */
async function secured(world: World) {
  const { id, token } = await person(world)
  const client = world.panel.as(token)
  const { email } = await client.call(getProfile)
  const { totpURI, backupCodes } = await client.call(enableTwoFactor, { body: { password: PASSWORD } })
  const totp = URI.parse(totpURI)
  const code = (steps: number): string => totp.generate({ timestamp: Date.now() + steps * 30_000 })
  await client.call(verifyTotp, { body: { code: code(0) } })
  const refused = await world.panel
    .as(undefined)
    .call(login, { body: { email, password: PASSWORD } })
    .catch((error: unknown) => error)
  const pending = refused instanceof PanelError ? String(refused.meta['token']) : ''
  return { id, token, pending, backupCodes, code }
}
