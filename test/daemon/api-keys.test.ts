import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import * as api from '../../src/shared/api/api-keys.ts'
import { getMe, logout } from '../../src/shared/api/auth.ts'
import { listUsers } from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import { PERMISSIONS } from '../../src/shared/kernel/permissions.ts'
import { isoTime } from '../../src/shared/kernel/time.ts'
import {
  type AccountsPanel,
  HOUR,
  keyOf,
  openSetUpPanel,
  person,
  refusal,
  serverOf,
  setRole,
  until,
} from './accounts-panel.ts'

let panel: AccountsPanel & { admin: Client; adminId: string }
beforeEach(async () => {
  panel = await openSetUpPanel()
})
afterEach(() => panel.close())

const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code
const held = async (client: Client): Promise<string[]> => (await client.call(getMe)).permissions

describe('what a key may do', () => {
  it('is what it was given, within what its user may do now', async () => {
    const ann = await person(panel, 'ann', ['apikey.manage', 'server.read', 'node.read'])
    const key = await keyOf(panel, ann, ['server.read', 'apikey.manage'])
    expect(await held(key)).toEqual(['apikey.manage', 'server.read'])
    await setRole(panel, ann.roleId, ['apikey.manage', 'user.read'])
    expect(await held(key)).toEqual(['apikey.manage'])
    await setRole(panel, ann.roleId, ['*'])
    expect(await held(key)).toEqual(['apikey.manage', 'server.read'])
    expect(await codeOf(key.call(listUsers, { query: {} }))).toBe('PERMISSION_DENIED')
  })

  it('shrinks to single resources with its user', async () => {
    const ann = await person(panel, 'ann', ['apikey.manage', 'server.read'])
    const key = await keyOf(panel, ann, ['server.read'])
    await setRole(panel, ann.roleId, ['server.read:srv_1'])
    expect(await held(key)).toEqual(['server.read:srv_1'])
  })

  it('follows all permissions of its user when it has all', async () => {
    const ann = await person(panel, 'ann', ['apikey.manage'])
    const key = await keyOf(panel, ann, 'all')
    await setRole(panel, ann.roleId, ['user.read'])
    expect(await held(key)).toEqual(['user.read'])
    await key.call(listUsers, { query: {} })
  })

  it('covers an own server only while its user owns it', async () => {
    const ann = await person(panel, 'ann', ['apikey.manage'])
    const serverId = await serverOf(panel, ann.id)
    const foreign = await serverOf(panel, panel.adminId)
    const refused = await refusal(keyOf(panel, ann, [`console.read:${serverId}`, `console.read:${foreign}`]))
    expect(refused).toMatchObject({ code: 'PERMISSION_DENIED', meta: { missing: [`console.read:${foreign}`] } })
    const key = await keyOf(panel, ann, [`console.read:${serverId}`])
    expect(await held(key)).toEqual([`console.read:${serverId}`])
    await panel.db.write(async ({ q }) => {
      await q.updateTable('server').set({ ownerId: panel.adminId }).where('id', '=', serverId).execute()
    })
    expect(await held(key)).toEqual([])
  })
})

describe('giving keys', () => {
  it('refuses what the creator does not hold, and names it', async () => {
    const ann = await person(panel, 'ann', ['apikey.manage', 'server.read'])
    const refused = await refusal(keyOf(panel, ann, ['server.read', 'server.start', '*']))
    expect(refused).toEqual({
      code: 'PERMISSION_DENIED',
      meta: expect.objectContaining({ missing: ['server.start', '*'] }),
    })
  })

  it('does not let a key make a stronger key', async () => {
    const manager = await keyOf(panel, panel.admin, ['apikey.manage', 'server.read'])
    expect(await codeOf(keyOf(panel, manager, 'all'))).toBe('PERMISSION_DENIED')
    expect(await codeOf(keyOf(panel, manager, ['*']))).toBe('PERMISSION_DENIED')
    expect(await codeOf(keyOf(panel, manager, ['server.start']))).toBe('PERMISSION_DENIED')
    const child = await keyOf(panel, manager, ['server.read'])
    expect(await held(child)).toEqual(['server.read'])
    const whole = await keyOf(panel, panel.admin, 'all')
    expect(await held(await keyOf(panel, whole, 'all'))).toEqual(['*'])
  })

  it('does not let a key raise itself or another key', async () => {
    const manager = await keyOf(panel, panel.admin, ['apikey.manage'])
    for (const keyId of [manager.id, (await keyOf(panel, panel.admin, ['server.read'])).id]) {
      const raise = manager.call(api.updateApiKey, {
        params: { keyId },
        body: { permissions: ['apikey.manage', 'server.start'] },
      })
      expect(await codeOf(raise)).toBe('PERMISSION_DENIED')
    }
    const weaker = await manager.call(api.updateApiKey, { params: { keyId: manager.id }, body: { permissions: [] } })
    expect(weaker.permissions).toEqual([])
    expect(await held(manager)).toEqual([])
  })

  it('refuses permissions that do not exist', async () => {
    for (const permission of ['server.*', 'nothing.read', '*:srv_1', 'server.read:']) {
      expect(await codeOf(keyOf(panel, panel.admin, [permission]))).toBe('VALIDATION_ERROR')
    }
  })

  it('needs apikey.manage', async () => {
    const ann = await person(panel, 'ann', ['admin.read'])
    expect(await codeOf(keyOf(panel, ann, ['admin.read']))).toBe('PERMISSION_DENIED')
  })
})

describe('seeing keys', () => {
  it('shows others only with admin.read, and lets write only with admin.write', async () => {
    const ann = await person(panel, 'ann', ['apikey.manage'])
    const auditor = await person(panel, 'auditor', ['apikey.manage', 'admin.read'])
    const bob = await person(panel, 'bob', ['apikey.manage'])
    const key = await keyOf(panel, ann, ['apikey.manage'])
    const params = { keyId: key.id }
    expect(await bob.call(api.listApiKeys, { query: {} })).toEqual([])
    for (const call of [
      () => bob.call(api.getApiKey, { params }),
      () => bob.call(api.getApiKeyUsage, { params }),
      () => bob.call(api.updateApiKey, { params, body: { enabled: false } }),
      () => bob.call(api.deleteApiKey, { params }),
    ]) {
      expect(await codeOf(call())).toBe('API_KEY_NOT_FOUND')
    }
    expect((await auditor.call(api.listApiKeys, { query: {} })).map(({ id }) => id)).toEqual([key.id])
    expect(await auditor.call(api.listApiKeys, { query: { mine: 'true' } })).toEqual([])
    expect(await codeOf(auditor.call(api.deleteApiKey, { params }))).toBe('PERMISSION_DENIED')
    await panel.admin.call(api.deleteApiKey, { params })
    expect(await codeOf(key.call(getMe))).toBe('UNAUTHENTICATED')
  })

  it('never shows the secret or its hash again', async () => {
    const key = await keyOf(panel, panel.admin, ['server.read'])
    const shown = await panel.admin.call(api.getApiKey, { params: { keyId: key.id } })
    expect(shown.start).toBe(key.token.slice(0, 12))
    const rows = await panel.db.read.selectFrom('apiKey').selectAll().execute()
    const audit = await panel.db.read.selectFrom('auditLog').selectAll().execute()
    const secret = key.token.slice(-43)
    expect(JSON.stringify([shown, rows, audit]) + panel.logged()).not.toContain(secret)
    expect(JSON.stringify(shown)).not.toContain(rows[0]?.secretHash)
  })

  it('lists the whole catalogue and the own permissions', async () => {
    const catalogue = await panel.admin.call(api.getPermissionsCatalog)
    expect(catalogue.flatMap((group) => group.permissions.map(({ value }) => value))).toEqual(PERMISSIONS)
    expect(await panel.admin.call(api.getMyPermissions)).toEqual(['*'])
  })

  it('filters by name and state', async () => {
    const make = (name: string) => panel.admin.call(api.createApiKey, { body: { name } })
    const backup = await make('nightly 100% backup')
    await make('nightly 1000 backup')
    await panel.admin.call(api.updateApiKey, { params: { keyId: backup.id }, body: { enabled: false } })
    expect(await panel.admin.call(api.listApiKeys, { query: { search: 'NIGHTLY' } })).toHaveLength(2)
    expect(await panel.admin.call(api.listApiKeys, { query: { search: '100%' } })).toHaveLength(1)
    expect(await panel.admin.call(api.listApiKeys, { query: { enabled: 'true' } })).toHaveLength(1)
    const { pagination } = await panel.admin.page(api.listApiKeys, { query: { limit: 1, page: 2 } })
    expect(pagination).toEqual({ page: 2, limit: 1, total: 2, totalPages: 2 })
  })
})

describe('the life of a key', () => {
  it('is over at once when it is deleted, disabled or signed out', async () => {
    const gone = await keyOf(panel, panel.admin, ['server.read'])
    await gone.call(getMe)
    await panel.admin.call(api.deleteApiKey, { params: { keyId: gone.id } })
    expect(await codeOf(gone.call(getMe))).toBe('UNAUTHENTICATED')
    const off = await keyOf(panel, panel.admin, ['server.read'])
    await off.call(getMe)
    await panel.admin.call(api.updateApiKey, { params: { keyId: off.id }, body: { enabled: false } })
    expect(await codeOf(off.call(getMe))).toBe('UNAUTHENTICATED')
    const out = await keyOf(panel, panel.admin, ['server.read'])
    await out.call(logout)
    expect(await codeOf(out.call(getMe))).toBe('UNAUTHENTICATED')
    expect(await codeOf(panel.admin.call(api.getApiKey, { params: { keyId: out.id } }))).toBe('API_KEY_NOT_FOUND')
  })

  it('is over at once also for what looks it up at that very moment', { timeout: 30_000 }, async () => {
    const { id, token } = await keyOf(panel, panel.admin, ['server.read'])
    for (let round = 0; round < 200; round++) {
      const enabled = round % 2 === 1 ? 1 : 0
      panel.credentials.changed()
      const edit = panel.db.write(async (tx) => {
        await tx.q.updateTable('apiKey').set({ enabled }).where('id', '=', id).execute()
        tx.onCommit(() => panel.credentials.changed())
      })
      for (let turn = 0; turn < round / 2; turn++) await new Promise((resolve) => setImmediate(resolve))
      const lookUp = panel.credentials.resolve(token)
      await Promise.all([edit, lookUp])
      const after = await panel.credentials.resolve(token)
      expect(typeof after).toBe(enabled === 1 ? 'object' : 'string')
    }
  })

  it('is over when it expires, also while it is cached', async () => {
    const made = await panel.admin.call(api.createApiKey, { body: { name: 'short', expiresIn: 3600 } })
    const key = panel.client(made.key)
    await key.call(getMe)
    panel.clock.advance(HOUR + 1000)
    expect(await codeOf(key.call(getMe))).toBe('AUTH_EXPIRED')
    const past = { name: 'past', expiresAt: isoTime(panel.clock.nowMs() - 1000) }
    expect(await codeOf(panel.admin.call(api.createApiKey, { body: past }))).toBe('VALIDATION_ERROR')
  })

  it('is unknown with another secret', async () => {
    const key = await keyOf(panel, panel.admin, ['server.read'])
    await key.call(getMe)
    const last = key.token.endsWith('A') ? 'B' : 'A'
    expect(await codeOf(panel.client(key.token.slice(0, -1) + last).call(getMe))).toBe('UNAUTHENTICATED')
    expect(await codeOf(panel.client(key.token.replace('pak_', 'pnk_')).call(getMe))).toBe('UNAUTHENTICATED')
    expect(await codeOf(panel.client('rubbish').call(getMe))).toBe('UNAUTHENTICATED')
  })

  it('has its uses counted', { timeout: 30_000 }, async () => {
    const key = await keyOf(panel, panel.admin, ['server.read'])
    await Promise.all(Array.from({ length: 7 }, () => key.call(getMe)))
    const usage = () => panel.admin.call(api.getApiKeyUsage, { params: { keyId: key.id } })
    await until(async () => (await usage()).totalRequests === 7, 'seven uses are written down')
    expect((await usage()).lastUsed).not.toBeNull()
  })

  it('has the limit of its own', async () => {
    const body = { name: 'slow', rateLimitMax: 3, rateLimitTimeWindow: 60_000 }
    const key = panel.client((await panel.admin.call(api.createApiKey, { body })).key)
    for (let i = 0; i < 3; i++) await key.call(getMe)
    expect(await codeOf(key.call(getMe))).toBe('RATE_LIMITED')
  })

  it('writes nothing when an edit changes nothing', async () => {
    const key = await keyOf(panel, panel.admin, ['server.read'])
    const count = async () => (await panel.db.read.selectFrom('auditLog').selectAll().execute()).length
    const before = await count()
    await panel.admin.call(api.updateApiKey, { params: { keyId: key.id }, body: {} })
    await panel.admin.call(api.updateApiKey, { params: { keyId: key.id }, body: { name: 'a key' } })
    expect(await count()).toBe(before)
  })
})
