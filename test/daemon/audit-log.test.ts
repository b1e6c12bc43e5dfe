import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { updateApiKey } from '../../src/shared/api/api-keys.ts'
import type { Client } from '../../src/shared/client.ts'
import { type AccountsPanel, HOUR, keyOf, openSetUpPanel, person, refusal } from './accounts-panel.ts'

let panel: AccountsPanel & { admin: Client; adminId: string }
beforeEach(async () => {
  panel = await openSetUpPanel()
})
afterEach(() => panel.close())

type Query = NonNullable<Parameters<typeof read>[0]>
const read = (query: {
  action?: string
  userId?: string
  resource?: string
  resourceId?: string
  from?: string
  to?: string
}) => panel.admin.call(listAuditLogs, { query })
const actions = async (query: Query): Promise<string[]> => (await read(query)).map(({ action }) => action)

describe('the audit log', () => {
  it('says who changed what, from where, newest first', async () => {
    const whole = await keyOf(panel, panel.admin, 'all')
    const key = await keyOf(panel, panel.admin, ['server.read'])
    await whole.call(updateApiKey, { params: { keyId: key.id }, body: { name: 'renamed' } })
    expect(await actions({})).toEqual(['api_key.update', 'api_key.create', 'api_key.create', 'setup.complete'])
    const [row] = await read({})
    expect(row).toMatchObject({
      userId: panel.adminId,
      apiKeyId: whole.id,
      resource: 'apikey',
      resourceId: key.id,
      details: { name: { before: 'a key', after: 'renamed' } },
      ipAddress: '192.0.2.1',
      user: { id: panel.adminId, username: 'root', email: 'root@example.org' },
    })
  })

  it('is filtered by action, user, resource and time', async () => {
    const ann = await person(panel, 'ann', ['apikey.manage'])
    panel.clock.advance(HOUR)
    const key = await keyOf(panel, ann, [])
    expect(await actions({ action: 'KEY' })).toEqual(['api_key.create'])
    expect(await actions({ userId: ann.id })).toEqual(['api_key.create', 'auth.login'])
    expect(await actions({ resource: 'user', resourceId: ann.id })).toEqual(['auth.login', 'user.create'])
    expect(await actions({ resourceId: key.id })).toEqual(['api_key.create'])
    const middle = new Date(panel.clock.nowMs() - HOUR / 2).toISOString()
    expect(await actions({ from: middle })).toEqual(['api_key.create'])
    expect(await actions({ to: middle })).toEqual(['auth.login', 'user.create', 'setup.complete'])
    const inTokyo = new Date(Date.parse(middle) + 9 * HOUR).toISOString().replace('Z', '+09:00')
    expect(await actions({ from: inTokyo })).toEqual(['api_key.create'])
    expect(await actions({ from: middle.slice(0, 10) })).toContain('api_key.create')
    const { pagination } = await panel.admin.page(listAuditLogs, { query: { limit: 3 } })
    expect(pagination).toEqual({ page: 1, limit: 3, total: 4, totalPages: 2 })
  })

  it('is for holders of admin.read', async () => {
    const ann = await person(panel, 'ann', ['user.read'])
    expect(await refusal(ann.call(listAuditLogs, { query: {} }))).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await refusal(panel.admin.call(listAuditLogs, { query: { from: 'yesterday' } }))).toMatchObject({
      code: 'VALIDATION_ERROR',
    })
  })
})
