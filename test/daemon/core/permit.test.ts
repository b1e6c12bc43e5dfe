import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Caller } from '../../../src/daemon/core/caller.ts'
import { permissionsOnServer, permit, serverPermissions, visibleServers } from '../../../src/daemon/core/permit.ts'
import type { Client } from '../../../src/shared/client.ts'
import type { Access } from '../../../src/shared/contract.ts'
import { PanelError } from '../../../src/shared/errors.ts'
import { PERMISSIONS, type Permission } from '../../../src/shared/permissions.ts'
import { type AccountsDoor, openSetUpDoor, person, serverOf } from '../accounts-door.ts'

let door: AccountsDoor & { admin: Client; adminId: string }
let annId: string
/** A server of Ann, one of the administrator, and one that is not there. */
let servers: [string, string, string]
let owners: Record<string, string>
beforeAll(async () => {
  door = await openSetUpDoor()
  annId = (await person(door, 'ann', [])).id
  servers = [await serverOf(door, annId), await serverOf(door, door.adminId), 'srv_none']
  owners = { [servers[0]]: annId, [servers[1]]: door.adminId }
})
afterAll(() => door.close())

/** What the owner of a server may do with it, written down a second time from the specification's table. */
const OWNER =
  /^(server\.(read|start|stop|install|reinstall|rebuild|update|users|transfer|delete|schedule)|console\.(read|write)|file\.(read|write)|backup\.(read|create|restore|delete)|database\.(read|create|rotate|delete)|alert\.(read|create|update|delete))$/

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

function mayOnServer(one: Person, permission: string, serverId: string): boolean {
  if (held(one.permissions, permission, serverId)) return true
  if (owners[serverId] !== one.userId || !OWNER.test(permission)) return false
  return one.scope === null || held(one.scope, permission, serverId)
}

interface Person {
  readonly userId: string
  readonly permissions: readonly string[]
  readonly scope: readonly string[] | null
}

const permission = fc.constantFrom(...PERMISSIONS.filter((name) => name !== '*'))
const grant = fc.oneof(
  { weight: 8, arbitrary: permission },
  { weight: 4, arbitrary: fc.tuple(permission, fc.nat(2)).map(([name, i]) => `${name}:#${i}`) },
  { weight: 1, arbitrary: permission.map((name) => `${name}:*`) },
  { weight: 1, arbitrary: fc.constant('*') },
)
const grants = fc.array(grant, { maxLength: 6 })
const drawn = fc.record({ isAnn: fc.boolean(), permissions: grants, scope: fc.option(grants) })

function personOf({
  isAnn,
  permissions,
  scope,
}: {
  isAnn: boolean
  permissions: string[]
  scope: string[] | null
}): Person {
  const named = (list: string[]) =>
    list.map((text) => text.replace(/#(\d)/, (_, i: string) => servers[Number(i)] ?? ''))
  return {
    userId: isAnn ? annId : door.adminId,
    permissions: named(permissions),
    scope: scope === null ? null : named(scope),
  }
}

function callerOf({ userId, permissions, scope }: Person): Caller {
  const kind = scope === null ? 'session' : 'apiKey'
  const rest = { credentialId: 'x', expiresAt: null, rateLimit: null }
  return { kind, userId, permissions: new Set(permissions), scope: scope === null ? null : new Set(scope), ...rest }
}

async function allowed(access: Access, caller: Caller | undefined, params: Record<string, string>): Promise<string> {
  try {
    await permit(door.db.read, access, caller, params)
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
      fc.asyncProperty(drawn, wanted, fc.nat(2), async (draw, names, at) => {
        const one = personOf(draw)
        const caller = callerOf(one)
        const serverId = servers[at] ?? ''
        const [first = 'admin.read'] = names
        const on = (name: Permission) => mayOnServer(one, name, serverId)
        const ask = (access: Access, params = {}) => allowed(access, caller, params)
        expect(await ask({ panel: first })).toBe(word(held(one.permissions, first)))
        expect(await ask({ anyOf: names })).toBe(word(names.some((name) => held(one.permissions, name))))
        expect(await ask({ node: first }, { nodeId: serverId })).toBe(word(held(one.permissions, first, serverId)))
        expect(await ask({ server: names }, { serverId })).toBe(word(names.every(on)))
        const byBody = { possible: names, exact: () => names }
        expect(await ask({ serverByBody: byBody }, { serverId })).toBe(word(names.some(on)))
        expect(await serverPermissions(door.db.read, caller, serverId, names)).toEqual(names.filter(on))
      }),
      { numRuns: 400 },
    )
  })

  it('lists what one may do with a server, and the servers that one may see, by the same rules', async () => {
    await fc.assert(
      fc.asyncProperty(drawn, fc.nat(1), async (draw, at) => {
        const one = personOf(draw)
        const id = servers[at] ?? ''
        const ownerId = owners[id] ?? ''
        const expected = PERMISSIONS.filter((name) => OWNER.test(name) && mayOnServer(one, name, id))
        expect([...permissionsOnServer(callerOf(one), { id, ownerId })].sort()).toEqual(expected.sort())
        const visible = visibleServers(callerOf(one))
        const sees = visible === 'all' || visible.ownerId === ownerId || visible.ids.includes(id)
        // A key that may read this one server of its user sees it by name: such a grant is part of its permissions.
        if (one.scope === null || one.scope.every((text) => !text.startsWith('server.read:srv'))) {
          expect(sees).toBe(mayOnServer(one, 'server.read', id))
        }
      }),
      { numRuns: 400 },
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
