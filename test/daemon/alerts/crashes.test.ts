import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { removeServerAccess, setServerAccess } from '../../../src/shared/api/access.ts'
import {
  createAlertRule,
  deleteAlertRule,
  testAlertRule,
  updateAlertRule,
} from '../../../src/shared/api/alert-rules.ts'
import { getAlert, listAlerts } from '../../../src/shared/api/alerts.ts'
import { getNode } from '../../../src/shared/api/nodes.ts'
import { updateRole } from '../../../src/shared/api/roles.ts'
import type { Server } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import { banUser, getUser, updateUser } from '../../../src/shared/api/users.ts'
import { type AgentPeer, report } from '../agent-peer.ts'
import type { Stage, StageNode } from '../servers/stage.ts'
import { eventually } from '../webhooks/receiver.ts'
import { type AlertStage, alertOf, alertsAbout, looked, makeRule, openAlertStage, settled } from './alert-stage.ts'

let all: AlertStage
let stage: Stage
let node: StageNode
let template: Template
let peer: AgentPeer
beforeAll(async () => {
  all = await openAlertStage()
  stage = all.stage
  node = await stage.node()
  template = await stage.template()
  peer = await stage.peer(node)
})
afterAll(() => all.close())

/** A server that runs, as its agent says. */
async function running(): Promise<Server> {
  const server = await stage.create(template, node)
  peer.event({ type: 'server.state', report: report(server.id), previous: 'offline', commandId: null })
  return stage.status(server.id, 'running')
}

const crash = { count: 1, crashed: true, nextRestartMs: null }
const exit = { code: 3, signal: null, oom: false, expected: false, uptimeMs: 5 }

function crashes(server: Server, count = 1): void {
  const end = { power: 'offline' as const, pid: null, uptimeMs: null, lastExit: exit, crash: { ...crash, count } }
  peer.event({ type: 'server.state', report: report(server.id, end), previous: 'running', commandId: null })
}

function runs(server: Server, count: number): void {
  const change = { pid: 4343, crash: { count, crashed: false, nextRestartMs: null } }
  peer.event({ type: 'server.state', report: report(server.id, change), previous: 'running', commandId: null })
}

describe('a crash', () => {
  it('raises an alert with its reason, mails the owner, and is resolved when the server runs again', async () => {
    const owner = await stage.person()
    const server = await stage.create(template, node, { ownerId: owner.id })
    peer.event({ type: 'server.state', report: report(server.id), previous: 'offline', commandId: null })
    await stage.status(server.id, 'running')
    const rule = await makeRule(stage, {
      type: 'server_crashed',
      target: 'server',
      targetId: server.id,
      actions: { notifyOwner: true },
    })
    crashes(server)
    const alert = await alertOf(stage, { serverId: server.id })
    expect(alert).toMatchObject({
      ruleId: rule.id,
      type: 'server_crashed',
      severity: 'critical',
      message: expect.stringContaining('exit code 3'),
    })
    const [mail] = await settled(stage, alert.id, 1)
    expect(mail).toMatchObject({
      channel: 'email',
      target: expect.stringMatching(/^user\d+@example.org$/),
      status: 'sent',
    })
    runs(server, 1)
    expect(await alertOf(stage, { serverId: server.id, resolved: true })).toMatchObject({ id: alert.id })
    await stage.admin.call(deleteAlertRule, { params: { ruleId: rule.id } })
    expect(await alertsAbout(stage, server.id)).toMatchObject([{ ruleId: null, rule: null }])
  })

  it('is not mailed to an owner who is banned, and is again when the ban is over', async () => {
    const owner = await stage.person()
    const server = await stage.create(template, node, { ownerId: owner.id })
    const target = { target: 'server', targetId: server.id, actions: { notifyOwner: true } } as const
    const { id: ruleId } = await makeRule(stage, { type: 'server_crashed', ...target })
    const params = { userId: owner.id as never }
    const mails = async (): Promise<number> => {
      const { id: alertId } = await stage.admin.call(testAlertRule, { params: { ruleId } })
      return (await stage.admin.call(getAlert, { params: { alertId } })).deliveries.length
    }
    await stage.admin.call(banUser, { params, body: {} })
    expect(await mails()).toBe(0)
    await stage.admin.call(banUser, { params, body: { expiresAt: new Date(Date.now() + 500).toISOString() } })
    await eventually('the end of the ban', async () => !(await stage.admin.call(getUser, { params })).banned)
    expect(await mails()).toBe(1)
  })

  it('is not mailed to an owner whose address nobody has confirmed, also where an administrator made the rule', async () => {
    const owner = await stage.person()
    const server = await stage.create(template, node, { ownerId: owner.id })
    await stage.panel.unverify(owner.id)
    const target = { target: 'server', targetId: server.id, actions: { notifyOwner: true } } as const
    const { id: ruleId } = await makeRule(stage, { type: 'server_crashed', ...target })
    const mails = async (): Promise<number> => {
      const { id: alertId } = await stage.admin.call(testAlertRule, { params: { ruleId } })
      return (await stage.admin.call(getAlert, { params: { alertId } })).deliveries.length
    }
    expect(await mails()).toBe(0)
    const params = { userId: owner.id as never }
    await stage.admin.call(updateUser, { params, body: { emailVerified: true } })
    expect(await mails()).toBe(1)
  })

  it('after which the server was started again at once is not missed', async () => {
    const server = await running()
    const rule = await makeRule(stage, { type: 'server_crashed', target: 'server', targetId: server.id })
    runs(server, 1)
    const alert = await alertOf(stage, { serverId: server.id })
    expect(alert).toMatchObject({ ruleId: rule.id, resolved: true })
  })

  it('is told when the server is still down after the rule has kept quiet', async () => {
    const server = await running()
    await makeRule(stage, {
      type: 'server_crashed',
      target: 'server',
      targetId: server.id,
      actions: { cooldownMinutes: 30 },
    })
    runs(server, 1)
    await alertOf(stage, { serverId: server.id, resolved: true })
    crashes(server, 2)
    await stage.status(server.id, 'crashed')
    expect(await alertsAbout(stage, server.id)).toHaveLength(1)
    all.clock.advance(31 * 60_000)
    await alertOf(stage, { serverId: server.id, resolved: false })
  })

  it('goes no more to somebody who has lost the server while the message waited', async () => {
    const server = await running()
    const friend = await stage.person()
    const params = { serverId: server.id }
    const permissions = ['server.read', 'alert.read', 'alert.create', 'alert.update']
    const access = { targetUserId: friend.id as never, permissions } as never
    await stage.admin.call(setServerAccess, { params, body: access })
    const url = `${all.receiver.url}/of-a-friend`
    const body = { name: 'mine', type: 'server_crashed', target: 'server', targetId: server.id } as const
    const { id: ruleId } = await friend.client.call(createAlertRule, {
      body: { ...body, actions: { webhooks: [url] } },
    })
    // One after the other goes to a place: the second waits for the answer to the first.
    const held: ServerResponse[] = []
    all.receiver.answer = (response) => void held.push(response)
    const first = await friend.client.call(testAlertRule, { params: { ruleId } })
    const mine = () => all.receiver.received.filter(({ path }) => path.endsWith('/of-a-friend'))
    await eventually('the first message', () => mine().length === 1)
    const second = await friend.client.call(testAlertRule, { params: { ruleId } })
    await stage.admin.call(removeServerAccess, { params: { ...params, targetUserId: friend.id as never } })
    all.receiver.answer = (response) => void response.writeHead(204).end()
    for (const response of held) response.writeHead(204).end()
    expect(await settled(stage, first.id, 1)).toMatchObject([{ status: 'sent' }])
    expect(await settled(stage, second.id, 1)).toMatchObject([{ status: 'failed' }])
    expect(mine()).toHaveLength(1)
    all.receiver.received.length = 0
  })

  it('is mailed to strangers by rules of administrators alone, and to members as long as they may read it', async () => {
    const [owner, member, guard] = [await stage.person(), await stage.person(), await stage.person(['admin.write'])]
    const server = await stage.create(template, node, { ownerId: owner.id })
    const params = { serverId: server.id }
    const grant = { targetUserId: member.id, permissions: ['server.read', 'alert.read'] } as never
    await stage.admin.call(setServerAccess, { params, body: grant })
    const make = (by: typeof owner, emails: string[]) =>
      by.client.call(createAlertRule, {
        body: { name: 'a', type: 'server_crashed', target: 'server', targetId: server.id, actions: { emails } },
      })
    const sent = async (ruleId: Awaited<ReturnType<typeof make>>['id'], count: number) => {
      const { id } = await stage.admin.call(testAlertRule, { params: { ruleId } })
      const done = await settled(stage, id, count)
      return done.map(({ target, status, lastError }) => [target, status, lastError])
    }
    const own = await make(owner, [owner.email, member.email])
    const first = await sent(own.id, 2)
    expect(first.sort()).toEqual([owner.email, member.email].sort().map((address) => [address, 'sent', null]))
    await stage.admin.call(removeServerAccess, { params: { ...params, targetUserId: member.id as never } })
    const refused = [member.email, 'failed', expect.stringContaining('is not the confirmed address of an account')]
    expect(await sent(own.id, 2)).toContainEqual(refused)
    const outside = await make(guard, ['ops@elsewhere.example'])
    expect(await sent(outside.id, 1)).toEqual([['ops@elsewhere.example', 'sent', null]])
    // What an administrator has allowed ends with their right to it.
    await stage.admin.call(setServerAccess, { params, body: { ...(grant as object), targetUserId: guard.id } as never })
    const { roles } = await stage.admin.call(getUser, { params: { userId: guard.id as never } })
    const body = { permissions: [] }
    for (const { id } of roles) await stage.admin.call(updateRole, { params: { roleId: id }, body })
    expect(await sent(outside.id, 1)).toEqual([
      ['ops@elsewhere.example', 'failed', expect.stringContaining('admin.write')],
    ])
  })

  it('is not told to somebody who has lost the server, nor by a rule that is switched off', async () => {
    const server = await running()
    const friend = await stage.person()
    const params = { serverId: server.id }
    const permissions = ['server.read', 'alert.read', 'alert.create', 'alert.update']
    await stage.admin.call(setServerAccess, {
      params,
      body: { targetUserId: friend.id as never, permissions } as never,
    })
    const body = { name: 'mine', type: 'server_crashed' as const, target: 'server' as const, targetId: server.id }
    const rule = await friend.client.call(createAlertRule, {
      body: { ...body, actions: { emails: [friend.email] } },
    })
    crashes(server)
    const open = await alertOf(stage, { serverId: server.id, resolved: false })
    await settled(stage, open.id, 1)
    await stage.admin.call(removeServerAccess, { params: { ...params, targetUserId: friend.id as never } })
    runs(server, 1)
    await alertOf(stage, { serverId: server.id, resolved: true })
    // Nor of its end.
    expect((await stage.admin.call(getAlert, { params: { alertId: open.id as never } })).deliveries).toHaveLength(1)
    const silent = await makeRule(stage, { type: 'server_crashed', target: 'server', targetId: server.id })
    await stage.admin.call(updateAlertRule, { params: { ruleId: silent.id }, body: { enabled: false } })
    const witness = await makeRule(stage, { type: 'server_crashed', target: 'server', targetId: server.id })
    all.clock.advance(6 * 60_000) // beyond its cool-down
    crashes(server, 2)
    await alertOf(stage, { serverId: server.id, resolved: false })
    const reported = (await alertsAbout(stage, server.id)).map(({ ruleId }) => ruleId)
    expect(reported).toEqual([witness.id, rule.id])
    expect(reported).not.toContain(silent.id)
  })
})

describe('the messages of a rule', () => {
  it('reach one URL while another of the same host does not answer', async () => {
    const server = await running()
    const { receiver } = all
    const [stuck, fine] = [`${receiver.url}/stuck`, `${receiver.url}/fine`]
    receiver.answer = (response, { path }) => void (path.endsWith('stuck') ? undefined : response.writeHead(204).end())
    const actions = { webhooks: [stuck, fine] }
    await makeRule(stage, { type: 'server_crashed', target: 'server', targetId: server.id, actions })
    crashes(server)
    const arrived = () => receiver.received.map(({ path }) => path).sort()
    await eventually('both', () => arrived().length === 2, 5000)
    expect(arrived()).toEqual(['/hook/fine', '/hook/stuck'])
  })
})

describe('a node that stays away', () => {
  it('is an alert of the rule that comes with the panel, unless it is in maintenance; its return resolves it', async () => {
    const [away, spared] = [await stage.node(), await stage.node()]
    const [first, second] = [await stage.peer(away), await stage.peer(spared)]
    await stage.db.write((tx) => tx.q.updateTable('node').set({ maintenance: 1 }).where('id', '=', spared.id).execute())
    first.socket.terminate()
    second.socket.terminate()
    const gone = async (id: string) => !(await stage.admin.call(getNode, { params: { nodeId: id as never } })).isOnline
    await eventually('both to be away', async () => (await gone(away.id)) && (await gone(spared.id)))
    await looked(stage.panel)
    all.clock.advance(4 * 60_000)
    await looked(stage.panel)
    expect(await stage.admin.call(listAlerts, { query: { nodeId: away.id as never } })).toEqual([])
    all.clock.advance(90_000)
    const alert = await alertOf(stage, { nodeId: away.id })
    expect(alert).toMatchObject({
      type: 'node_offline',
      severity: 'critical',
      rule: { name: 'Node away' },
      userId: null,
    })
    await stage.peer(away)
    await alertOf(stage, { nodeId: away.id, resolved: true })
    expect(await stage.admin.call(listAlerts, { query: { nodeId: spared.id as never } })).toEqual([])
  })
})
