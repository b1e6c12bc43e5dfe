import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { createNode } from '../../../src/shared/api/nodes.ts'
import * as api from '../../../src/shared/api/webhooks.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { eventually, type QuickClock, quickClock, type Receiver, startReceiver } from './receiver.ts'

const HOUR = 3_600_000

let home: string
let clock: QuickClock
let panel: TestPanel
let receiver: Receiver
let count = 0

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-deliveries-'))
  clock = quickClock()
  panel = await startPanel({ clock, dataDir: home })
  receiver = await startReceiver()
})
afterEach(async () => {
  await panel.close()
  await receiver.close()
  await rm(home, { recursive: true })
})

const hook = (url = receiver.url) =>
  panel.client.call(api.createWebhook, { body: { name: 'hook', url, events: ['node.created'] } })

const node = () => {
  count += 1
  const body = { name: `node${count}`, locationId: panel.locationId, maxMemoryMb: 1024, maxCpuCores: 1 }
  return panel.client.call(createNode, { body })
}

const of = ({ id }: { readonly id: string }) => ({ webhookId: id as api.Webhook['id'] })
const deliveries = (webhook: { readonly id: string }) =>
  panel.client.call(api.listWebhookDeliveries, { params: of(webhook) })

const attempts = (webhook: { readonly id: string }, made: number) =>
  eventually(`${made} attempts`, async () => {
    // Who had worked out how long to wait just before the clock was put forward looks again.
    clock.advance(0)
    return (await deliveries(webhook))[0]?.attempts === made
  })

describe('a message that does not arrive', () => {
  it('is sent again after growing waits until it does, and every attempt is in the log', async () => {
    const made = await hook()
    receiver.answer = (response) => void response.writeHead(500).end('out of order')
    await node()
    const waits: number[] = []
    for (let attempt = 1; attempt <= 4; attempt++) {
      await attempts(made, attempt)
      const [row] = await deliveries(made)
      expect(row).toMatchObject({ status: 'pending', lastStatus: 500, lastError: 'HTTP 500' })
      const wait = Date.parse(row?.nextAttemptAt ?? '') - Date.parse(row?.lastAttemptAt ?? '')
      waits.push(wait)
      if (attempt === 4) receiver.answer = (response) => void response.writeHead(200).end('fine')
      clock.advance(wait)
    }
    await attempts(made, 5)
    for (const [place, wait] of waits.entries()) {
      // A fifth more or less by chance, and the time that the attempt took.
      expect(wait).toBeGreaterThan(5000 * 4 ** place * 0.79)
      expect(wait).toBeLessThan(5000 * 4 ** place * 1.21 + 8000)
    }
    const [row] = await deliveries(made)
    expect(row).toMatchObject({ status: 'sent', nextAttemptAt: null, lastError: null })
    const params = { ...of(made), deliveryId: row?.id ?? ('' as never) }
    const { log } = await panel.client.call(api.getWebhookDelivery, { params })
    expect(log.map(({ number, status, response }) => [number, status, response])).toEqual([
      [5, 200, 'fine'],
      ...[4, 3, 2, 1].map((number) => [number, 500, 'out of order']),
    ])
    // A receiver can tell that it is the same message.
    expect(new Set(receiver.received.map(({ headers }) => headers['x-webhook-id'])).size).toBe(1)
  })

  it('is given up after ten attempts, and a webhook to which nothing arrives for a day is switched off', async () => {
    const made = await hook()
    receiver.answer = (response) => void response.writeHead(503).end()
    await node()
    await attempts(made, 1)
    for (let attempt = 2; attempt <= 10; attempt++) {
      clock.advance(8 * HOUR)
      await attempts(made, attempt)
    }
    expect((await deliveries(made))[0]).toMatchObject({ status: 'failed', nextAttemptAt: null })
    expect(await panel.client.call(api.getWebhook, { params: of(made) })).toMatchObject({ enabled: true })
    const [first] = await deliveries(made)
    await panel.client.call(api.redeliverWebhook, { params: { ...of(made), deliveryId: first?.id ?? ('' as never) } })
    for (let attempt = 11; attempt <= 20; attempt++) {
      await attempts(made, attempt)
      clock.advance(8 * HOUR)
    }
    const off = await panel.client.call(api.getWebhook, { params: of(made) })
    expect(off).toMatchObject({ enabled: false, disabledReason: 'failing', lastError: 'HTTP 503' })
    const query = { resourceId: made.id, action: 'webhook.disable' }
    expect(await panel.client.call(listAuditLogs, { query })).toHaveLength(1)
    const on = await panel.client.call(api.updateWebhook, { params: of(made), body: { enabled: true } })
    expect(on).toMatchObject({ enabled: true, disabledReason: null, failingSince: null })
  })

  it('waits as long as the receiver asks for, and is not sent again to one that is gone', async () => {
    const made = await hook()
    receiver.answer = (response) => void response.writeHead(429, { 'retry-after': '600' }).end()
    await node()
    await attempts(made, 1)
    const [row] = await deliveries(made)
    const wait = Date.parse(row?.nextAttemptAt ?? '') - Date.parse(row?.lastAttemptAt ?? '')
    expect(wait).toBeGreaterThan(599_000)
    // The same as a date.
    const later = new Date(clock.nowMs() + wait + 1_800_000).toUTCString()
    receiver.answer = (response) => void response.writeHead(429, { 'retry-after': later }).end()
    clock.advance(wait + 1000)
    await attempts(made, 2)
    const [dated] = await deliveries(made)
    const next = Date.parse(dated?.nextAttemptAt ?? '') - clock.nowMs()
    expect(next).toBeGreaterThan(1_700_000)
    receiver.answer = (response) => void response.writeHead(410).end()
    clock.advance(next + 1000)
    await attempts(made, 3)
    expect((await deliveries(made))[0]).toMatchObject({ status: 'failed', lastStatus: 410 })
  })

  it('survives the end of the daemon, and arrives from the next one', async () => {
    const made = await hook()
    receiver.answer = (response) => void response.writeHead(500).end()
    await node()
    await attempts(made, 1)
    const [row] = await deliveries(made)
    await panel.close()
    receiver.answer = (response) => void response.writeHead(204).end()
    clock.advance(HOUR)
    panel = await startPanel({ clock, dataDir: home })
    const reported = (await receiver.took(2))[1]
    expect(reported?.json.id).toBe(row?.id)
    await attempts(made, 2)
    expect((await deliveries(made))[0]).toMatchObject({ status: 'sent' })
  })
})

describe('a webhook to which nothing arrives', () => {
  it('is tried again at once when somebody has mended it, and begins anew at another place', async () => {
    const made = await hook('http://127.0.0.1:9/nobody')
    // Each failure makes its lane rest for longer: the sixth for half a minute.
    await node()
    for (let attempt = 1; attempt <= 5; attempt++) {
      await attempts(made, attempt)
      const [row] = await deliveries(made)
      clock.advance(Date.parse(row?.nextAttemptAt ?? '') - clock.nowMs())
    }
    await attempts(made, 6)
    const waiting = await node()
    await panel.client.call(api.updateWebhook, { params: of(made), body: { url: receiver.url } })
    const [reported] = await receiver.took(1)
    expect(reported?.json.data).toMatchObject({ nodeId: waiting.id })
    expect(await panel.client.call(api.getWebhook, { params: of(made) })).toMatchObject({ failingSince: null })
    const failed = (await deliveries(made)).find(({ status }) => status === 'pending')
    const params = { ...of(made), deliveryId: failed?.id ?? ('' as never) }
    await panel.client.call(api.redeliverWebhook, { params })
    await receiver.took(2)
  })
})

describe('a receiver that is slow', () => {
  it('holds up nobody else', async () => {
    const slow = await startReceiver()
    try {
      slow.answer = () => undefined
      const stuck = await hook(slow.url)
      const fine = await hook()
      for (let n = 0; n < 5; n++) await node()
      await receiver.took(5)
      await slow.took(1)
      await eventually('all to be noted', async () => (await deliveries(fine)).every(({ status }) => status === 'sent'))
      // The slow one still has its first request, and four that wait for it.
      expect(slow.received).toHaveLength(1)
      expect((await deliveries(stuck)).map(({ status, attempts }) => [status, attempts])).toEqual(
        Array.from({ length: 5 }, () => ['pending', 0]),
      )
    } finally {
      await slow.close()
    }
  })
})
