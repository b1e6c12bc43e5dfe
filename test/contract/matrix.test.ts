import { Agent, request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setServerAccess } from '../../src/shared/api/access.ts'
import { assignNode, unassignNode } from '../../src/shared/api/assignments.ts'
import { urlOf } from '../../src/shared/client.ts'
import { endpoints, streams } from '../../src/shared/endpoints.ts'
import { type Access, type Endpoint, isDeclared, type StreamEndpoint } from '../../src/shared/kernel/contract.ts'
import { OWNER_PERMISSIONS, PERMISSIONS } from '../../src/shared/kernel/permissions.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { methodOf, type Parts } from './http-call.ts'
import { buildWorld, keyWith, paramsOf, signIn, unknownParams, type World } from './world.ts'

type Any = Endpoint | StreamEndpoint

const AT_ONCE = 8
/** What an assignment of a node adds to the rights on its servers. */
const ON_NODE = ['node.read', 'node.view_stats', 'server.create']

const all: readonly Any[] = [...endpoints, ...streams]
const guarded = all.filter(({ access }) => typeof access !== 'string')

const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })

let panel: TestPanel
let world: World
beforeAll(async () => {
  panel = await startPanel()
  // Of each of many endpoints of files every caller is tried.
  await panel.configure('limits.fileRequestsPerMinute', 1_000_000)
  world = await buildWorld(panel)
})
afterAll(async () => {
  agent.destroy()
  await panel.close()
})

/** Whether one of the names is held: api.md §4.2 in plain words, written down a second time. */
function holds(held: readonly string[], name: string): boolean {
  return held.some((text) => text === '*' || text === name || (text === 'admin.write' && name === 'admin.read'))
}

/** Whether the endpoint is open to who holds this panel-wide, and that on the server and node that the path names. */
function opens(access: Exclude<Access, string>, panelWide: readonly string[], there: readonly string[]): boolean {
  if ('panel' in access) return holds(panelWide, access.panel)
  if ('anyOf' in access) {
    const onNode = access.orOnNode !== undefined && there.includes(access.orOnNode)
    return onNode || access.anyOf.some((name) => holds(panelWide, name))
  }
  const near = [...panelWide, ...there]
  if ('node' in access) return holds(near, access.node)
  if ('server' in access) return access.server.every((name) => holds(near, name))
  return access.serverByBody.possible.some((name) => holds(near, name))
}

/** Input that passes the guard and nothing behind it, unless there is nothing to give but the path. */
function harmless(one: Any, params: Readonly<Record<string, string>>): Parts {
  const takesBody = one.kind === 'endpoint' && isDeclared(one.body)
  return { params, ...(takesBody ? { body: ['not an object'] } : {}) }
}

const takesNothing = (one: Any): boolean => one.kind === 'endpoint' && one.method !== 'GET' && !isDeclared(one.body)

interface Case {
  readonly one: Any
  readonly who: string
  readonly token: string
  readonly parts: Parts
  readonly open: boolean
}

/** Asks for every case, several at a time; the sentences of those that are not as the model says. */
async function differences(cases: readonly Case[]): Promise<string[]> {
  const wrong: string[] = []
  const queue = cases.values()
  const worker = async (): Promise<void> => {
    for (const { one, who, token, parts, open } of queue) {
      const { status, text } = await ask(one, parts, token)
      const refused = status === 403 && text.includes('"PERMISSION_DENIED"')
      if (refused === open || status === 401 || status === 500) {
        wrong.push(`${one.id} to ${who}: ${open ? 'open' : 'closed'} by the model, answered ${status}`)
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return wrong
}

/** A request over a connection that is kept: there are thousands, and `fetch` costs more than the answer. */
function ask(one: Any, parts: Parts, token: string): Promise<{ status: number; text: string }> {
  const body = parts.body === undefined ? undefined : JSON.stringify(parts.body)
  const headers = {
    authorization: `Bearer ${token}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
  }
  return new Promise((resolve, reject) => {
    const options = { method: methodOf(one), agent, headers }
    const sent = request(urlOf(one, parts, panel.url), options, (response) => {
      const status = response.statusCode ?? 0
      if (response.headers['content-type']?.startsWith('text/event-stream') === true) {
        sent.destroy()
        return resolve({ status, text: '' })
      }
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () => resolve({ status, text }))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

const accessOf = ({ access }: Any): Exclude<Access, string> => {
  if (typeof access === 'string') throw new Error('it is not guarded')
  return access
}

describe('each endpoint and each permission', () => {
  /** What is open by the model, and of what is closed one case out of so many, others for each permission. */
  async function agree(outOf: number): Promise<void> {
    const cases: Case[] = []
    for (const [row, name] of PERMISSIONS.entries()) {
      const token = await keyWith(panel, [name])
      for (const [column, one] of guarded.entries()) {
        const open = opens(accessOf(one), [name], [])
        if (!open && (row + column) % outOf !== 0) continue
        if (open && takesNothing(one) && Object.keys(one.params).length === 0) continue // it would really be done
        cases.push({ one, who: `a key with ${name}`, token, parts: harmless(one, unknownParams(one)), open })
      }
    }
    expect(cases.length).toBeGreaterThan((PERMISSIONS.length * 60) / outOf)
    expect(cases.filter(({ open }) => open).length).toBeGreaterThan(200)
    expect(await differences(cases)).toEqual([])
  }

  it('agree with the plain model of who may call what', { timeout: 180_000 }, () => agree(4))

  it('agree with it in every single case', { timeout: 180_000, tags: ['long'] }, () => agree(1))

  it('agree for members of a server, who hold one thing there and nothing elsewhere', {
    tags: ['long'],
    timeout: 180_000,
  }, async () => {
    const { id, token } = await signIn(panel, 'one-right')
    const serverId = world.ids['serverId'] ?? ''
    const near = guarded.filter(({ params }) => 'serverId' in params)
    for (const name of OWNER_PERMISSIONS) {
      await world.admin.call(setServerAccess, { params: { serverId }, body: { targetUserId: id, permissions: [name] } })
      const who = `a member with ${name}`
      const cases = near.flatMap((one): Case[] => {
        const open = opens(accessOf(one), [], [name])
        const elsewhere = harmless(one, { ...paramsOf(world, one), serverId: 'nobody_has_this' })
        const here = harmless(one, paramsOf(world, one))
        return [
          { one, who: `${who}, elsewhere`, token, parts: elsewhere, open: false },
          ...(open && takesNothing(one) ? [] : [{ one, who, token, parts: here, open }]),
        ]
      })
      expect(await differences(cases)).toEqual([])
    }
  })

  it('agree for who has a node assigned, and for no longer than that', { timeout: 180_000 }, async () => {
    const { id, token } = await signIn(panel, 'assigned')
    const nodeId = world.ids['nodeId'] ?? ''
    const body = { targetType: 'user' as const, targetId: id }
    const { id: assignmentId } = await world.admin.call(assignNode, { params: { nodeId }, body })
    const near = guarded.filter(
      (one) => 'serverId' in one.params || 'nodeId' in one.params || 'orOnNode' in accessOf(one),
    )
    const casesOf = (there: readonly string[]): Case[] =>
      near.flatMap((one) => {
        const open = opens(accessOf(one), [], there)
        if (open && takesNothing(one)) return []
        return [{ one, who: 'who has the node', token, parts: harmless(one, paramsOf(world, one)), open }]
      })
    expect(await differences(casesOf([...OWNER_PERMISSIONS, ...ON_NODE]))).toEqual([])
    await world.admin.call(unassignNode, { params: { nodeId, assignmentId } })
    expect(await differences(casesOf([]))).toEqual([])
  })

  it('agree for who asks about himself', async () => {
    const { id, token } = await signIn(panel, 'himself')
    const own = guarded.filter(({ access }) => typeof access !== 'string' && 'orSelf' in access)
    expect(own.length).toBeGreaterThan(2)
    const cases = own.flatMap((one): Case[] => {
      const access = accessOf(one)
      const name = 'orSelf' in access ? (access.orSelf ?? '') : ''
      const params = paramsOf(world, one)
      return [
        { one, who: 'himself', token, parts: harmless(one, { ...params, [name]: id }), open: true },
        { one, who: 'another', token, parts: harmless(one, params), open: false },
      ]
    })
    expect(await differences(cases)).toEqual([])
  })
})
