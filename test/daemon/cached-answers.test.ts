import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { trimAudit } from '../../src/daemon/access/audit-chain.ts'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { settleAtRest, touchObserved } from '../../src/daemon/features/servers/servers/observed-rows.ts'
import { writeIntents } from '../../src/daemon/features/servers/servers/order-rows.ts'
import { setServerAccess } from '../../src/shared/api/access.ts'
import { createApiKey, deleteApiKey } from '../../src/shared/api/api-keys.ts'
import { login } from '../../src/shared/api/auth.ts'
import { updateLocation } from '../../src/shared/api/locations.ts'
import { updateNode } from '../../src/shared/api/nodes.ts'
import { createRole, updateRole } from '../../src/shared/api/roles.ts'
import { patchServer } from '../../src/shared/api/servers.ts'
import { suspendServer, unsuspendServer } from '../../src/shared/api/suspension.ts'
import { updateTemplate } from '../../src/shared/api/templates.ts'
import { createUser, updateUser } from '../../src/shared/api/users.ts'
import { createClient } from '../../src/shared/client.ts'
import { newId } from '../../src/shared/kernel/ids.ts'
import { isoTime, now } from '../../src/shared/kernel/time.ts'
import { addServer, type PlacePanel, place, startPlacePanel } from './place-panel.ts'

const PASSWORD = 'correct-Horse-8-battery'
const MINUTE = 60_000
const AUDIT_PATH = '/api/admin/audit-logs'

let panel: PlacePanel
let world: World
let other: Connection
let passed = 0

interface World {
  readonly locationId: string
  readonly nodeId: string
  readonly templateId: string
  readonly roleId: string
  readonly ottoId: string
  readonly servers: readonly string[]
  /** Those that come and go. */
  readonly more: string[]
  readonly paths: readonly string[]
  /** By name, as they call: one of them by a key that is made anew now and then. */
  readonly tokens: Map<string, string>
  keyId: string
}

beforeAll(async () => {
  panel = await startPlacePanel({ uncachedTwin: true })
  other = await Connection.open(panel.file, 'existing')
  await other.exec('pragma busy_timeout = 5000; pragma foreign_keys = on')
  // How many answers are compared in a minute is up to the machine.
  await panel.db.write((tx) => panel.settings.set(tx, 'limits.requestsPerMinute', 1_000_000))
  world = await makeWorld()
})

afterAll(async () => {
  await other.close()
  await panel.close()
})

test('pages of the audit log are what its export says, after every way in which rows come, change and go', async () => {
  for (let i = 0; i < 2; i++) await WRITES['much happens']({ nth: i, text: 'busy' }) // two pages of the longest
  for (const what of AUDIT_WRITES) {
    for (const nth of [0, 1, 2]) {
      await WRITES[what]({ nth, text: `step${nth}` })
      await compareAudit(`${what} (${nth})`)
      await WRITES['a location is renamed']({ nth, text: 'after it' }) // from what is known now only its row is read
      await compareAudit(`${what} (${nth}), and one more row`)
    }
  }
}, 60_000)

test('answers 304 to who has the answer, and the answer again when it has changed', async () => {
  const token = world.tokens.get('root') ?? ''
  const path = `/api/locations/${world.locationId}`
  const first = await get(panel.url, path, token)
  const known = { 'if-none-match': first.etag ?? '' }
  expect(first.etag).toMatch(/^"[\w-]{27}"$/)
  const same = await get(panel.url, path, token, known)
  expect(same).toEqual({ status: 304, etag: first.etag, text: '' })
  await WRITES['a location is renamed']({ nth: 0, text: 'elsewhere' })
  const changed = await get(panel.url, path, token, known)
  expect(changed.status).toBe(200)
  expect(changed.etag).not.toBe(first.etag)
  // Whoever may not see it learns nothing by an etag.
  expect((await get(panel.url, path, 'pst_nobody', { 'if-none-match': changed.etag ?? '' })).status).toBe(401)
})

test('a key that may do nothing sees nothing of what its user has been answered, whose role is empty by now', async () => {
  const role = await panel.admin.call(createRole, { body: { name: 'key makers', permissions: ['apikey.manage'] } })
  const person = { email: 'kim@example.org', username: 'kim', password: PASSWORD }
  const kim = await panel.admin.call(createUser, { body: { ...person, roleIds: [role.id] } })
  const { token } = await signIn(person.email)
  const own = createClient({ baseUrl: panel.url, fetch, token })
  const { key } = await own.call(createApiKey, { body: { name: 'nothing', permissions: [] } })
  await panel.admin.call(updateRole, { params: { roleId: role.id }, body: { permissions: [] } })
  const params = { serverId: serverAt(0) as never }
  await panel.admin.call(setServerAccess, { params, body: { targetUserId: kim.id, permissions: ['server.read'] } })
  for (const path of ['/api/servers', `/api/servers/${serverAt(0)}`]) {
    for (let i = 0; i < 3; i++) expect((await get(panel.url, path, token)).text).toContain(serverAt(0))
    expect((await get(panel.url, path, key)).text).not.toContain(serverAt(0))
  }
})

test('far more answers than are made at once are each what they are alone, also when some of them are refused', async () => {
  const token = world.tokens.get('root') ?? ''
  const paths = Array.from({ length: 60 }, (_, i) =>
    i % 10 === 9 ? '/api/locations/loc_nowhere' : `${AUDIT_PATH}?limit=2&page=${i + 1}`,
  )
  const together = await Promise.all(paths.map((path) => get(panel.url, path, token)))
  for (const [place, path] of paths.entries()) {
    const alone = await get(panel.twinUrl, path, token)
    const shown = ({ status, text }: { status: number; text: string }) => ({ path, status, body: withoutIds(text) })
    expect(shown(together[place] ?? alone)).toEqual(shown(alone))
  }
  expect(new Set(together.map(({ status }) => status))).toEqual(new Set([200, 404]))
})

test('an answer is never older than the last write, whoever wrote, and whatever ended meanwhile', async () => {
  const writes = Object.keys(WRITES) as (keyof typeof WRITES)[]
  const one = fc.record({ what: fc.constantFrom(...writes), nth: fc.nat(2), text: fc.stringMatching(/^[a-z]{3,12}$/) })
  await fc.assert(
    fc.asyncProperty(fc.array(one, { minLength: 4, maxLength: 12 }), async (steps) => {
      await compareAll('at the beginning', 3)
      for (const step of steps) {
        await WRITES[step.what](step)
        await compareAll(step.what)
      }
    }),
    { numRuns: 5, endOnFailure: true },
  )
}, 110_000)

interface Step {
  readonly nth: number
  readonly text: string
}

/** What happens between two looks. */
const WRITES = {
  'a server is renamed': async ({ nth, text }: Step) => {
    const params = { serverId: serverAt(nth) as never }
    const renamed = panel.admin.call(patchServer, { params, body: { name: `${text} ${Date.now()}` } })
    await renamed.catch((error: unknown) => expect(error).toMatchObject({ code: 'SERVER_SUSPENDED' }))
  },
  'a server is renamed by another program': ({ nth, text }: Step) =>
    sql('update server set name = ? where id = ?', [`${text} ${Date.now()}`, serverAt(nth)]),
  'an owner changes': ({ nth }: Step) =>
    panel.db.write(async ({ q }) => {
      const ownerId = nth === 0 ? world.ottoId : await rootId()
      await q.updateTable('server').set({ ownerId }).where('id', '=', serverAt(nth)).execute()
    }),
  'an agent reports a state': ({ nth }: Step) =>
    panel.db.write(async ({ q, now: observedAt }) => {
      const power = nth === 0 ? 'running' : 'offline'
      await q.updateTable('server').set({ power, observedAt, pid: nth }).where('id', '=', serverAt(nth)).execute()
    }),
  'an agent reports several at once': ({ nth }: Step) =>
    panel.db.write(async ({ q, now: at }) => {
      await touchObserved(q, { ids: JSON.stringify(world.servers.slice(nth)), at })
      await settleAtRest(q, { ids: JSON.stringify(world.servers) })
    }),
  'orders are given to several': ({ nth, text }: Step) =>
    panel.db.write(async ({ q, now }) => {
      const rows = await q.selectFrom('server').select(['id', 'generation']).execute()
      const desired = text < 'n' ? 'running' : 'stopped'
      const some = rows
        .slice(nth)
        .map(({ id, generation }) => ({ id, before: generation, generation: generation + 1, desired }) as const)
      await writeIntents(q, some, now)
    }),
  'a server is added': async () => {
    if (world.more.length > 4) return
    const at = { nodeId: world.nodeId, locationId: world.locationId, templateId: world.templateId }
    world.more.push((await addServer(panel, at, { primaryPort: 25_570 + world.more.length })).id)
  },
  'a server goes': async ({ nth }: Step) => {
    const id = world.more[nth]
    await panel.db.write(
      async ({ q }) =>
        void (await q
          .deleteFrom('server')
          .where('id', '=', id ?? '')
          .execute()),
    )
  },
  'an agent reports usage': async ({ nth }: Step) => {
    panel.usage.set(serverAt(nth), {
      ...{
        cpuCores: 1,
        cpuPercent: Date.now() % 100,
        memoryUsageMb: 5,
        memoryTotalMb: 10,
        diskUsageMb: Date.now() % 1000,
      },
      ...{ diskTotalMb: 5, diskIoMb: 1, networkRxBytes: '1', networkTxBytes: '2', processes: 1, uptimeMs: 5 },
      ...{ playersOnline: nth, playersMax: 9, playerNames: [], timestamp: now(panel.clock) },
    })
  },
  'a node comes and goes': async () => {
    if (!panel.online.delete(world.nodeId)) panel.online.add(world.nodeId)
  },
  'a node was seen': () =>
    panel.db.write(async ({ q, now: lastSeenAt }) => {
      await q.updateTable('node').set({ lastSeenAt }).where('id', '=', world.nodeId).execute()
    }),
  'a node is renamed': async ({ text }: Step) => {
    const node = { maxMemoryMb: 1024, maxCpuCores: 4, name: `${text}-${Date.now()}` }
    await panel.admin.call(updateNode, { params: { nodeId: world.nodeId as never }, body: node })
  },
  'a location is renamed': async ({ text }: Step) => {
    const body = { name: `${text} ${Date.now()}` }
    await panel.admin.call(updateLocation, { params: { locationId: world.locationId as never }, body })
  },
  'a template is changed': async ({ text }: Step) => {
    const params = { templateId: world.templateId as never }
    await panel.admin.call(updateTemplate, { params, body: { name: `${text} ${Date.now()}`, stopCommand: text } })
  },
  'a template is changed by another program': ({ text }: Step) =>
    sql('update template set name = ? where id = ?', [`${text} ${Date.now()}`, world.templateId]),
  'a server is suspended, or no longer': async ({ nth }: Step) => {
    const params = { serverId: serverAt(nth) as never }
    await panel.admin
      .call(suspendServer, { params, body: { reason: 'late' } })
      .catch(() => panel.admin.call(unsuspendServer, { params }))
  },
  'a grant is given that ends': ({ nth }: Step) => grant(serverAt(nth), isoTime(panel.clock.nowMs() + 15 * MINUTE)),
  'a grant is given for ever': ({ nth }: Step) => grant(serverAt(nth), null),
  'a grant is taken away': ({ nth }: Step) =>
    panel.db.write(async ({ q }) => {
      await q.deleteFrom('serverAccess').where('serverId', '=', serverAt(nth)).execute()
    }),
  'a grant is taken away by another program': ({ nth }: Step) =>
    sql('delete from server_access where server_id = ?', [serverAt(nth)]),
  'a node is assigned for a while': () =>
    panel.db.write(async ({ q, now: assignedAt }) => {
      const expiresAt = isoTime(panel.clock.nowMs() + 25 * MINUTE)
      const who = { userId: null, roleId: world.roleId, nodeId: world.nodeId, assignedBy: null }
      await q.deleteFrom('nodeAssignment').execute()
      await q
        .insertInto('nodeAssignment')
        .values({ id: newId('asg', panel.clock), ...who, assignedAt, expiresAt })
        .execute()
    }),
  'a role may do something else': async ({ nth }: Step) => {
    const permissions =
      [['node.read'], ['node.read', 'admin.read', 'location.read'], ['server.read', 'template.read']][nth] ?? []
    await panel.admin.call(updateRole, { params: { roleId: world.roleId as never }, body: { permissions } })
  },
  'a role is taken away by another program': () => sql('delete from user_role where role_id = ?', [world.roleId]),
  'a role is given': () =>
    panel.db.write(async (tx) => {
      const row = { userId: world.ottoId, roleId: world.roleId }
      await tx.q
        .insertInto('userRole')
        .values(row)
        .onConflict((conflict) => conflict.doNothing())
        .execute()
      tx.onCommit(() => panel.credentials.changed())
    }),
  'a key is revoked': async () => {
    await panel.admin.call(deleteApiKey, { params: { keyId: world.keyId as never } }).catch(() => undefined) // it may be gone
  },
  'a key is revoked by another program': () => sql('delete from api_key where id = ?', [world.keyId]),
  'a key is made': () => makeKey(),
  'time passes': async ({ nth }: Step) => panel.advance(([6, 16, 31][nth] ?? 1) * MINUTE),
  'a key expires': async () => {
    if (passed > 15) return // sessions end as well
    passed += 1
    panel.advance(61 * MINUTE)
  },
  'a setting is changed': ({ text }: Step) => panel.db.write((tx) => panel.settings.set(tx, 'panel.name', text)),
  'a user is renamed': async ({ nth, text }: Step) => {
    const userId = (nth === 0 ? await rootId() : world.ottoId) as never
    const body = { email: `${text}${Date.now()}@example.org` }
    await panel.admin.call(updateUser, { params: { userId }, body })
  },
  'a user is renamed by another program': ({ text }: Step) =>
    sql('update user set email = ? where id = ?', [`${text}${Date.now()}@example.com`, world.ottoId]),
  'the oldest rows of the audit log go': async () =>
    void (await trimAudit(panel.db, isoTime(panel.clock.nowMs() - MINUTE))),
  'rows of the audit log are added by another program': ({ nth, text }: Step) =>
    sql(
      `insert into audit_log (id, action, resource, details, created_at)
       select 'aud_' || hex(randomblob(8)), ?, 'server', ?, ? from json_each('[1,2,3]')`,
      [text, nth === 0 ? '{"a": [1, "\\n"]}' : 'no JSON', isoTime(panel.clock.nowMs() - nth * MINUTE)],
    ),
  'a row of the audit log is altered by another program': ({ nth, text }: Step) =>
    sql('update audit_log set action = ? where seq = (select max(seq) - ? from audit_log)', [text, nth]),
  'a row of the audit log is taken out by another program': ({ nth }: Step) =>
    sql('delete from audit_log where seq = (select max(seq) - ? from audit_log)', [nth + 1]),
  'the clock is set back for a while': async (step: Step) => {
    panel.advance(-(step.nth + 1) * MINUTE)
    await WRITES['much happens'](step)
    panel.advance((step.nth + 1) * MINUTE)
  },
  'much happens': ({ text }: Step) =>
    panel.db.write(async ({ q, now: createdAt }) => {
      const row = { action: text, resource: 'server', resourceId: null, details: null, createdAt }
      const nobody = { userId: null, apiKeyId: null, ipAddress: null, userAgent: null, requestId: null }
      const rows = Array.from({ length: 70 }, () => ({ id: newId('aud', panel.clock), ...row, ...nobody }))
      await q.insertInto('auditLog').values(rows).execute()
    }),
  'something is refused': async () => {
    const params = { serverId: serverAt(0) as never }
    await panel.admin.call(patchServer, { params, body: { allocatedMemoryMb: 1_000_000 } }).catch(() => undefined)
  },
} satisfies Record<string, (step: Step) => Promise<unknown>>

const AUDIT_WRITES = [
  'a user is renamed',
  'a user is renamed by another program',
  'rows of the audit log are added by another program',
  'a row of the audit log is altered by another program',
  'a row of the audit log is taken out by another program',
  'the clock is set back for a while',
  'much happens',
  'time passes',
  'the oldest rows of the audit log go',
] as const satisfies (keyof typeof WRITES)[]

/** Pages of the audit log by the query that asks for them; which rows they have, and what these say, comes from memory without a cache of answers, too. */
const AUDIT_PAGES = new Map<string, (rows: readonly Exported[]) => readonly Exported[]>([
  ['limit=5', (rows) => rows.slice(0, 5)],
  ['limit=3&page=2', (rows) => rows.slice(3, 6)],
  ['limit=40&page=2', (rows) => rows.slice(40, 80)],
  ['limit=7&resource=location', (rows) => rows.filter(({ resource }) => resource === 'location').slice(0, 7)],
])

interface Exported {
  readonly resource: string
}

/** All pages of the audit log, compared with its export, which reads every row anew. */
async function compareAudit(after: string): Promise<void> {
  const exported = await get(panel.url, '/api/admin/audit-logs/export?format=jsonl', panel.token)
  const rows = exported.text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Exported)
  for (const [query, of] of AUDIT_PAGES) {
    const { text } = await get(panel.url, `${AUDIT_PATH}?${query}`, panel.token)
    const { data } = JSON.parse(text) as { data: unknown }
    expect({ after, query, data }).toEqual({ after, query, data: of(rows) })
  }
}

/** All answers of both to everybody, again and again, so that what is compared after the next write has been cached and given before it. */
async function compareAll(after: string, rounds = 2): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const asked = [...world.tokens].flatMap(([who, token]) => world.paths.map((path) => ({ who, token, path })))
    const answers = await Promise.all(
      asked.map(async ({ who, token, path }) => {
        const ours = await get(panel.url, path, token)
        return { ask: `${who} ${path}`, ours, fresh: await get(panel.twinUrl, path, token) }
      }),
    )
    const shown = ({ status, text }: { status: number; text: string }) => ({ status, body: withoutIds(text) })
    for (const { ask, ours, fresh } of answers) {
      expect({ after, ask, ...shown(ours) }).toEqual({ after, ask, ...shown(fresh) })
    }
    await compareAudit(after)
  }
}

/** Refusals name the request. */
function withoutIds(text: string): string {
  return text.replace(/"requestId":"[^"]*"/, '')
}

async function get(url: string, path: string, token: string, headers: Record<string, string> = {}) {
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}`, ...headers } })
  return { status: response.status, etag: response.headers.get('etag'), text: await response.text() }
}

function serverAt(nth: number): string {
  return world.servers[nth % world.servers.length] ?? ''
}

async function sql(text: string, values: readonly unknown[]): Promise<void> {
  await other.run(text, values)
}

async function grant(serverId: string, expiresAt: ReturnType<typeof isoTime> | null): Promise<void> {
  await panel.db.write(async ({ q, now: createdAt }) => {
    const row = { permissions: JSON.stringify(['server.read', 'console.read']), filePaths: null, expiresAt }
    await q.deleteFrom('serverAccess').where('serverId', '=', serverId).execute()
    await q
      .insertInto('serverAccess')
      .values({
        id: newId('acc', panel.clock),
        serverId,
        userId: world.ottoId,
        ...row,
        createdAt,
        updatedAt: createdAt,
      })
      .execute()
  })
}

async function rootId(): Promise<string> {
  const row = await panel.db.read
    .selectFrom('user')
    .select('id')
    .where('username', '=', 'ada')
    .executeTakeFirstOrThrow()
  return row.id
}

async function makeKey(): Promise<void> {
  const permissions = [`server.read:${world.servers[0]}`, 'node.read']
  const body = { name: `key ${Date.now()}`, permissions: permissions as never, expiresIn: 3600 }
  const { id, key } = await panel.admin.call(createApiKey, { body })
  world.keyId = id
  world.tokens.set('key', key)
}

async function signIn(email: string): Promise<{ token: string }> {
  const body = { email, password: PASSWORD, rememberMe: true }
  const session = await createClient({ baseUrl: panel.url, fetch }).call(login, { body })
  if (!('token' in session)) throw new Error('the sign-in wants more')
  return session
}

async function makeWorld(): Promise<World> {
  const at = await place(panel)
  const servers: string[] = []
  for (const primaryPort of [25_565, 25_566, 25_567]) servers.push((await addServer(panel, at, { primaryPort })).id)
  const role = await panel.admin.call(createRole, { body: { name: 'watchers', permissions: ['node.read'] } })
  const person = { email: 'otto@example.org', username: 'otto', password: PASSWORD }
  const otto = await panel.admin.call(createUser, { body: { ...person, roleIds: [role.id] } })
  const session = await signIn(person.email)
  const paths = [
    '/api/settings/public',
    '/api/auth/profile',
    '/api/nodes',
    `/api/nodes/${at.nodeId}`,
    '/api/servers?limit=2',
    '/api/servers?include=template,effectivePermissions&sort=name',
    '/api/servers?sort=status&status=running',
    '/api/admin/servers',
    ...servers.map((id) => `/api/servers/${id}`),
    `/api/locations/${at.locationId}`,
    '/api/templates',
    ...Array.from(AUDIT_PAGES.keys(), (query) => `${AUDIT_PATH}?${query}`),
  ]
  const tokens = new Map([
    ['root', panel.token],
    ['otto', session.token],
  ])
  world = { ...at, servers, more: [], roleId: role.id, ottoId: otto.id, paths, tokens, keyId: '' }
  await makeKey()
  return world
}
