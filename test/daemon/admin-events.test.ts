import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { login } from '../../src/shared/api/auth.ts'
import { getDbStatus } from '../../src/shared/api/overview.ts'
import { unlockUser } from '../../src/shared/api/users.ts'
import { endpoints } from '../../src/shared/endpoints.ts'
import { EVENTS, type EventType, isEventType } from '../../src/shared/kernel/events.ts'
import { ANY_ADMIN_PERMISSION } from '../../src/shared/kernel/permissions.ts'
import { callEndpoint } from '../contract/http-call.ts'
import { validOf } from '../contract/inputs.ts'
import { waitingJob } from '../contract/job-inputs.ts'
import { buildWorld, freshServer, keyWith, signIn, type World } from '../contract/world.ts'
import { ROOT } from '../module-graph.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { ConsoleReader, type WireFrame } from './console-reader.ts'

/** What makes an event happen: the endpoint whose valid request does, or something else. */
type Cause = string | ((world: World) => Promise<unknown>)

/** Types of event with the write that causes them. */
const CAUSES: Readonly<Record<string, Cause>> = {
  alert_deleted: 'alerts.delete',
  alert_resolved: 'alerts.resolve',
  alert_rule_created: 'alert_rules.create',
  alert_rule_deleted: 'alert_rules.delete',
  alert_rule_updated: 'alert_rules.update',
  api_key_created: 'api_keys.create',
  api_key_deleted: 'api_keys.delete',
  api_key_updated: 'api_keys.update',
  audit_log_created: 'locations.create',
  auth_lockout_cleared: async (world) => {
    const userId = await lockOut(world)
    await world.admin.call(unlockUser, { params: { userId: userId as never } })
  },
  auth_lockout_created: lockOut,
  backup_policy_created: 'backup_policies.create',
  backup_policy_deleted: 'backup_policies.delete',
  backup_policy_run_ended: 'backup_policies.cancel',
  backup_policy_run_started: 'backup_policies.run',
  backup_policy_updated: 'backup_policies.update',
  backup_complete: 'backups.create',
  backup_created: 'backups.create',
  backup_delete_complete: 'backups.delete',
  backup_delete_started: 'backups.delete',
  backup_deleted: 'backups.delete',
  backup_progress: 'backups.create',
  backup_restore_complete: 'backups.restore',
  backup_restore_started: 'backups.restore',
  backup_started: 'backups.create',
  backup_store_created: 'backup_stores.create',
  backup_store_deleted: 'backup_stores.delete',
  backup_store_updated: 'backup_stores.update',
  self_backup_deleted: 'self_backups.delete',
  self_backup_updated: 'self_backups.create',
  database_adopted: 'databases.adopt',
  database_created: 'databases.create',
  database_deleted: 'databases.delete',
  database_host_created: 'database_hosts.create',
  database_host_deleted: 'database_hosts.delete',
  database_host_updated: 'database_hosts.update',
  database_password_rotated: 'databases.rotate',
  db_status_changed: breakDatabase,
  ip_pool_created: 'ip_pools.create',
  ip_pool_deleted: 'ip_pools.delete',
  ip_pool_updated: 'ip_pools.update',
  job_updated: 'jobs.pause',
  localization_settings_updated: 'settings.localization_update',
  location_created: 'locations.create',
  location_deleted: 'locations.delete',
  location_updated: 'locations.update',
  nest_created: 'nests.create',
  nest_deleted: 'nests.delete',
  nest_updated: 'nests.update',
  node_assigned: 'nodes.assign',
  node_created: 'nodes.create',
  node_deleted: 'nodes.delete',
  node_unassigned: 'nodes.unassign',
  node_updated: 'nodes.update',
  oidc_settings_updated: 'settings.oidc_update',
  plugin_updated: 'plugins.enable',
  role_created: 'roles.create',
  role_deleted: 'roles.delete',
  role_updated: 'roles.permission_add',
  security_settings_updated: 'settings.security_update',
  server_command_done: (world) => freshServer(world, true),
  server_created: 'servers.create',
  server_deleted: 'servers.delete',
  server_files_changed: 'files.create',
  server_job_updated: async (world) => void (await waitingJob(world, world.ids['serverId'])),
  server_state_update: (world) => freshServer(world, true),
  server_suspended: 'servers.suspend',
  server_unsuspended: 'servers.unsuspend',
  server_updated: 'servers.update',
  smtp_settings_updated: 'settings.smtp_update',
  task_complete: 'tasks.abort',
  task_created: 'tasks.create',
  task_deleted: 'tasks.delete',
  task_progress: 'tasks.execute',
  task_updated: 'tasks.update',
  system_error: 'system_errors.report',
  system_error_resolved: 'system_errors.resolve',
  system_settings_updated: 'settings.mod_manager_update',
  template_created: 'templates.create',
  template_deleted: 'templates.delete',
  template_updated: 'templates.update',
  theme_settings_updated: 'settings.theme_update',
  // Happened when this panel was started: it follows on one that another version has left.
  update_state_changed: async () => undefined,
  user_created: 'users.create',
  user_deleted: 'users.delete',
  user_updated: 'roles.member_add',
  webhook_created: 'webhooks.create',
  webhook_deleted: 'webhooks.delete',
  webhook_updated: 'webhooks.update',
  wildcard_assigned: 'nodes.assign_wildcard',
  wildcard_removed: 'nodes.unassign_wildcard',
}

/** Types that no single request causes, with the file that makes them happen and what is looked for there. */
const ELSEWHERE: Readonly<Record<string, readonly [file: string, text: string]>> = {
  alert: ['test/daemon/alerts/thresholds.test.ts', `of('alert')`],
  // Written together with the one above.
  alert_created: ['test/daemon/alerts/thresholds.test.ts', `of('alert')`],
  // A migration that goes its way causes them.
  ...Object.fromEntries(
    [
      ...['migration_started', 'migration_status', 'migration_progress', 'migration_step_updated'],
      ...['migration_paused', 'migration_completed', 'migration_failed', 'migration_cancelled'],
    ].map((type) => [type, ['test/daemon/migration/migration.test.ts', type]] as const),
  ),
  migration_step_progress: ['test/long/migration-acceptance.test.ts', 'migration_step_progress'],
  migration_throttled: ['test/long/migration-acceptance.test.ts', 'migration_throttled'],
  // A game causes it, and no request.
  eula_required: ['test/daemon/servers/life-settings.test.ts', `of('eula_required')`],
}

/** Types of api.md §9.7 that nothing in this program can cause, by the work that they belong to. */
const NOT_BUILT: Readonly<Record<string, readonly string[]>> = {
  'the life of a server: mods, updates of agents': [
    ...['mod_install_complete', 'mod_uninstall_complete', 'mod_update_complete', 'plugin_install_complete'],
    ...['plugin_uninstall_complete', 'plugin_update_complete', 'node_agent_update'],
  ],
  'not planned: there is no DNS provider, and figures of nodes have a stream of their own': [
    ...['dns_settings_updated', 'node_metrics'],
  ],
}

/** Who may see an event, by the beginning of its name as api.md §9.7 says it; anything else is the administration's. */
const READERS: readonly (readonly [RegExp, string])[] = [
  [/^user_/, 'user.read'],
  [/^migration_/, 'admin.write'],
  [/^(node|wildcard)_/, 'node.read'],
  [/^(template|nest)_/, 'template.read'],
  [/^location_/, 'location.read'],
  [/^role_/, 'role.read'],
  [/^api_key_/, 'apikey.manage'],
  [/^(database_host|backup_store|backup_policy)_/, 'admin.read'],
  [/^server_files_/, 'file.read'],
  [/^backup_(created|deleted)$/, 'backup.read'],
  [/^(server|eula|backup|task|database|mod|plugin_(un)?install|plugin_update_)/, 'server.read'],
  [/^alert(_|$)/, 'alert.read'],
]
const readerOf = (type: string): string => READERS.find(([names]) => names.test(type))?.[1] ?? 'admin.read'

const types = Object.keys(EVENTS).filter((type): type is EventType => ELSEWHERE[type] === undefined)
/** Rights that open no stream, so that their holders have another one beside them. */
const WITHOUT_STREAM: readonly string[] = ['alert.read', 'backup.read', 'file.read']
/** Rights that are looked at alone. */
const RIGHTS = [...ANY_ADMIN_PERMISSION, 'alert.read', 'backup.read', 'file.read'] as const
const BESIDE = 'role.read'
let home: string
let panel: TestPanel
let world: World
let begin: string
/** One reader for each right alone, and one who may everything. */
const readers = new Map<string, ConsoleReader>()

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-test-'))
  const before = await startPanel({ dataDir: home })
  await before.close()
  begin = `${await leaveAsOtherVersion(before.dataDir)}-0`
  panel = await startPanel({ dataDir: home, agent: true })
  world = await buildWorld(panel)
  for (const right of RIGHTS) readers.set(right, await follow(await keyOf(right)))
  readers.set('*', await follow(panel.adminToken))
})
afterAll(async () => {
  for (const reader of readers.values()) reader.close()
  await panel.close()
  await rm(home, { recursive: true, force: true })
})

describe('every type of event', () => {
  it('is caused here, or in the file that is named for it', async () => {
    const unbuilt = Object.values(NOT_BUILT).flat()
    expect(types.filter((type) => CAUSES[type] === undefined)).toEqual([])
    const known = [...Object.keys(CAUSES), ...Object.keys(ELSEWHERE)]
    expect(known.filter((type) => !isEventType(type) && !unbuilt.includes(type))).toEqual([])
    for (const [type, [file, text]] of Object.entries(ELSEWHERE)) {
      if (isEventType(type)) expect(await readFile(join(ROOT, file), 'utf8'), `${type} in ${file}`).toContain(text)
    }
  })

  it('of the specification is there, or stands on the list of what is not built', () => {
    const unbuilt = Object.values(NOT_BUILT).flat()
    expect(unbuilt.filter(isEventType)).toEqual([])
    expect(new Set([...Object.keys(EVENTS), ...unbuilt]).size).toBeGreaterThan(80)
  })

  it.each(types)('%s follows its write and reaches whom its right belongs to', async (type) => {
    const all = reader('*')
    const cause = CAUSES[type] ?? fail(type)
    const known = cause.length === 0 ? 0 : all.of(type).length
    if (typeof cause === 'string') await request(cause)
    else await cause(world)
    const frame = await all.until(type, () => all.of(type)[known])
    expect(EVENTS[type].data.safeParse(frame.data).error).toBeUndefined()
    expect(frame.data).toMatchObject({ type, timestamp: expect.stringMatching(/^\d{4}-.*Z$/) })
    const seeing = reader(readerOf(type))
    const seen = await seeing.until(`${type} by ${readerOf(type)}`, () =>
      seeing.frames.find(({ id }) => id === frame.id),
    )
    expect(seen).toEqual(frame)
  })
})

it('events say what api.md says of them, also where a change has a word of its own', () => {
  const last = (type: EventType) => reader('*').of(type).at(-1)?.data
  const since = expect.stringMatching(/^\d{4}-.*Z$/)
  expect(last('user_created')?.['user']).toMatchObject({ createdAt: since, updatedAt: since, roles: [] })
  expect(last('role_updated')).toMatchObject({ change: 'permission_added' })
  const access = reader('*')
    .of('server_updated')
    .map(({ data }) => data['change'])
  expect(access).toEqual(expect.arrayContaining(['access_updated', 'invite_created']))
})

describe('a holder of one right', () => {
  it.each(RIGHTS)('%s is sent nothing that belongs to another', async (permission) => {
    // Events come in the order of their ids: when the last is there, so is everything before it.
    await request('locations.create')
    const all = reader('*')
    const mine = (frames: readonly WireFrame[]) =>
      frames.filter(({ id, event }) => id !== undefined && sees(permission, event)).map(({ id }) => id)
    const last = lastOf(mine(all.frames))
    const own = reader(permission)
    await own.until('the last of its events', () => own.frames.some(({ id }) => id === last))
    const got = own.frames.flatMap(({ id }) => (id === undefined ? [] : [id]))
    expect(got.slice(0, got.indexOf(last) + 1)).toEqual(mine(all.frames.slice(0, placeOf(all, last) + 1)))
  })

  it.each(RIGHTS)('%s that comes back is sent what came after its marker, each once', async (permission) => {
    const ids = reader(permission).frames.flatMap(({ id }) => (id === undefined ? [] : [id]))
    const middle = Math.floor(ids.length / 2)
    const again = await follow(await keyOf(permission), ids[middle])
    try {
      expect(again.frames[0]?.data).toMatchObject({ resumed: true, missed: false })
      const rest = ids.slice(middle + 1)
      await again.until('the rest', () => again.frames.length > rest.length)
      expect(again.frames.slice(1, 1 + rest.length).map(({ id }) => id)).toEqual(rest)
    } finally {
      again.close()
    }
  })

  it('is told when his marker is unknown', async () => {
    const stranger = await follow(panel.adminToken, 'otherinstallation-7')
    expect(stranger.frames[0]?.data).toMatchObject({ resumed: false, missed: true })
    stranger.close()
  })
})

it('who holds none of these rights gets no stream', async () => {
  for (const token of [await keyWith(panel, ['server.start']), world.powerless]) {
    const { status } = await fetch(`${panel.url}/api/admin/events`, { headers: { authorization: `Bearer ${token}` } })
    expect(status).toBe(403)
  }
})

function reader(permission: string): ConsoleReader {
  const found = readers.get(permission)
  if (found === undefined) throw new Error(`nobody reads by ${permission}`)
  return found
}

const sees = (right: string, type: string): boolean =>
  readerOf(type) === right ||
  (right === 'admin.write' && readerOf(type) === 'admin.read') ||
  (WITHOUT_STREAM.includes(right) && readerOf(type) === BESIDE)

const keyOf = (right: string): Promise<string> =>
  keyWith(panel, WITHOUT_STREAM.includes(right) ? [right, BESIDE] : [right])

const lastOf = (ids: readonly (string | undefined)[]): string => ids.at(-1) ?? ''

const placeOf = (all: ConsoleReader, last: string): number => all.frames.findIndex(({ id }) => id === last)

/** Opens the stream behind a marker and waits for its greeting. */
async function follow(token: string, marker = begin): Promise<ConsoleReader> {
  const opened = new ConsoleReader(`${panel.url}/api/admin/events`, token, { 'last-event-id': marker })
  await opened.until('the greeting', ({ frames }) => frames[0]?.event === 'connected')
  return opened
}

/** Sends the valid request of an endpoint. */
async function request(id: string): Promise<void> {
  const endpoint = endpoints.find((one) => one.id === id)
  const valid = await validOf(world, id)
  if (endpoint === undefined || valid === undefined) throw new Error(`there is no request for ${id}`)
  const reply = await callEndpoint(panel.url, endpoint, valid, { token: panel.adminToken })
  expect(reply.status, reply.text).toBe(endpoint.status)
}

/** Has an account locked by wrong passwords; answers whose it is. */
async function lockOut({ panel: at, next }: World): Promise<string> {
  const name = `locked-${next()}`
  const { id } = await signIn(at, name)
  const body = { email: `${name}@example.org`, password: 'Wrong-horse-1' }
  for (let tries = 0; tries < 5; tries++) {
    await at
      .as(undefined)
      .call(login, { body })
      .catch(() => undefined) // it is meant to fail
  }
  return id
}

/** Has the check of the database find a row that its table forbids. */
async function breakDatabase({ admin }: World): Promise<void> {
  const { path } = await admin.call(getDbStatus)
  const file = await Connection.open(path, 'existing')
  try {
    await file.exec("pragma ignore_check_constraints = on; insert into audit_anchor (id, seq, hash) values (2, 0, '')")
    await admin.call(getDbStatus, { query: { check: 'true' } })
    const all = reader('*')
    await all.until('the result', () => all.of('db_status_changed')[0])
  } finally {
    await file.exec('delete from audit_anchor where id = 2')
    await file.close()
  }
}

/** Makes the database one that another version has left; answers what its event ids begin with. */
async function leaveAsOtherVersion(dataDir: string): Promise<string> {
  const file = await Connection.open(join(dataDir, 'db', 'panel.db'), 'existing')
  try {
    await file.exec(`update setting set value = '"0.0.1"' where key = 'install.version'`)
    const [row] = await file.all("select value from setting where key = 'install.epoch'")
    return String(JSON.parse(String(row?.['value'])))
  } finally {
    await file.close()
  }
}

function fail(type: string): never {
  throw new Error(`nothing is known to cause ${type}`)
}
