import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { createApiKey } from '../../../src/shared/api/api-keys.ts'
import { createNode, deleteNode } from '../../../src/shared/api/nodes.ts'
import * as api from '../../../src/shared/api/webhooks.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { refusal } from '../place-panel.ts'
import { eventually, isSignedWith, type Receiver, startReceiver } from './receiver.ts'

let panel: TestPanel
let receiver: Receiver
let count = 0

beforeAll(async () => {
  panel = await startPanel()
  receiver = await startReceiver()
})
afterAll(async () => {
  await panel.close()
  await receiver.close()
})
beforeEach(async () => {
  for (const { id } of await panel.client.call(api.listWebhooks)) {
    await panel.client.call(api.deleteWebhook, { params: { webhookId: id } })
  }
  receiver.received.length = 0
  receiver.answer = (response) => void response.writeHead(204).end()
})

const hook = (body: Partial<Parameters<typeof createHook>[0]> = {}) =>
  createHook({ name: 'hook', url: receiver.url, events: ['node.created'], ...body })

const createHook = (body: {
  name: string
  url: string
  events: string[]
  format?: 'discord' | 'slack'
  secret?: string
}) => panel.client.call(api.createWebhook, { body })

/** Something that webhooks are told of. */
const node = (ending = '') => {
  count += 1
  const body = { name: `node${count}${ending}`, locationId: panel.locationId, maxMemoryMb: 1024, maxCpuCores: 1 }
  return panel.client.call(createNode, { body })
}

const of = ({ id }: { readonly id: string }) => ({ webhookId: id as api.Webhook['id'] })
const deliveries = (webhook: { readonly id: string }) =>
  panel.client.call(api.listWebhookDeliveries, { params: of(webhook) })

describe('a webhook', () => {
  it('is told of what it subscribes to, signed with the secret that was shown once', async () => {
    const made = await hook()
    expect(made.secret).toMatch(/^whsec_[\w-]{43}$/)
    const before = Date.now()
    const { id, name } = await node()
    await panel.client.call(deleteNode, { params: { nodeId: id } })
    await node()
    const [reported, next] = await receiver.took(2)
    expect(reported?.json).toMatchObject({
      event: 'node.created',
      userId: expect.stringMatching(/^usr_/),
      timestamp: expect.stringMatching(/Z$/),
      data: { nodeId: id, nodeName: name },
    })
    // The deletion in between is not what it subscribes to.
    expect(next?.json.event).toBe('node.created')
    expect(reported !== undefined && isSignedWith(reported, made.secret ?? '')).toBe(true)
    expect(reported !== undefined && isSignedWith({ ...reported, body: `${reported.body} ` }, made.secret ?? '')).toBe(
      false,
    )
    expect(reported?.headers).toMatchObject({
      'content-type': 'application/json',
      'user-agent': expect.stringMatching(/^panel/),
      'x-webhook-event': 'node.created',
      'x-webhook-id': reported?.json.id,
    })
    const stamp = Number(reported?.headers['x-webhook-timestamp']) * 1000
    expect(stamp).toBeGreaterThan(before - 2000)
    await eventually('both to be noted as sent', async () =>
      (await deliveries(made)).every((row) => row.status === 'sent'),
    )
    const [row] = await deliveries(made)
    const params = { ...of(made), deliveryId: row?.id ?? ('' as never) }
    const { log, payload } = await panel.client.call(api.getWebhookDelivery, { params })
    expect(log).toEqual([expect.objectContaining({ number: 1, status: 204, error: null })])
    expect(payload).toMatchObject({ event: 'node.created' })
    const now = await panel.client.call(api.getWebhook, { params: of(made) })
    expect(now).toMatchObject({ lastSuccessAt: expect.any(String), failingSince: null })
    expect(JSON.stringify(now)).not.toContain(made.secret)
  })

  it('is signed with a secret of one’s own, and with a new one after a rotation', async () => {
    const secret = 'a-secret-of-my-own'
    const made = await hook({ secret })
    expect(made.secret).toBeNull()
    await node()
    const [first] = await receiver.took(1)
    expect(first !== undefined && isSignedWith(first, secret)).toBe(true)
    const body = { rotateSecret: true as const }
    const rotated = await panel.client.call(api.updateWebhook, { params: of(made), body })
    await node()
    const second = (await receiver.took(2))[1]
    expect(second !== undefined && isSignedWith(second, rotated.secret ?? '')).toBe(true)
    const query = { resourceId: made.id, action: 'webhook.update' }
    const [row] = await panel.client.call(listAuditLogs, { query })
    expect(row?.details).toEqual({ unseen: ['secret'] })
  })

  it('shows no token that stands in its URL, and keeps it when that is sent back', async () => {
    const shown = `${receiver.url}/team-chat-of-the-club/********/v2?********`
    const made = await hook({ url: `${receiver.url}/team-chat-of-the-club/9a8B7c6D5e4F3a2B1c0D_x/v2?key=1` })
    expect(made.url).toBe(shown)
    const body = { url: made.url, description: 'chat' }
    expect(await panel.client.call(api.updateWebhook, { params: of(made), body })).toMatchObject({ url: shown })
    await node()
    expect((await receiver.took(1))[0]?.path).toBe('/hook/team-chat-of-the-club/9a8B7c6D5e4F3a2B1c0D_x/v2?key=1')
  })

  it('gets the shapes of Discord and Slack, in which names call up nobody', async () => {
    await hook({ format: 'discord' })
    await node()
    const [discord] = await receiver.took(1)
    expect(discord?.json).toMatchObject({
      embeds: [{ title: `The node node${count} was added`, footer: { text: 'node.created' } }],
      allowed_mentions: { parse: [] },
    })
    const slack = await hook({ format: 'slack', events: ['node.deleted'], name: 'slack' })
    expect(slack.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\*+$/)
    const { id } = await node("$' $$ $1")
    await panel.client.call(deleteNode, { params: { nodeId: id } })
    const reported = (await receiver.took(3)).find(({ json }) => 'text' in json)
    expect(reported?.json['text']).toBe(`:information_source: *The node node${count}$' $$ $1 was deleted*`)
  })

  it('is tested by a real request whose answer is shown', async () => {
    const made = await hook()
    receiver.answer = (response) => void response.writeHead(418).end('I am <b>no</b> panel')
    const failed = await panel.client.call(api.testWebhook, { params: of(made) })
    expect(failed).toMatchObject({ ok: false, status: 418, error: 'HTTP 418', response: 'I am <b>no</b> panel' })
    receiver.answer = (response) => void response.writeHead(200).end('x'.repeat(5000))
    const fine = await panel.client.call(api.testWebhook, { params: of(made) })
    expect(fine).toMatchObject({ ok: true, status: 200, response: 'x'.repeat(1024) })
    expect(receiver.received.map(({ json }) => json.event)).toEqual(['webhook.test', 'webhook.test'])
    // A test is one attempt and no more.
    expect((await deliveries(made)).map(({ status }) => status)).toEqual(['sent', 'failed'])
  })

  it('is told nothing while it is switched off, and nothing is sent to it again', async () => {
    const made = await hook()
    const { deliveryId } = await panel.client.call(api.testWebhook, { params: of(made) })
    await panel.client.call(api.updateWebhook, { params: of(made), body: { enabled: false } })
    await node()
    const again = panel.client.call(api.redeliverWebhook, { params: { ...of(made), deliveryId } })
    expect(await refusal(again)).toMatchObject({ code: 'CONFLICT' })
    await panel.client.call(api.updateWebhook, { params: of(made), body: { enabled: true } })
    await panel.client.call(api.redeliverWebhook, { params: { ...of(made), deliveryId } })
    await receiver.took(2)
    expect(receiver.received.map(({ json }) => [json.event, json.id])).toEqual([
      ['webhook.test', deliveryId],
      ['webhook.test', deliveryId],
    ])
    await eventually('the second attempt in the log', async () => {
      const params = { ...of(made), deliveryId }
      return (await panel.client.call(api.getWebhookDelivery, { params })).log.length === 2
    })
  })
})

describe('what a webhook tells', () => {
  it('can be subscribed to and read only by whom the events may be read by', async () => {
    const keyWith = async (permissions: string[]) => {
      const { key } = await panel.client.call(createApiKey, { body: { name: 'some', permissions } })
      return panel.as(key)
    }
    const admin = await keyWith(['admin.write', 'node.read'])
    const body = { name: 'x', url: receiver.url }
    const denied = await refusal(admin.call(api.createWebhook, { body: { ...body, events: ['user.*'] } }))
    expect(denied).toMatchObject({ code: 'PERMISSION_DENIED', meta: { missing: ['user.read'] } })
    expect((await refusal(admin.call(api.createWebhook, { body }))).code).toBe('PERMISSION_DENIED')
    const mine = await admin.call(api.createWebhook, { body: { ...body, events: ['node.*'] } })
    const wider = admin.call(api.updateWebhook, { params: of(mine), body: { events: ['*'] } })
    expect((await refusal(wider)).code).toBe('PERMISSION_DENIED')
    // Nor can somebody have another's webhook tell him what he may not read.
    const full = await hook({ events: ['user.created', 'node.created'] })
    const taken = admin.call(api.updateWebhook, { params: of(full), body: { url: `${receiver.url}/mine` } })
    expect((await refusal(taken)).code).toBe('PERMISSION_DENIED')
    await node()
    await receiver.took(1)
    const [row] = await deliveries(full)
    const reader = await keyWith(['admin.read'])
    const params = { ...of(full), deliveryId: row?.id ?? ('' as never) }
    expect((await refusal(reader.call(api.getWebhookDelivery, { params }))).code).toBe('PERMISSION_DENIED')
  })

  it('goes to no other place by who may not read it: neither what waits, nor what was sent before', async () => {
    const { key } = await panel.client.call(createApiKey, {
      body: { name: 'b', permissions: ['admin.write', 'alert.read'] },
    })
    const other = panel.as(key)
    receiver.answer = (response) => void response.writeHead(500).end()
    const made = await hook()
    await node()
    await eventually('an attempt', async () => (await deliveries(made))[0]?.attempts === 1)
    const mine = { events: ['alert.created'], url: `${receiver.url}/mine` }
    const moved = await refusal(other.call(api.updateWebhook, { params: of(made), body: mine }))
    expect(moved).toMatchObject({ code: 'PERMISSION_DENIED', meta: { missing: ['node.read'] } })
    const [row] = await deliveries(made)
    const params = { ...of(made), deliveryId: row?.id ?? ('' as never) }
    expect((await refusal(other.call(api.redeliverWebhook, { params }))).code).toBe('PERMISSION_DENIED')
  })

  it('is refused with the names that there are when there is no such event', async () => {
    const wrong = await refusal(hook({ events: ['user.exploded'] }))
    expect(wrong).toMatchObject({ code: 'VALIDATION_ERROR', fields: ['body.events.0'] })
  })
})
