import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { GATEWAY_PATH, NODE_ID_HEADER, NODE_KEY_HEADER } from '../../src/shared/protocol/frames.ts'
import { startPanel, type TestPanel } from '../panel.ts'

/** No proxy, one that is somebody else, and one that these tests stand behind. */
let none: TestPanel
let other: TestPanel
let behind: TestPanel
beforeAll(async () => {
  none = await startPanel()
  other = await startPanel({ env: { PANEL_HTTP__TRUSTED_PROXIES: '10.9.9.9' } })
  behind = await startPanel({ env: { PANEL_HTTP__TRUSTED_PROXIES: '127.0.0.1' } })
}, 60_000)
afterAll(async () => {
  await Promise.all([none.close(), other.close(), behind.close()])
})

async function guess(panel: TestPanel, forwarded: string): Promise<number> {
  const answer = await fetch(`${panel.url}/api/auth/login`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-forwarded-for': forwarded,
      'x-real-ip': forwarded,
      forwarded: `for=${forwarded}`,
    },
    body: JSON.stringify({ email: 'nobody@example.org', password: 'a guess' }),
  })
  return answer.status
}

/** An upgrade with a wrong key, each for another node. */
function knock(panel: TestPanel, number: number, forwarded: string): Promise<number> {
  const headers = {
    connection: 'upgrade',
    upgrade: 'websocket',
    [NODE_ID_HEADER]: `node_${number}`,
    [NODE_KEY_HEADER]: 'wrong',
    'x-forwarded-for': forwarded,
  }
  return new Promise((resolve, reject) => {
    const sent = request(`${panel.url}${GATEWAY_PATH}`, { headers, agent: false }, (answer) => {
      answer.resume()
      answer.on('end', () => resolve(answer.statusCode ?? 0))
    })
    sent.on('error', reject)
    sent.end()
  })
}

describe('an address that somebody claims for himself', () => {
  it('gives no fresh count of guesses, and stands in no record', async () => {
    for (const panel of [none, other]) {
      const statuses: number[] = []
      for (let i = 1; i <= 8; i++) statuses.push(await guess(panel, `203.0.113.${i}`))
      expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429, 429])
      await fetch(`${panel.url}/api/locations`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${panel.adminToken}`,
          'x-forwarded-for': '203.0.113.1',
        },
        body: JSON.stringify({ name: 'somewhere' }),
      })
      const [row] = await panel.client.call(listAuditLogs, { query: { action: 'location.create' } })
      expect(row?.ipAddress).toBe('127.0.0.1')
    }
  })

  it('gives no fresh count of guesses at node keys', async () => {
    for (const panel of [none, other]) {
      const statuses: number[] = []
      for (let i = 1; i <= 24; i++) statuses.push(await knock(panel, i, `${i + 20}.7.113.9`))
      expect(statuses.slice(0, 20)).toEqual(Array(20).fill(401))
      expect(statuses.slice(20)).toContain(429)
    }
  })
})

describe('behind a proxy that is trusted', () => {
  it('each address counts for itself, and what stands before it in the header does not', async () => {
    for (let i = 1; i <= 8; i++) expect(await guess(behind, `198.51.100.${i}`)).toBe(401)
    const statuses: number[] = []
    for (let i = 1; i <= 6; i++) statuses.push(await guess(behind, `192.0.2.${i}, 203.0.113.7`))
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429])
    for (let i = 1; i <= 24; i++) expect(await knock(behind, i, `${i + 20}.7.113.9`)).toBe(401)
  })
  it('a port that the proxy writes beside an address gives no fresh count, and stands in no record', async () => {
    const statuses: number[] = []
    for (let i = 1; i <= 6; i++) statuses.push(await guess(behind, `203.0.113.50:${40000 + i}`))
    for (let i = 1; i <= 6; i++) statuses.push(await guess(behind, `[2001:db8:5::${i}]:${40000 + i}`))
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 401, 401, 401, 401, 401, 429])
    const rows = await behind.client.call(listAuditLogs, { query: { action: 'auth.login_failed' } })
    const addresses = new Set(rows.map(({ ipAddress }) => ipAddress))
    expect(addresses).toContain('203.0.113.50')
    expect(addresses).toContain('2001:db8:5::1')
  })
})
