import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Caller } from '../../../src/daemon/access/caller.ts'
import {
  permissionsOnServers,
  permit,
  permitByBody,
  serverPermissions,
  visibleNodes,
  visibleServers,
} from '../../../src/daemon/access/permit.ts'
import { listNodes } from '../../../src/daemon/features/fleet/nodes/rows.ts'
import { listServerRows } from '../../../src/daemon/features/servers/servers/rows.ts'
import type { Client } from '../../../src/shared/client.ts'
import type { Access } from '../../../src/shared/kernel/contract.ts'
import { PanelError } from '../../../src/shared/kernel/errors.ts'
import { PERMISSIONS, type Permission } from '../../../src/shared/kernel/permissions.ts'
import { IsoTime, now } from '../../../src/shared/kernel/time.ts'
import { type AccountsPanel, openSetUpPanel, person, serverOf } from '../accounts-panel.ts'

let accounts: AccountsPanel & { admin: Client; adminId: string }
let annId: string
let roleId: string
/** A server of Ann, one of the administrator, and one that is not there; and their nodes. */
let servers: [string, string, string]
let nodes: [string, string, string]
let owners: Record<string, string>
beforeAll(async () => {
  accounts = await openSetUpPanel()
  const ann = await person(accounts, 'ann', [])
  annId = ann.id
  roleId = ann.roleId
  servers = [await serverOf(accounts, annId), await serverOf(accounts, accounts.adminId), 'srv_none']
  owners = { [servers[0]]: annId, [servers[1]]: accounts.adminId }
  const rows = await accounts.db.read.selectFrom('server').select(['id', 'nodeId']).execute()
  const nodeOf = (id: string): string => rows.find((row) => row.id === id)?.nodeId ?? ''
  nodes = [nodeOf(servers[0]), nodeOf(servers[1]), 'node_none']
})
afterAll(() => accounts.close())

const at = () => ({ q: accounts.db.read, now: now(accounts.clock) })

/** What the owner of a server may do with it, written down a second time from the specification's table. */
const OWNER =
  /^(server\.(read|start|stop|install|reinstall|rebuild|update|users|transfer|delete|schedule)|console\.(read|write)|file\.(read|write|sftp)|backup\.(read|create|restore|delete)|database\.(read|create|rotate|delete)|alert\.(read|create|update|delete))$/

/** The rules of granting in plain words. */
function held(set: readonly string[], permission: string, id?: string): boolean {
  for (const text of set) {
    if (text === '*') return true
    if (text === 'admin.write' && permission === 'admin.read') return true
    const [name, scope] = text.split(':')
    if (name === permission && (scope === undefined || scope === '*' || scope === id)) return true
  }
  return false
}

/** What was drawn for the one who asks beside roles and key: grants on servers, and nodes that are his, some of them over. */
interface Related {
  readonly grants: readonly { readonly on: number; readonly permissions: readonly string[]; readonly over: boolean }[]
  /** `on` 3: every node. */
  readonly assignments: readonly { readonly on: number; readonly byRole: boolean; readonly over: boolean }[]
}

interface Person {
  readonly userId: string
  readonly permissions: readonly string[]
  readonly scope: readonly string[] | null
  readonly related: Related
}

const reaches = ({ related }: Person, place: number): boolean =>
  related.assignments.some(({ on, over }) => !over && (on === place || on === 3))

function mayOnServer(one: Person, permission: string, serverId: string): boolean {
  if (held(one.permissions, permission, serverId)) return true
  if (one.scope !== null && !held(one.scope, permission, serverId)) return false
  const place = servers.indexOf(serverId)
  if (place === 2) return false
  if (OWNER.test(permission) && (owners[serverId] === one.userId || reaches(one, place))) return true
  return one.related.grants.some(
    ({ on, over, permissions }) => on === place && !over && permissions.includes(permission),
  )
}

function mayOnNode(one: Person, permission: string, place: number): boolean {
  const id = nodes[place] ?? ''
  if (held(one.permissions, permission, id)) return true
  if (!['node.read', 'node.view_stats', 'server.create'].includes(permission)) return false
  return (one.scope === null || held(one.scope, permission, id)) && reaches(one, place)
}

const permission = fc.constantFrom(...PERMISSIONS.filter((name) => name !== '*'))
const grant = fc.oneof(
  { weight: 8, arbitrary: permission },
  { weight: 4, arbitrary: fc.tuple(permission, fc.nat(2)).map(([name, i]) => `${name}:#${i}`) },
  { weight: 1, arbitrary: permission.map((name) => `${name}:*`) },
  { weight: 1, arbitrary: fc.constant('*') },
)
const grants = fc.array(grant, { maxLength: 6 })
const onServer = permission.filter((name) => OWNER.test(name))
const rarely = fc.integer({ min: 0, max: 3 }).map((n) => n === 0)
const related = fc.record({
  grants: fc.uniqueArray(
    fc.record({ on: fc.nat(1), permissions: fc.array(onServer, { minLength: 1, maxLength: 8 }), over: rarely }),
    { selector: ({ on }) => on, maxLength: 2 },
  ),
  assignments: fc.uniqueArray(fc.record({ on: fc.constantFrom(0, 1, 1, 3), byRole: fc.boolean(), over: rarely }), {
    selector: ({ on, byRole }) => `${on} ${byRole}`,
    maxLength: 2,
  }),
})
const drawn = fc.record({ isAnn: fc.boolean(), permissions: grants, scope: fc.option(grants), related })
interface Drawn {
  readonly isAnn: boolean
  readonly permissions: string[]
  readonly scope: string[] | null
  readonly related: Related
}

/** Writes down what was drawn, in the place of what was there. */
async function relate({ userId, related: request }: Person): Promise<void> {
  const [past, future] = ['2020-01-01T00:00:00.000Z', '2999-01-01T00:00:00.000Z'].map((text) => IsoTime.parse(text))
  const end = (over: boolean) => (over ? past : future) ?? null
  await accounts.db.write(async ({ q, now: stamp }) => {
    await q.deleteFrom('serverAccess').execute()
    await q.deleteFrom('nodeAssignment').execute()
    await q.deleteFrom('userRole').where('roleId', '=', roleId).execute()
    await q.insertInto('userRole').values({ userId, roleId }).execute()
    for (const { on, permissions, over } of request.grants) {
      const row = { id: `acc_${on}`, serverId: servers[on] ?? '', userId, permissions: JSON.stringify(permissions) }
      await q
        .insertInto('serverAccess')
        .values({ ...row, expiresAt: end(over), createdAt: stamp, updatedAt: stamp })
        .execute()
    }
    for (const { on, byRole, over } of request.assignments) {
      const target = byRole ? { userId: null, roleId } : { userId, roleId: null }
      const row = { id: `asg_${on}_${byRole}`, nodeId: on === 3 ? null : (nodes[on] ?? ''), ...target }
      await q
        .insertInto('nodeAssignment')
        .values({ ...row, assignedBy: null, assignedAt: stamp, expiresAt: end(over) })
        .execute()
    }
  })
}

function personOf({ isAnn, permissions, scope, related: request }: Drawn): Person {
  const named = (list: string[]) =>
    list.map((text) => text.replace(/#(\d)/, (_, i: string) => servers[Number(i)] ?? ''))
  return {
    userId: isAnn ? annId : accounts.adminId,
    permissions: named(permissions),
    scope: scope === null ? null : named(scope),
    related: request,
  }
}

function callerOf({ userId, permissions, scope }: Omit<Person, 'related'>): Caller {
  const kind = scope === null ? 'session' : 'apiKey'
  const rest = { credentialId: 'x', expiresAt: null, rateLimit: null }
  return { kind, userId, permissions: new Set(permissions), scope: scope === null ? null : new Set(scope), ...rest }
}

const allowed = (access: Access, caller: Caller | undefined, params: Record<string, string>): Promise<string> =>
  answerOf(() => permit(at(), access, caller, params))

async function answerOf(decision: () => Promise<void>): Promise<string> {
  try {
    await decision()
    return 'allowed'
  } catch (error) {
    if (error instanceof PanelError) return error.code
    throw error
  }
}

const word = (may: boolean): string => (may ? 'allowed' : 'PERMISSION_DENIED')

describe('permit', () => {
  it('decides as the plain rules do, for every kind of access', async () => {
    const wanted = fc.uniqueArray(permission, { minLength: 1, maxLength: 3 })
    await fc.assert(
      fc.asyncProperty(drawn, wanted, fc.nat(2), async (draw, names, place) => {
        const one = personOf(draw)
        await relate(one)
        const caller = callerOf(one)
        const serverId = servers[place] ?? ''
        const [first = 'admin.read'] = names
        const on = (name: Permission) => mayOnServer(one, name, serverId)
        const ask = (access: Access, params = {}) => allowed(access, caller, params)
        expect(await ask({ panel: first })).toBe(word(held(one.permissions, first)))
        expect(await ask({ anyOf: names })).toBe(word(names.some((name) => held(one.permissions, name))))
        expect(await ask({ node: first }, { nodeId: nodes[place] ?? '' })).toBe(word(mayOnNode(one, first, place)))
        expect(await ask({ server: names }, { serverId })).toBe(word(names.every(on)))
        const byBody = { possible: names, exact: () => names }
        expect(await ask({ serverByBody: byBody }, { serverId })).toBe(word(names.some(on)))
        expect(await serverPermissions(at(), caller, serverId, names)).toEqual(names.filter(on))
        const orOnNode = { anyOf: names, orOnNode: first }
        const mayThere = names.some((name) => held(one.permissions, name)) || mayOnNode(one, first, place)
        const body = { nodeId: nodes[place] }
        expect(await answerOf(() => permitByBody(at(), orOnNode, caller, { params: {}, body }))).toBe(word(mayThere))
        if (mayThere) expect(await ask(orOnNode)).toBe('allowed')
        const himself = { server: names, orSelf: 'userId' } as const
        expect(await ask(himself, { serverId, userId: one.userId })).toBe('allowed')
        expect(await ask(himself, { serverId, userId: 'usr_none' })).toBe(word(names.every(on)))
      }),
      { numRuns: 250 },
    )
  })

  it('lists what one may do with a server, and the servers and nodes that one may see, by the same rules', async () => {
    await fc.assert(
      fc.asyncProperty(drawn, async (draw) => {
        const one = personOf(draw)
        await relate(one)
        const rows = [0, 1].map((place) => {
          const id = servers[place] ?? ''
          return { id, ownerId: owners[id] ?? '', nodeId: nodes[place] ?? '' }
        })
        const may = await permissionsOnServers(at(), callerOf(one), rows)
        for (const row of rows) {
          const expected = PERMISSIONS.filter((name) => OWNER.test(name) && mayOnServer(one, name, row.id))
          expect([...may(row)].sort()).toEqual(expected.sort())
        }
        // A key that reaches single resources sees them by name: what its user holds there is part of its permissions.
        if (one.scope?.some((text) => /^(server|node)\.read:[^*]/.test(text)) === true) return
        const filter = { page: 1, limit: 10, sort: 'name', order: 'asc' } as const
        const seen = await listServerRows(accounts.db.read, await visibleServers(at(), callerOf(one)), filter)
        const ids = seen.total
        expect(ids).toBe(rows.filter(({ id }) => mayOnServer(one, 'server.read', id)).length)
        const visibility = await visibleNodes(at(), callerOf(one))
        const found = await listNodes(accounts.db.read, { page: 1, limit: 10, visibility })
        const expected = [0, 1].filter((place) => mayOnNode(one, 'node.read', place)).map((place) => nodes[place])
        expect(found.items.map(({ id }) => id).sort()).toEqual(expected.sort())
      }),
      { numRuns: 200 },
    )
  })

  it('lets everybody in where it is public, and whoever is signed in where that is enough', async () => {
    const nobody = callerOf({ userId: annId, permissions: [], scope: [] })
    expect(await allowed('public', undefined, {})).toBe('allowed')
    expect(await allowed('session', undefined, {})).toBe('UNAUTHENTICATED')
    expect(await allowed('session', nobody, {})).toBe('allowed')
    for (const access of [{ panel: 'admin.read' }, { server: ['server.read'] }] as const) {
      expect(await allowed(access, undefined, { serverId: servers[0] })).toBe('UNAUTHENTICATED')
    }
  })

  it('lets everybody read all-servers, which shows each what is his, and nobody do anything to it', async () => {
    const nobody = callerOf({ userId: annId, permissions: [], scope: null })
    const params = { serverId: 'all-servers' }
    expect(await allowed({ server: ['server.read'] }, nobody, params)).toBe('allowed')
    expect(await allowed({ server: ['server.start'] }, nobody, params)).toBe('PERMISSION_DENIED')
    expect(await allowed({ server: ['server.read', 'console.read'] }, nobody, params)).toBe('PERMISSION_DENIED')
  })
})
