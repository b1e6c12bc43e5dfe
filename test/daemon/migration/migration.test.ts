import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { createApiKey } from '../../../src/shared/api/api-keys.ts'
import { login } from '../../../src/shared/api/auth.ts'
import {
  cancelMigration,
  listMigrationSteps,
  listMigrations,
  listTargetNodes,
  pauseMigration,
  resumeMigration,
  retryMigrationStep,
  startMigration,
  testMigration,
} from '../../../src/shared/api/migration.ts'
import { createNode, createNodeKey } from '../../../src/shared/api/nodes.ts'
import { createRole } from '../../../src/shared/api/roles.ts'
import { createTask, listTasks } from '../../../src/shared/api/schedules.ts'
import { suspendServer } from '../../../src/shared/api/suspension.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import type { LocationId, MigrationId, MigrationStepId, ServerId } from '../../../src/shared/kernel/ids.ts'
import { AgentPeer } from '../agent-peer.ts'
import { ConsoleReader } from '../console-reader.ts'
import { refusal } from '../place-panel.ts'
import { failedSteps, MigrationStage, type StartBody } from './migration-stage.ts'

let stage: MigrationStage
let events: ConsoleReader

beforeAll(async () => {
  const none = { suspended: 0, fullSlots: 0, zeroSlots: 0 }
  stage = await MigrationStage.open({
    source: {
      ...{ servers: 3, nodes: 1, filesPerServer: 2, fileKb: 4, ...none },
      customize: ({ servers, eggs }) => {
        const [first, own] = servers
        const egg = eggs.find(({ id }) => id === first?.eggId)
        const home = egg?.variables[0]
        if (first !== undefined && egg !== undefined && home !== undefined) {
          // A shell has this name for itself, so that it is another one here.
          egg.variables.push({ ...home, id: 900, envVariable: 'HOSTNAME', defaultValue: '', rules: ['nullable'] })
          first.environment = { ...first.environment, HOSTNAME: 'first.example' }
          egg.startup += ' --host {{HOSTNAME}}'
          first.startup = egg.startup
        }
        if (own !== undefined) own.startup = './own {{SERVER_JARFILE}} \\"{{SERVER_PORT}}\\"'
        // It can be read, and there is no such day.
        const never = servers[0]?.schedules.find(({ name }) => name === 'odd times')
        if (never !== undefined) never.cron = { minute: '0', hour: '0', dayOfMonth: '31', month: '2', dayOfWeek: '*' }
      },
    },
  })
  events = new ConsoleReader(`${stage.panel.url}/api/admin/events`, stage.panel.adminToken)
})

afterAll(async () => {
  events.close()
  await stage.close()
})

beforeEach(async () => {
  await stage.source.setFaults({ delayMs: 0, slowBps: 0, failEvery: 0 })
})

const seen = (type: string, jobId: MigrationId) => events.of(type).filter(({ data }) => data['jobId'] === jobId)

describe('a migration', () => {
  it('is refused before anything is written or asked', async () => {
    const { client, nodeId } = stage.panel
    const start = (body: StartBody) => refusal(client.call(startMigration, { body: stage.body(body) as never }))
    const before = stage.source.log.length
    expect(await start({ nodeMappings: {} })).toMatchObject({ code: 'VALIDATION_ERROR', fields: ['body.nodeMappings'] })
    expect(await start({ scope: 'server' })).toMatchObject({ fields: ['body.serverMappings'] })
    expect(await start({ url: undefined })).toMatchObject({ fields: ['body.url'] })
    // They would be kept, answered and announced with the address.
    const secret = stage.source.url.replace('//', '//somebody:secret@')
    expect(await start({ url: secret })).toMatchObject({ code: 'VALIDATION_ERROR', fields: ['body.url'] })
    expect(await start({ options: { archiveOrigins: [secret] } })).toMatchObject({
      fields: ['body.options.archiveOrigins.0'],
    })
    expect(await start({ nodeMappings: { 1: 'node_01aaaaaaaaaaaaaaaaaaaaaaaa' } })).toMatchObject({
      code: 'MIGRATION_TARGET_NODES_NOT_FOUND',
    })
    const { id: away } = await client.call(createNode, {
      body: { name: 'away', locationId: stage.panel.locationId as LocationId, maxMemoryMb: 1024, maxCpuCores: 1 },
    })
    expect(await start({ nodeMappings: { 1: away, 2: 'node_01aaaaaaaaaaaaaaaaaaaaaaaa' } })).toMatchObject({
      code: 'MIGRATION_TARGET_NODES_OFFLINE',
      meta: { offlineNodes: [{ id: away, name: 'away' }] },
    })
    expect(await start({ verifyOf: 'mig_01aaaaaaaaaaaaaaaaaaaaaaaa' })).toMatchObject({ code: 'MIGRATION_NOT_FOUND' })
    expect(await client.call(listMigrations, {})).toEqual([])
    expect(stage.source.log.length).toBe(before)
    const nodes = await client.call(listTargetNodes)
    expect(nodes.find(({ id }) => id === nodeId)).toMatchObject({ isOnline: true, serverCount: 0 })
  })

  it('makes administrators only for somebody who may do everything', async () => {
    const { client } = stage.panel
    const role = await client.call(createRole, {
      body: { name: 'mover', permissions: ['admin.write', 'user.create', 'user.set_roles'] },
    })
    const [email, password] = ['mover@example.org', 'Correct-horse-1']
    await client.call(createUser, { body: { username: 'mover', email, password, roleIds: [role.id] } })
    const { token } = await stage.panel.as(undefined).call(login, { body: { email, password } })
    const mover = stage.panel.as(token)
    const start = (options: object) =>
      refusal(mover.call(startMigration, { body: stage.body({ options, dryRun: true }) as never }))
    expect(await start({ grantAdmin: true })).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await client.call(listMigrations, {})).toEqual([])
    const keyed = { permissions: ['admin.write' as const] }
    const { key } = await client.call(createApiKey, { body: { name: 'less than its user', ...keyed } })
    const body = stage.body({ options: { grantAdmin: true }, dryRun: true }) as never
    expect(await refusal(stage.panel.as(key).call(startMigration, { body }))).toMatchObject({
      code: 'PERMISSION_DENIED',
    })
    expect(await client.call(listMigrations, {})).toEqual([])
  })

  it('can be looked at before: what the source has, and what the keys may not do', async () => {
    const { client } = stage.panel
    const { url, keys } = stage.source
    const body = { url, key: keys.application, clientApiKey: keys.account }
    const tested = await client.call(testMigration, { body })
    expect(tested).toMatchObject({ success: true, kind: 'pterodactyl', stats: { servers: 3, nodes: 1 } })
    expect(tested.servers).toEqual(tested.serversList)
    const less = await client.call(testMigration, { body: { ...body, key: keys.applicationServersOnly } })
    expect(less.success).toBe(false)
    expect(less.missingRights.join(' ')).toMatch(/users/)
    const refused = await client.call(testMigration, { body: { url, key: 'ptla_nobodys_key' } })
    expect(refused).toMatchObject({ success: false, errorCode: 'REFUSED' })
    expect(JSON.stringify([tested, less, refused])).not.toContain(keys.account)
  })

  it('can be planned without a change anywhere', async () => {
    const before = stage.source.state()
    const job = await stage.moved({ dryRun: true })
    expect(job).toMatchObject({ status: 'completed', outcome: 'clean', steps: [], hasKeys: false })
    expect(job.plan?.conflicts).toEqual([])
    expect(job.plan?.counts.create).toBeGreaterThan(10)
    expect(await stage.servers()).toEqual([])
    expect(stage.source.state()).toEqual(before)
    const again = await stage.moved({ dryRun: true })
    expect(again.planHash).toBe(job.planHash)
  })

  it('is planned without a server that is deleted on the source meanwhile, and says so', async () => {
    const { source } = stage
    const isRead = (): boolean =>
      source.log
        .slice(from)
        .some(({ path, query, status }) => path.endsWith('/servers') && query.includes('include') && status === 200)
    await source.setFaults({ delayMs: 150 })
    const from = source.log.length
    const jobId = await stage.start({ dryRun: true })
    const deleted = await (async () => {
      while (!isRead()) await new Promise((resolve) => setTimeout(resolve, 5))
      return source.world.servers.pop()
    })()
    if (deleted === undefined) throw new Error('the source has no server')
    try {
      const job = await stage.in(jobId)
      expect(job).toMatchObject({ status: 'completed', error: null })
      expect(job.plan?.warnings).toContain(`server ${deleted.name} cannot be read: it has just been deleted there`)
      const left = job.plan?.items.filter(({ action }) => action === 'import_server')
      expect(left?.map(({ op }) => op).sort()).toEqual(['create', 'create', 'skip'])
    } finally {
      source.world.servers.push(deleted)
    }
  })

  it('brings servers with all that belongs to them, and leaves the source as it was', async () => {
    const before = stage.source.state()
    const { planHash } = await stage.moved({ dryRun: true })
    const job = await stage.moved({ planHash: planHash ?? '' })
    expect({ status: job.status, error: job.error, failed: failedSteps(job) }).toEqual({
      status: 'completed',
      error: null,
      failed: [],
    })
    expect(job).toMatchObject({ outcome: 'clean', hasKeys: false, report: { clean: true, sourceLeftovers: [] } })
    expect(job.report?.skipped).toContainEqual(
      expect.objectContaining({ type: 'schedule', name: 'odd times', reason: 'cron_unreadable' }),
    )
    const servers = await stage.servers()
    expect(servers).toHaveLength(3)
    for (const { id, uuid, status, ownerId } of servers) {
      expect(await stage.filesOf(id)).toEqual(stage.manifestOf(uuid))
      expect(status).toBe('stopped')
      const row = stage.source.world.servers.find((one) => one.uuid === uuid)
      const owner = stage.source.world.users.find((user) => user.id === row?.ownerId)
      expect(await ownerMail(ownerId)).toBe(owner?.email.toLowerCase())
      const tasks = await stage.panel.client.call(listTasks, { params: { serverId: id } })
      const nightly = tasks.find(({ name }) => name === 'nightly')
      expect(nightly).toMatchObject({ enabled: true, schedule: '0 4 * * *' })
      expect(nightly?.steps.map(({ action }) => action)).toEqual(['command', 'backup', 'restart'])
    }
    expect(stage.source.state()).toEqual(before)
    for (const totals of Object.values(job.report?.totals ?? {})) {
      const { read, ...rest } = totals
      expect(Object.values(rest).reduce((sum, count) => sum + count, 0)).toBe(read)
    }
    expect(JSON.stringify(job)).not.toContain(stage.source.keys.account)
    expect(stage.panel.log()).not.toContain(stage.source.keys.account)
    for (const type of ['migration_started', 'migration_progress', 'migration_step_updated', 'migration_completed']) {
      await events.until(type, () => seen(type, job.jobId).length > 0)
    }
    expect(seen('migration_status', job.jobId).map(({ data }) => data['to'])).toEqual([
      'validating',
      'running',
      'completed',
    ])
  })

  it('gives servers the line of their template, or their own, with the words that they have on the source', async () => {
    const servers = await stage.servers()
    const [first, own] = stage.source.world.servers.map(({ uuid }) => servers.find((one) => one.uuid === uuid))
    expect(first).toMatchObject({ startupCommand: null, environment: { SERVER_HOSTNAME: 'first.example' } })
    expect(first?.template.startup).toBe(
      'java -Xms128M -Xmx{{SERVER_MEMORY | split}}M -jar {{SERVER_JARFILE | split}} --host {{SERVER_HOSTNAME | split}}',
    )
    expect(own?.startupCommand).toBe('./own {{SERVER_JARFILE | split}} "{{SERVER_PORT}}"')
  })

  it('brings only what differs when it is done again', async () => {
    const writes = () => stage.source.log.filter(({ method }) => method !== 'GET').length
    const before = writes()
    const same = await stage.moved()
    expect(failedSteps(same)).toEqual([])
    const work = same.steps.filter(
      ({ status, action }) => status === 'completed' && /^import|^transfer|^place/.test(action),
    )
    expect(work).toEqual([])
    expect(writes()).toBe(before)
    const verified = await stage.moved({ verifyOf: same.jobId })
    expect(failedSteps(verified)).toEqual([])
    stage.source.passWeek()
    const different = await stage.moved({ verifyOf: same.jobId })
    expect(different).toMatchObject({ status: 'completed', outcome: 'with_failures' })
    const job = await stage.moved()
    expect(failedSteps(job)).toEqual([])
    for (const { id, uuid } of await stage.servers()) expect(await stage.filesOf(id)).toEqual(stage.manifestOf(uuid))
  })

  it('brings another line and image of a server that it has brought before, and what is new of one that is suspended', async () => {
    const [, own, third] = stage.source.world.servers
    if (own === undefined || third === undefined) throw new Error('the source has no such servers')
    const here = async (uuid: string) => (await stage.servers()).find((one) => one.uuid === uuid)
    own.startup = './other {{SERVER_JARFILE}}'
    own.image = 'registry.example/yolks:java_21'
    third.description = 'resting'
    const { id: serverId } = (await here(third.uuid)) ?? { id: '' as ServerId }
    // One whose files have not come is suspended as well.
    await stage.panel.client.call(suspendServer, { params: { serverId }, body: { reason: 'resting' } })
    const job = await stage.moved()
    expect(failedSteps(job)).toEqual([])
    const brought = { startupCommand: './other {{SERVER_JARFILE | split}}', image: 'registry.example/yolks:java_21' }
    expect(await here(own.uuid)).toMatchObject(brought)
    expect(await here(third.uuid)).toMatchObject({ description: 'resting', status: 'suspended' })
    own.startup = stage.source.world.eggs.find(({ id }) => id === own.eggId)?.startup ?? ''
    third.description = 'still resting'
    const again = await stage.moved()
    expect(failedSteps(again)).toEqual([])
    expect(await here(own.uuid)).toMatchObject({ ...brought, startupCommand: null })
    expect(await here(third.uuid)).toMatchObject({ description: 'still resting', status: 'suspended' })
  })

  it('leaves out a schedule for which its server has no room here, and brings the rest', async () => {
    const { client } = stage.panel
    const [first] = stage.source.world.servers
    const [nightly] = first?.schedules ?? []
    if (first === undefined || nightly === undefined) throw new Error('the first server has no schedule')
    first.schedules.push({ ...nightly, id: 9001, name: 'one too many' })
    const params = { serverId: (await stage.servers()).find(({ uuid }) => uuid === first.uuid)?.id ?? '' }
    const steps = [{ action: 'stop' as const }]
    for (let made = (await client.call(listTasks, { params })).length; made < 100; made++) {
      await client.call(createTask, { params, body: { name: `here ${made}`, schedule: '0 5 * * *', steps } })
    }
    const job = await stage.moved()
    expect({ outcome: job.outcome, failed: failedSteps(job) }).toEqual({ outcome: 'clean', failed: [] })
    const about = { type: 'schedule', name: 'one too many', reason: 'too_many_schedules' }
    expect(job.report?.skipped).toContainEqual(expect.objectContaining(about))
    expect(job.report?.warnings).toContainEqual(expect.stringContaining('one too many'))
  })

  it('is refused when the plan is another one by now, or something is in its way', async () => {
    const drifted = await stage.moved({ planHash: 'ab'.repeat(32) })
    expect(drifted).toMatchObject({ status: 'failed', errorCode: 'PLAN_DRIFT' })
    await stage.panel.client.call(cancelMigration, { params: { jobId: drifted.jobId }, body: {} })
    for (const type of ['migration_failed', 'migration_cancelled']) {
      await events.until(type, () => seen(type, drifted.jobId).length > 0)
    }
  })

  it('is not begun to a node whose agent cannot fetch files, and the plan says what to do', async () => {
    const { client, url, locationId } = stage.panel
    const { id } = await client.call(createNode, {
      body: { name: 'old', locationId: locationId as LocationId, maxMemoryMb: 1_000_000, maxCpuCores: 100 },
    })
    const { apiKey } = await client.call(createNodeKey, { params: { nodeId: id }, body: {} })
    const peer = await AgentPeer.connect(url, id, apiKey)
    await peer.enter({ capabilities: ['servers@1', 'console@1', 'node@1', 'files@1'] })
    const planned = await stage.moved({ dryRun: true, nodeMappings: { 1: id } })
    expect(planned.plan?.conflicts.filter(({ code }) => code === 'AGENT_VERSION')).toMatchObject([
      { target: { id, name: 'old' }, text: expect.stringContaining('update it') },
    ])
    const refused = await stage.moved({ nodeMappings: { 1: id } })
    expect(refused).toMatchObject({ status: 'failed', errorCode: 'PLAN_CONFLICT', steps: [] })
    await peer.leave()
  })

  it('is one at a time, and is paused, resumed and cancelled', async () => {
    const { client } = stage.panel
    await stage.source.setFaults({ delayMs: 300 })
    const jobId = await stage.start()
    const params = { jobId }
    expect(await refusal(client.call(startMigration, { body: stage.body() as never }))).toMatchObject({
      code: 'MIGRATION_IN_PROGRESS',
      meta: { jobId },
    })
    expect(await refusal(client.call(resumeMigration, { params, body: {} }))).toMatchObject({
      code: 'VALIDATION_ERROR',
    })
    await client.call(pauseMigration, { params })
    await stage.in(jobId, ['paused'])
    expect((await client.call(pauseMigration, { params })).status).toBe('paused')
    await stage.source.setFaults({ delayMs: 0 })
    await client.call(resumeMigration, { params, body: {} })
    const stepId = 'mgs_00000000000000000000000000' as MigrationStepId
    expect(await refusal(client.call(retryMigrationStep, { params: { jobId, stepId } }))).toMatchObject({
      code: 'MIGRATION_STEP_NOT_FOUND',
    })
    const job = await stage.in(jobId)
    expect(job.status).toBe('completed')
    expect(await refusal(client.call(cancelMigration, { params, body: {} }))).toMatchObject({
      code: 'MIGRATION_INVALID_STATE',
    })
    const step = job.steps[0]?.stepId ?? stepId
    expect(await refusal(client.call(retryMigrationStep, { params: { jobId, stepId: step } }))).toMatchObject({
      code: 'MIGRATION_STEP_NOT_RETRYABLE',
    })
    const failed = await client.call(listMigrationSteps, { params, query: { status: 'failed' } })
    expect(failed).toEqual([])
    await events.until('migration_paused', () => seen('migration_paused', jobId).length > 0)
  })

  it('fails when its plan cannot be stored, and keeps no other from starting', async () => {
    const { panel } = stage
    const file = await Connection.open(join(panel.dataDir, 'db', 'panel.db'), 'existing')
    try {
      await file.exec(`pragma busy_timeout = 5000; create trigger no_steps before insert on migration_step
        begin select raise(abort, 'no steps today'); end`)
      const job = await stage.in(await stage.start())
      expect(job).toMatchObject({ status: 'failed', errorCode: 'INTERNAL_ERROR', steps: [] })
      expect(job.error).not.toContain('no steps today')
      await file.exec('drop trigger no_steps')
      await panel.client.call(cancelMigration, { params: { jobId: job.id as MigrationId }, body: {} })
      await stage.in(await stage.start({ dryRun: true }), ['completed'])
    } finally {
      await file.close()
    }
  })
})

async function ownerMail(userId: string): Promise<string | undefined> {
  const row = await stage.panel.app.core.db.read
    .selectFrom('user')
    .select('email')
    .where('id', '=', userId)
    .executeTakeFirst()
  return row?.email.toLowerCase()
}
