import { lookup } from 'node:dns/promises'
import { hostname } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as api from '../../../src/shared/api/webhooks.ts'
import { isReachable } from '../../../src/shared/platform/public-address.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { refusal } from '../place-panel.ts'
import { type Receiver, startReceiver } from './receiver.ts'

let panel: TestPanel
let receiver: Receiver
beforeAll(async () => {
  panel = await startPanel({ env: { PANEL_WEBHOOKS__ALLOWED_RANGES: '127.0.0.9/32' } })
  receiver = await startReceiver()
})
afterAll(async () => {
  await panel.close()
  await receiver.close()
})

const create = (url: string) => panel.client.call(api.createWebhook, { body: { name: 'x', url, events: ['node.*'] } })
const test = async (url: string) => {
  const { id } = await create(url)
  return panel.client.call(api.testWebhook, { params: { webhookId: id } })
}

describe('addresses', () => {
  it.each([
    '127.0.0.1',
    '127.8.9.10',
    '0.0.0.0',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '192.0.2.1',
    '198.18.0.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::7f00:1',
    '::ffff:127.0.0.1',
    '::ffff:10.0.0.1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    '2001::1',
    '2001:db8::1',
    'fc00::1',
    'fd12:3456::1',
    'fe80::1',
    'fec0::1',
    'ff02::1',
    'no address',
    '',
  ])('%s is not reached', (address) => {
    expect(isReachable(address, [])).toBe(false)
  })

  it.each(['1.1.1.1', '8.8.8.8', '172.32.0.1', '2606:4700:4700::1111', '::ffff:8.8.8.8'])('%s is', (address) => {
    expect(isReachable(address, [])).toBe(true)
  })

  it('of a range that is allowed are reached, and others are not', () => {
    expect(isReachable('10.1.2.3', ['10.1.0.0/16', 'fd00::/8'])).toBe(true)
    expect(isReachable('::ffff:10.1.2.3', ['10.1.0.0/16'])).toBe(true)
    expect(isReachable('10.2.2.3', ['10.1.0.0/16', 'fd00::/8'])).toBe(false)
    expect(isReachable('fd00::1', ['10.1.0.0/16', 'fd00::/8'])).toBe(true)
  })
})

describe('a webhook', () => {
  it.each([
    'http://127.0.0.1/x',
    'http://localhost/x',
    'http://sub.localhost/x',
    'http://2130706433/x',
    'http://0x7f.1/x',
    'http://[::1]/x',
    'http://[::ffff:127.0.0.1]/x',
    'http://169.254.169.254/latest/meta-data',
    'http://10.0.0.1/x',
    'ftp://example.org/x',
    'file:///etc/passwd',
    'http://panel:secret@example.org/x',
    'not a url',
  ])('with the URL %s is refused', async (url) => {
    expect(await refusal(create(url))).toMatchObject({ code: 'VALIDATION_ERROR', fields: ['body.url'] })
  })

  it('whose name means a private address is not connected to', async ({ skip }) => {
    const found = await lookup(hostname(), { all: true }).catch(() => [])
    if (found.length === 0 || found.some(({ address }) => isReachable(address, []))) {
      skip('this machine has no name of its own that means a private address')
    }
    const url = new URL(receiver.url)
    const result = await test(`http://${hostname()}:${url.port}/x`)
    expect(result).toMatchObject({ ok: false, status: null, error: expect.stringContaining('private or reserved') })
    expect(receiver.received).toEqual([])
  })

  it('is not led elsewhere by a redirect', async () => {
    const allowed = await startPanel()
    const [from, to] = [await startReceiver(), await startReceiver()]
    try {
      from.answer = (response) => void response.writeHead(302, { location: to.url }).end()
      const { id } = await allowed.client.call(api.createWebhook, { body: { name: 'x', url: from.url } })
      const result = await allowed.client.call(api.testWebhook, { params: { webhookId: id } })
      expect(result).toMatchObject({ ok: false, status: 302, error: 'HTTP 302: redirects are not followed' })
      expect([from.received.length, to.received.length]).toEqual([1, 0])
    } finally {
      await Promise.all([allowed.close(), from.close(), to.close()])
    }
  })
})
