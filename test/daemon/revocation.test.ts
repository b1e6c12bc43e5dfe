import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as api from '../../src/shared/api/api-keys.ts'
import { getMe, logout } from '../../src/shared/api/auth.ts'
import type { Client } from '../../src/shared/client.ts'
import { startPanel, type TestPanel } from '../panel.ts'

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel()
}, 60_000)
afterAll(() => panel.close())

/** Opens the admin events with this key; the text of the whole stream once it has ended. */
async function follow(token: string): Promise<{ ended: Promise<string> }> {
  const response = await fetch(`${panel.url}/api/admin/events`, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(20_000),
  })
  expect(response.status).toBe(200)
  return { ended: response.text() }
}

describe('an open stream', () => {
  const ways: [string, (keyId: string, holder: Client) => Promise<unknown>][] = [
    ['deleted', (keyId) => panel.client.call(api.deleteApiKey, { params: { keyId } })],
    ['disabled', (keyId) => panel.client.call(api.updateApiKey, { params: { keyId }, body: { enabled: false } })],
    ['signed out', (_, holder) => holder.call(logout)],
  ]
  it.each(ways)('ends at once when its key is %s', { timeout: 30_000 }, async (_, revoke) => {
    const body = { name: 'stream', permissions: ['server.read'] }
    const made = await panel.client.call(api.createApiKey, { body })
    const { ended } = await follow(made.key)
    const begin = performance.now()
    await revoke(made.id, panel.as(made.key))
    const text = await ended
    expect(performance.now() - begin).toBeLessThan(5000)
    expect(text).toMatch(/event: error\ndata: .*"auth_failed"/)
    await expect(panel.as(made.key).call(getMe)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })
  })

  it('ends with permission_denied when its key loses the right', { timeout: 30_000 }, async () => {
    const body = { name: 'stream', permissions: ['server.read'] }
    const made = await panel.client.call(api.createApiKey, { body })
    const { ended } = await follow(made.key)
    const params = { keyId: made.id }
    await panel.client.call(api.updateApiKey, { params, body: { permissions: ['console.read'] } })
    expect(await ended).toMatch(/event: error\ndata: .*"permission_denied"/)
    expect(await panel.as(made.key).call(getMe)).toMatchObject({ permissions: ['console.read'] })
  })
})
