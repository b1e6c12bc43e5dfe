import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createWebhook, testWebhook } from '../../src/shared/api/webhooks.ts'
import { startReceiver } from '../daemon/webhooks/receiver.ts'
import { startPanel } from '../panel.ts'

it('nothing goes to a private address that stands in the URL itself, once its range is allowed no more', async () => {
  const home = await mkdtemp(join(tmpdir(), 'panel-webhooks-'))
  const receiver = await startReceiver()
  try {
    const before = await startPanel({ dataDir: home })
    const body = { name: 'hook', url: receiver.url, events: ['node.created'] }
    const { id } = await before.client.call(createWebhook, { body })
    expect(await before.client.call(testWebhook, { params: { webhookId: id } })).toMatchObject({ ok: true })
    await before.close()
    const asked = receiver.received.length
    const after = await startPanel({ dataDir: home, env: { PANEL_WEBHOOKS__ALLOWED_RANGES: undefined } })
    try {
      const result = await after.client.call(testWebhook, { params: { webhookId: id } })
      expect(result).toMatchObject({ ok: false, status: null, error: expect.stringContaining('private or reserved') })
      expect(receiver.received.length).toBe(asked)
    } finally {
      await after.close()
    }
  } finally {
    await receiver.close()
    await rm(home, { recursive: true })
  }
})
