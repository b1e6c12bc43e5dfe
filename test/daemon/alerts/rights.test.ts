import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setServerAccess } from '../../../src/shared/api/access.ts'
import * as rules from '../../../src/shared/api/alert-rules.ts'
import * as api from '../../../src/shared/api/alerts.ts'
import type { Server } from '../../../src/shared/api/servers.ts'
import { deleteUser, updateUser } from '../../../src/shared/api/users.ts'
import type { Client } from '../../../src/shared/client.ts'
import { refusal } from '../place-panel.ts'
import { type Person, Stage } from '../servers/stage.ts'
import { type QuickClock, quickClock } from '../webhooks/receiver.ts'

let clock: QuickClock
let stage: Stage
let server: Server
let other: Server
let owner: Person
let reader: Person
let stranger: Person
let alertId: api.AlertDelivery['alertId']
beforeAll(async () => {
  clock = quickClock()
  stage = await Stage.open({ clock })
  const [node, template] = [await stage.node(), await stage.template()]
  owner = await stage.person(['apikey.manage'])
  reader = await stage.person()
  stranger = await stage.person()
  server = await stage.create(template, node, { ownerId: owner.id })
  other = await stage.create(template, node)
  const body = { targetUserId: reader.id as never, permissions: ['server.read', 'alert.read'] }
  await stage.admin.call(setServerAccess, { params: { serverId: server.id }, body: body as never })
  alertId = await alert(server)
  await alert(other)
})
afterAll(() => stage.close())

const rule = (client: Client, about: { id: string } | null, body: object = {}) =>
  client.call(rules.createAlertRule, {
    body: {
      name: 'a rule',
      type: 'server_crashed',
      ...(about === null ? { target: 'global' } : { target: 'server', targetId: about.id }),
      ...body,
    },
  })

/** A test of a rule leaves an alert about its server. */
async function alert(about: Server) {
  const { id } = await rule(stage.admin, about)
  return (await stage.admin.call(rules.testAlertRule, { params: { ruleId: id } })).id as typeof alertId
}

const idsOf = async (client: Client, query: object = {}) =>
  (await client.call(api.listAlerts, { query })).map(({ serverId }) => serverId)
const params = () => ({ alertId })

describe('alerts', () => {
  it('are seen by the owner of the server, by members who may, and by who may see all', async () => {
    expect(await idsOf(owner.client)).toEqual([server.id])
    expect(await idsOf(reader.client)).toEqual([server.id])
    expect(await idsOf(stranger.client)).toEqual([])
    expect(new Set(await idsOf(stage.admin))).toEqual(new Set([server.id, other.id]))
    const support = await stage.person(['alert.read'])
    expect(await idsOf(support.client)).toHaveLength(2)
    expect((await refusal(owner.client.call(api.listAlerts, { query: { scope: 'all' } }))).code).toBe(
      'PERMISSION_DENIED',
    )
    expect(await owner.client.call(api.alertStats)).toMatchObject({ total: 1, unresolved: 0, byType: { custom: 0 } })
    expect((await refusal(stranger.client.call(api.getAlert, { params: params() }))).code).toBe('ALERT_NOT_FOUND')
    expect(await reader.client.call(api.getAlert, { params: params() })).toMatchObject({ id: alertId })
  })

  it('are shown to a key as far as it reaches', async () => {
    expect(await idsOf(await stage.key(owner.client, [`server.read:${server.id}`]))).toEqual([])
    expect(await idsOf(await stage.key(owner.client, [`alert.read:${server.id}`]))).toEqual([server.id])
    const none = await stage.key(stage.admin, [`alert.read:${other.id}`])
    expect(await idsOf(none)).toEqual([other.id])
  })

  it('are resolved and deleted only by who may', async () => {
    for (const call of [
      () => reader.client.call(api.resolveAlert, { params: params() }),
      () => reader.client.call(api.resolveAlerts, { body: { alertIds: [alertId] } }),
      () => reader.client.call(api.deleteAlert, { params: params() }),
    ]) {
      expect((await refusal(call())).code).toBe('PERMISSION_DENIED')
    }
    const ids = [alertId, 'alert_nothing' as typeof alertId]
    const unknown = await refusal(owner.client.call(api.resolveAlerts, { body: { alertIds: ids } }))
    expect(unknown).toMatchObject({ code: 'ALERT_NOT_FOUND', meta: { missing: ['alert_nothing'] } })
    await owner.client.call(api.deleteAlert, { params: params() })
    expect((await refusal(owner.client.call(api.getAlert, { params: params() }))).code).toBe('ALERT_NOT_FOUND')
  })
})

describe('rules', () => {
  it('for a server are made by who holds alert.create there, all others by administrators', async () => {
    const mine = await rule(owner.client, server)
    expect(mine).toMatchObject({ userId: owner.id, targetId: server.id })
    for (const [{ client }, target] of [
      [reader, server],
      [owner, other],
      [owner, null],
    ] as const) {
      expect((await refusal(rule(client, target))).code).toBe('PERMISSION_DENIED')
    }
    const ruleId = mine.id
    expect((await refusal(stranger.client.call(rules.getAlertRule, { params: { ruleId } }))).code).toBe(
      'ALERT_RULE_NOT_FOUND',
    )
    const watcher = await stage.person(['admin.read'])
    expect(await watcher.client.call(rules.getAlertRule, { params: { ruleId } })).toMatchObject({ id: ruleId })
    const edit = watcher.client.call(rules.updateAlertRule, { params: { ruleId }, body: { name: 'taken' } })
    expect((await refusal(edit)).code).toBe('PERMISSION_DENIED')
    expect((await owner.client.call(rules.listAlertRules)).map(({ id }) => id)).toEqual([ruleId])
    const edited = await owner.client.call(rules.updateAlertRule, { params: { ruleId }, body: { name: 'renamed' } })
    expect(edited.name).toBe('renamed')
    await owner.client.call(rules.deleteAlertRule, { params: { ruleId } })
  })

  it('that could never fire are refused with the field', async () => {
    for (const [body, field] of [
      [{ type: 'resource_threshold' }, 'body.conditions'],
      [{ type: 'resource_threshold', conditions: { cpuThreshold: 101 } }, 'body.conditions.cpuThreshold'],
      [{ conditions: { cpuThreshold: 50 } }, 'body.conditions.cpuThreshold'],
      [{ type: 'node_offline' }, 'body.target'],
      [{ target: 'node' }, 'body.target'],
      [{ target: 'global' }, 'body.targetId'],
      [{ targetId: null }, 'body.targetId'],
      [{ type: 'custom' }, 'body.type'],
      [{ actions: { webhooks: ['http://10.0.0.1/x'] } }, 'body.actions.webhooks.0'],
      [{ actions: { emails: ['nobody'] } }, 'body.actions.emails.0'],
    ] as const) {
      const refused = await refusal(rule(stage.admin, server, body))
      expect([body, refused.code, refused.fields]).toEqual([body, 'VALIDATION_ERROR', [field]])
    }
    expect((await refusal(rule(stage.admin, { id: 'srv_nothing' }))).code).toBe('SERVER_NOT_FOUND')
  })

  it('keep URLs that are sent back as they were shown, and show none that is a secret', async () => {
    const secret = 'https://discord.com/api/webhooks/1/a-token-that-lets-everybody-post'
    const made = await rule(owner.client, server, { actions: { webhooks: [secret, 'https://example.org/a'] } })
    const shown = ['https://discord.com/********', 'https://example.org/a']
    expect(made.actions.webhooks).toEqual(shown)
    const read = () =>
      stage.db.read.selectFrom('alertRule').selectAll().where('id', '=', made.id).executeTakeFirstOrThrow()
    const before = (await read()).sealedWebhooks
    const edit = (actions: rules.AlertActions) =>
      owner.client.call(rules.updateAlertRule, { params: { ruleId: made.id }, body: { actions } })
    const kept = await edit({ webhooks: shown, emails: [owner.email] })
    expect(kept).toMatchObject({ webhookSecret: null, actions: { webhooks: shown, emails: [owner.email] } })
    expect((await read()).sealedWebhooks).toBe(before)
    // Two that are shown alike stay two.
    const alike = ['https://discord.com/********', 'https://discord.com/********']
    await edit({ webhooks: [secret, `${secret}-of-another`] })
    const two = (await read()).sealedWebhooks
    expect(await edit({ webhooks: alike, emails: [reader.email] })).toMatchObject({ actions: { webhooks: alike } })
    expect((await read()).sealedWebhooks).toBe(two)
    await edit({ webhooks: ['https://example.org/b'] })
    expect((await read()).sealedWebhooks).not.toBe(before)
    await edit({})
    expect((await read()).sealedWebhooks).toBeNull()
  })

  it('are shown to a key of their owner as far as it may read alerts', async () => {
    const { id } = await rule(owner.client, server)
    const seen = async (permissions: string[]) => {
      const client = await stage.key(owner.client, permissions)
      const shown = await client.call(rules.getAlertRule, { params: { ruleId: id } }).then(
        () => true,
        () => false,
      )
      return [shown, (await client.call(rules.listAlertRules)).some((row) => row.id === id)]
    }
    expect(await seen([`server.read:${server.id}`])).toEqual([false, false])
    expect(await seen([`alert.read:${server.id}`])).toEqual([true, true])
  })

  it('mail to who may read the alerts, and to strangers where an administrator says so', async () => {
    const field = 'body.actions.emails.1'
    const emails = (address: string) => ({ actions: { emails: [owner.email.toUpperCase(), address] } })
    const narrow = await stage.key(stage.admin, [`alert.create:${server.id}`, `alert.read:${server.id}`])
    for (const [client, address] of [
      [owner.client, 'somebody@elsewhere.example'],
      [owner.client, stranger.email],
      [narrow, 'somebody@elsewhere.example'],
    ] as const) {
      const refused = await refusal(rule(client, server, emails(address)))
      expect([address, refused.code, refused.fields]).toEqual([address, 'VALIDATION_ERROR', [field]])
    }
    await stage.panel.unverify(reader.id)
    expect((await refusal(rule(owner.client, server, emails(reader.email)))).fields).toEqual([field])
    await stage.admin.call(updateUser, { params: { userId: reader.id as never }, body: { emailVerified: true } })
    const { id: ruleId } = await rule(owner.client, server, emails(reader.email))
    // What it would not send it does not take, also from an administrator; what it had stays.
    const edit = (client: Client, address: string) =>
      client.call(rules.updateAlertRule, { params: { ruleId }, body: emails(address) })
    expect((await refusal(edit(stage.admin, 'ops@elsewhere.example'))).fields).toEqual([field])
    expect((await refusal(edit(owner.client, 'ops@elsewhere.example'))).fields).toEqual([field])
    expect((await edit(owner.client, reader.email)).actions.emails).toHaveLength(2)
    expect((await rule(stage.admin, server, emails('ops@elsewhere.example'))).actions.emails).toHaveLength(2)
  })

  it('are tested ten times a minute by one account and no more', async () => {
    const { id: ruleId } = await rule(owner.client, server)
    const test = () => owner.client.call(rules.testAlertRule, { params: { ruleId } })
    for (let n = 0; n < 10; n++) await test()
    expect((await refusal(test())).code).toBe('RATE_LIMITED')
  })

  it('are tested thirty times an hour by one account and no more', async () => {
    const tester = await stage.person(['alert.read', 'alert.create', 'alert.update'])
    const { id: ruleId } = await rule(tester.client, server)
    const test = () => tester.client.call(rules.testAlertRule, { params: { ruleId } })
    for (let minute = 0; minute < 3; minute++) {
      for (let n = 0; n < 10; n++) await test()
      clock.advance(61_000)
    }
    expect(await refusal(test())).toMatchObject({ code: 'RATE_LIMITED', meta: { limit: 30 } })
    clock.advance(3_600_000)
    await test()
  })

  it('for a server go with the account of whoever made them', async () => {
    const friend = await stage.person(['alert.create', 'alert.read'])
    const { id } = await rule(friend.client, server)
    await stage.admin.call(deleteUser, { params: { userId: friend.id as never } })
    const gone = stage.admin.call(rules.getAlertRule, { params: { ruleId: id } })
    expect((await refusal(gone)).code).toBe('ALERT_RULE_NOT_FOUND')
  })
})
