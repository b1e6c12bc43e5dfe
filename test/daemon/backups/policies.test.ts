import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createAlertRule } from '../../../src/shared/api/alert-rules.ts'
import { listAlerts } from '../../../src/shared/api/alerts.ts'
import * as api from '../../../src/shared/api/backup-policies.ts'
import { until } from '../servers/stage.ts'
import { PolicyStage } from './policy-stage.ts'

let policies: PolicyStage
beforeAll(async () => {
  policies = await PolicyStage.open()
})
afterAll(() => policies.close())

const ended = ({ endedAt }: api.PolicyRun): boolean => endedAt !== null
const admin = () => policies.stage.admin

const alertsOf = (serverId: string) =>
  admin().call(listAlerts, { query: { serverId: serverId as never, resolved: 'false' } })

describe('a backup policy', () => {
  it('backs up its servers at its time, as many at a time on each node as it says, and catches up a node that was away', async () => {
    const [one, two, away] = [await policies.node(5), await policies.node(5), await policies.node(3)]
    await Promise.all([one.connect(), two.connect()])
    const policy = await policies.create([one, two, away])
    expect(policy).toMatchObject({ perNode: 2, counts: { servers: 13, due: 0, overdue: 0 } })
    const first = await policies.reach(policy)
    expect(first).toMatchObject({ cause: 'schedule', startedBy: null, counts: { servers: 13 } })
    await policies.newest(policy, 'done but for the node away', ({ counts }) => counts.completed === 10)
    expect([one.most, two.most]).toEqual([2, 2])
    expect(new Set(one.made)).toEqual(new Set(one.servers))
    const waiting = await policies.results(first, 'waiting')
    expect(waiting.map(({ serverId }) => serverId).sort()).toEqual([...away.servers].sort())
    expect(waiting[0]?.reason).toContain('is not connected')

    await admin().call(createAlertRule, { body: { name: 'overdue', type: 'backup_overdue', target: 'global' } })
    const second = await policies.reach(policy)
    await policies.newest(policy, 'done again', ({ counts }) => counts.completed === 10)
    expect(await policies.runs(policy)).toMatchObject([
      { id: second.id, status: 'running' },
      { id: first.id, status: 'superseded', counts: { completed: 10, skipped: 3 } },
    ])
    expect((await policies.get(policy)).counts).toMatchObject({ due: 3, overdue: 3 })
    const [server = ''] = away.servers
    const [alert] = await until('an alert', async () => {
      const found = await alertsOf(server)
      return found.length > 0 ? found : undefined
    })
    expect(alert).toMatchObject({ type: 'backup_overdue', severity: 'warning' })
    expect(alert?.message).toContain(policy.name)

    await away.connect()
    const last = await policies.newest(policy, 'over', ended)
    expect(last).toMatchObject({ id: second.id, status: 'completed', counts: { completed: 13, failed: 0 } })
    // One each, and not one for each run that was missed.
    expect([...away.made].sort()).toEqual([...away.servers].sort())
    expect(away.most).toBe(2)
    await until('the alert to be over', async () => ((await alertsOf(server)).length === 0 ? true : undefined))
    expect((await policies.get(policy)).counts).toMatchObject({ due: 0, overdue: 0 })
  })

  it('says what has failed, alerts, and makes the next one at its next time', async () => {
    const node = await policies.node(2)
    await node.connect()
    const [bad = '', good = ''] = node.servers
    await admin().call(createAlertRule, { body: { name: 'failed', type: 'backup_failed', target: 'global' } })
    node.answer = ({ serverId }) => (serverId === bad ? { error: 'the disk is full' } : { storedBytes: 10 })
    const policy = await policies.create([node])
    await policies.run(policy)
    const run = await policies.newest(policy, 'over', ended)
    expect(run).toMatchObject({ cause: 'manual', status: 'failed', counts: { completed: 1, failed: 1 } })
    expect(await policies.results(run, 'failed')).toMatchObject([
      { serverId: bad, reason: expect.stringContaining('the disk is full') },
    ])
    expect((await policies.standings(policy)).map(({ serverId, state }) => [serverId, state]).sort()).toEqual(
      [
        [bad, 'failed'],
        [good, 'idle'],
      ].sort(),
    )
    expect(await alertsOf(bad)).toMatchObject([{ type: 'backup_failed' }])
    node.answer = () => ({ storedBytes: 10 })
    await policies.reach(policy)
    await policies.newest(policy, 'complete', ({ status }) => status === 'completed')
    await until('the alert to be over', async () => ((await alertsOf(bad)).length === 0 ? true : undefined))
    expect((await policies.get(policy)).counts).toMatchObject({ failed: 0, due: 0 })
  })

  it('goes on with a backup whose node went away in the middle', async () => {
    const node = await policies.node(1)
    await node.connect()
    node.answer = () => undefined
    const policy = await policies.create([node])
    await policies.run(policy)
    await until('the agent to be asked', async () => (node.asked.length === 1 ? true : undefined))
    await node.cut()
    node.answer = () => ({ storedBytes: 10 })
    await node.connect()
    expect(await policies.newest(policy, 'over', ended)).toMatchObject({ status: 'completed' })
    // The same work, so that the agent removes what is left of the first attempt.
    expect(node.asked.map(({ key }) => key)).toEqual([node.asked[0]?.key, node.asked[0]?.key])
    expect(node.asked[1]?.backupId).toBe(node.asked[0]?.backupId)
  })

  it('makes up by one run for the times that have passed while nobody was there', async () => {
    const node = await policies.node(1)
    await node.connect()
    const policy = await policies.create([node], { cron: '0 * * * *' })
    policies.pass(50)
    const run = await policies.newest(policy, 'over', ended)
    expect(run).toMatchObject({ cause: 'schedule', dueAt: policy.nextRunAt, status: 'completed' })
    expect(await policies.runs(policy)).toHaveLength(1)
    expect(Date.parse((await policies.get(policy)).nextRunAt ?? '')).toBeGreaterThan(policies.clock.nowMs())
  })

  it('is not held up by a clock that was a year ahead and is set back', async () => {
    const node = await policies.node(1)
    await node.connect()
    const yearHours = 365 * 24
    policies.pass(yearHours)
    const policy = await policies.create([node], { cron: '0 * * * *' })
    policies.pass(-yearHours)
    const beganMs = policies.clock.nowMs()
    const run = await until('its run', async () => {
      policies.clock.advance(600_000)
      return (await policies.runs(policy))[0]
    })
    expect(Date.parse(run.dueAt ?? '') - beganMs).toBeLessThan(3 * 3_600_000)
  })

  it('that is paused has no runs and no turns, and can be run by hand and cancelled', { tags: ['long'] }, async () => {
    const node = await policies.node(3)
    await node.connect()
    node.answer = () => undefined
    await admin().call(createAlertRule, { body: { name: 'of what fails', type: 'backup_failed', target: 'global' } })
    const policy = await policies.create([node], { perNode: 1 })
    const params = { policyId: policy.id }
    await policies.reach(policy)
    await until('the first backup', async () => (node.asked.length === 1 ? true : undefined))
    const paused = await admin().call(api.updateBackupPolicy, { params, body: { enabled: false } })
    expect(paused).toMatchObject({ enabled: false, nextRunAt: null })
    node.answer = () => ({ storedBytes: 10 })
    node.goOn()
    const held = await policies.newest(policy, 'held', ({ counts }) => counts.completed === 1)
    expect(held.counts).toMatchObject({ waiting: 2, running: 0 })
    expect((await policies.results(held, 'waiting')).map(({ reason }) => reason)).toEqual([
      'the policy is paused',
      'the policy is paused',
    ])
    node.answer = () => undefined
    const byHand = await policies.run(policy)
    await until('another backup', async () => (node.asked.length === 2 ? true : undefined))
    const cancelled = await admin().call(api.cancelBackupPolicy, { params })
    expect(cancelled).toMatchObject({ id: byHand.id, status: 'cancelled', counts: { skipped: 3 } })
    await expect(admin().call(api.cancelBackupPolicy, { params })).rejects.toMatchObject({ code: 'CONFLICT' })
    expect((await policies.get(policy)).counts).toMatchObject({ due: 0, overdue: 0 })
    const jobs = policies.stage.panel.app.core.db.read
      .selectFrom('backup')
      .select('status')
      .where('policyId', '=', policy.id)
    await until('its backup to end', async () =>
      (await jobs.execute()).every(({ status }) => status === 'completed' || status === 'failed') ? true : undefined,
    )
    // What somebody has cancelled is no failure.
    expect((await Promise.all(node.servers.map(alertsOf))).flat()).toEqual([])
  })

  it('keeps as many as it says, within a bound of its own that the limit of a server has no part in', async () => {
    const node = await policies.node(1)
    const [serverId = ''] = node.servers
    await node.connect()
    const limits = { body: { backupAllocationMb: 0 }, params: { serverId: serverId as never } }
    const { updateBackupSettings, createBackup, listAllBackups } = await import('../../../src/shared/api/backups.ts')
    await admin().call(updateBackupSettings, limits)
    const byHand = admin().call(createBackup, { params: limits.params, body: {} })
    await expect(byHand).rejects.toMatchObject({ code: 'BACKUP_DISABLED' })
    node.answer = () => ({ storedBytes: 700_000 })
    const policy = await policies.create([node], { keepCount: 1, allocationMb: 1 })
    for (const _ of [1, 2]) {
      await policies.run(policy)
      await policies.newest(policy, 'complete', ({ status }) => status === 'completed')
    }
    expect(node.asked.map(({ maxStoredBytes }) => maxStoredBytes)).toEqual([1_048_576, 348_576])
    const kept = await until('one to be kept', async () => {
      const found = await admin().call(listAllBackups, { query: { policyId: policy.id } })
      return found.length === 1 ? found : undefined
    })
    expect(kept).toMatchObject([{ id: node.asked[1]?.backupId, policyId: policy.id }])
  })

  it('keeps the one that it has made last, where another was dated by a clock that was ahead', async () => {
    const node = await policies.node(1)
    await node.connect()
    const yearHours = 365 * 24
    policies.pass(yearHours)
    const policy = await policies.create([node], { keepCount: 1 })
    const { listAllBackups } = await import('../../../src/shared/api/backups.ts')
    const make = async () => {
      const { id } = await policies.run(policy)
      await until('its run to end', async () =>
        (await policies.runs(policy)).find((run) => run.id === id && run.status === 'completed'),
      )
    }
    await make()
    policies.pass(-yearHours)
    await make()
    const ids = async () => (await admin().call(listAllBackups, { query: { policyId: policy.id } })).map(({ id }) => id)
    const kept = await until('one to be kept', async () => {
      const found = await ids()
      return found.length === 1 ? found : undefined
    })
    expect(kept).toEqual([node.asked[1]?.backupId])
  })

  it('means all servers, those of a location or of a node, or those it names; none that is archived or not whole', async () => {
    const node = await policies.node(4)
    const [archived = '', broken = ''] = node.servers
    await policies.stage.set(archived, { archivedAt: '2026-01-01T00:00:00.000Z' })
    await policies.stage.set(broken, { installed: 0 })
    const all = await policies.create([], { target: 'all', serverIds: [], enabled: false })
    const { count } = await policies.stage.panel.app.core.db.read
      .selectFrom('server')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow()
    expect(all.counts.servers).toBe(Number(count) - 2)
    const of = (body: object) => policies.create([], { serverIds: [], enabled: false, ...body })
    const { id: nodeId, locationId } = node.node
    expect((await of({ target: 'node', nodeId })).counts.servers).toBe(2)
    expect((await of({ target: 'location', locationId })).counts.servers).toBe(all.counts.servers)
    expect((await of({ target: 'servers', serverIds: node.servers })).counts.servers).toBe(2)
  })

  it('is edited although a server that it names is gone', async () => {
    const node = await policies.node(2)
    const [gone = ''] = node.servers
    const policy = await policies.create([node], { enabled: false })
    const { db } = policies.stage
    await db.write((tx) => tx.q.deleteFrom('server').where('id', '=', gone).execute())
    const edited = await admin().call(api.updateBackupPolicy, {
      params: { policyId: policy.id },
      body: { keepCount: 3 },
    })
    expect(edited).toMatchObject({ keepCount: 3, counts: { servers: 1 } })
    const again = admin().call(api.updateBackupPolicy, {
      params: { policyId: policy.id },
      body: { serverIds: policy.serverIds },
    })
    await expect(again).rejects.toMatchObject({ code: 'SERVER_NOT_FOUND' })
  })

  it.each([
    ['cron', { cron: '0 4 * *' }, 'five fields'],
    ['cron', { cron: '@soon' }, 'five fields'],
    ['cron', { cron: '61 4 * * *' }, 'five fields'],
    ['cron', { cron: '* * * * *' }, '5 minutes'],
    ['cron', { cron: '0 0 31 2 *' }, 'no time fits'],
    ['timeZone', { timeZone: 'Berlin' }, 'Europe/Berlin'],
    ['nodeId', { target: 'node' }, 'must name'],
    ['serverIds', { target: 'servers', serverIds: [] }, 'at least one'],
  ])('refuses a %s that makes no sense: %j', async (field, body, text) => {
    await expect(policies.create([], { target: 'all', ...(body as object) })).rejects.toMatchObject({
      code: 'VALIDATION_ERROR',
      details: [{ field: `body.${field}`, message: expect.stringContaining(text) }],
    })
  })
})
