import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { removeServerAccess, setServerAccess } from '../../src/shared/api/access.ts'
import { assignNode, listAccessibleNodes, unassignNode } from '../../src/shared/api/assignments.ts'
import { listServers, updateServer } from '../../src/shared/api/servers.ts'
import { buildWorld, signIn, type World } from '../contract/world.ts'
import { startPanel, type TestPanel } from '../panel.ts'

let panel: TestPanel
let world: World
let serverId: string
let nodeId: string
beforeAll(async () => {
  panel = await startPanel()
  world = await buildWorld(panel)
  serverId = world.ids['serverId'] ?? ''
  nodeId = world.ids['nodeId'] ?? ''
})
afterAll(() => panel.close())

/** Reads a stream until what came so far contains the text, or until it is over. */
async function readUntil(path: string, token: string, wanted: string, then: () => Promise<unknown>): Promise<string> {
  const leave = new AbortController()
  const late = AbortSignal.timeout(20_000)
  const response = await fetch(`${panel.url}${path}`, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.any([leave.signal, late]),
  })
  expect(response.status).toBe(200)
  let text = ''
  let begun = false
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString()
    if (!begun && text.includes('event: connected')) {
      begun = true
      await then()
    }
    if (text.includes(wanted)) break
  }
  leave.abort()
  return text
}

const grant = (userId: string, expiresAt?: string) =>
  world.admin.call(setServerAccess, {
    params: { serverId },
    body: {
      targetUserId: userId,
      permissions: ['server.read', 'console.read'],
      ...(expiresAt === undefined ? {} : { expiresAt }),
    },
  })
const events = () => `/api/servers/${serverId}/events`
const rename = (name: string) => world.admin.call(updateServer, { params: { serverId }, body: { name } })

describe('an open stream', () => {
  it('ends when the grant behind it is taken back', async () => {
    const { id, token } = await signIn(panel, 'taken')
    await grant(id)
    const took = () => world.admin.call(removeServerAccess, { params: { serverId, targetUserId: id } })
    expect(await readUntil(events(), token, 'permission_denied', took)).toContain('"error":"permission_denied"')
  })

  it('ends at the moment the grant behind it ends, although nobody writes anything then', async () => {
    const { id, token } = await signIn(panel, 'ending')
    const end = Date.now() + 2500
    await grant(id, new Date(end).toISOString())
    const text = await readUntil(events(), token, 'permission_denied', async () => undefined)
    expect(text).toContain('"error":"permission_denied"')
    expect(Date.now() - end).toBeLessThan(2000)
  })

  it('ends when the assignment behind it is taken back', async () => {
    const { id, token } = await signIn(panel, 'unassigned')
    const body = { targetType: 'user' as const, targetId: id }
    const { id: assignmentId } = await world.admin.call(assignNode, { params: { nodeId }, body })
    const took = () => world.admin.call(unassignNode, { params: { nodeId, assignmentId } })
    expect(await readUntil(events(), token, 'permission_denied', took)).toContain('"error":"permission_denied"')
  })

  it('of all servers shows a member what is his, from the moment it is', async () => {
    const { id, token } = await signIn(panel, 'watcher')
    const text = await readUntil('/api/servers/all-servers/events', token, '"change":"name"', async () => {
      await rename('unseen')
      await grant(id)
      await rename('seen')
    })
    expect(text.match(/event: server_updated/g)).toHaveLength(2) // the grant itself, and the second name
  })
})

describe('lists', () => {
  it('show members their servers and who has a node assigned that node with all its servers, with counts', async () => {
    const { id, token } = await signIn(panel, 'lister')
    const his = panel.as(token)
    const seen = async () => {
      const { data, pagination } = await his.page(listServers, {})
      const nodes = await his.page(listAccessibleNodes, {})
      return [data.map((row) => row.id), pagination.total, nodes.data.map((row) => row.id), nodes.pagination.total]
    }
    expect(await seen()).toEqual([[], 0, [], 0])
    await grant(id)
    expect(await seen()).toEqual([[serverId], 1, [], 0])
    const [row] = await his.call(listServers, { query: { include: 'effectivePermissions' } })
    expect(row?.effectivePermissions).toEqual(['server.read', 'console.read'])
    await world.admin.call(removeServerAccess, { params: { serverId, targetUserId: id } })
    const body = { targetType: 'user' as const, targetId: id }
    await world.admin.call(assignNode, { params: { nodeId }, body })
    expect(await seen()).toEqual([[serverId], 1, [nodeId], 1])
    const every = await panel.as(panel.adminToken).page(listAccessibleNodes, {})
    expect(every.pagination.total).toBeGreaterThan(1)
  })
})
