import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { updateApiKey } from '../../src/shared/api/api-keys.ts'
import { getAuditLog } from '../../src/shared/api/audit-log.ts'
import type { Client } from '../../src/shared/client.ts'
import { newId } from '../../src/shared/kernel/ids.ts'
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

  it('is listed as it is shown row by row, whatever is in a row', async () => {
    const odd = [
      '{',
      '[1]',
      '"text"',
      '7',
      '{"a":"\\u0000\\ud800 é 👍 \\" \u2028"}',
      '{"n": 1.50, "deep": {"x": [null, true]}}',
      null,
    ]
    await panel.db.write(async ({ q, now }) => {
      for (const [i, details] of odd.entries()) {
        const who = {
          userId: i % 2 === 0 ? panel.adminId : `usr_gone${i}`,
          apiKeyId: null,
          ipAddress: null,
          requestId: null,
        }
        const what = { action: `"odd"\\ \n${i}\u0001`, resource: 'odd', resourceId: i % 3 === 0 ? null : `x${i}` }
        const row = { ...who, ...what, userAgent: `Agent/1.0 \u{1f600}\t`, details, createdAt: now, hash: null }
        await q
          .insertInto('auditLog')
          .values({ id: newId('aud', panel.clock), ...row })
          .execute()
      }
    })
    const listed = await read({ resource: 'odd' })
    expect(listed).toHaveLength(odd.length)
    for (const row of listed) {
      expect(row).toEqual(await panel.admin.call(getAuditLog, { params: { auditLogId: row.id } }))
    }
    expect(await read({ resource: 'nothing of the kind' })).toEqual([])
  })

  it('is for holders of admin.read', async () => {
    const ann = await person(panel, 'ann', ['user.read'])
    expect(await refusal(ann.call(listAuditLogs, { query: {} }))).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await refusal(panel.admin.call(listAuditLogs, { query: { from: 'yesterday' } }))).toMatchObject({
      code: 'VALIDATION_ERROR',
    })
  })
})
