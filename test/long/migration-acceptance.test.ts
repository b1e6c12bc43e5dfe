// @module-tag long
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { listBackups } from '../../src/shared/api/backups.ts'
import {
  cancelMigration,
  type MigrationDetail,
  pauseMigration,
  resumeMigration,
  retryMigrationStep,
  testMigration,
} from '../../src/shared/api/migration.ts'
import { powerServer } from '../../src/shared/api/power.ts'
import { listTasks } from '../../src/shared/api/schedules.ts'
import { getServer, updateServer } from '../../src/shared/api/servers.ts'
import { failedSteps, MigrationStage } from '../daemon/migration/migration-stage.ts'
import { allEvents } from '../e2e/sse.ts'
import { until } from '../e2e/wait.ts'
import { textFile } from '../migration-source/files.ts'
import { sourceFlags } from '../migration-source/flags.ts'
import type { SourceOptions, SourceSimulator } from '../migration-source/source-simulator.ts'

let stage: MigrationStage | undefined

afterEach(async () => {
  await stage?.close()
  stage = undefined
})

const FEW = '--servers 3 --nodes 1 --suspended 0 --full-slots 0 --zero-slots 0 --files-per-server 2 --file-kb 4'
const PATIENCE_MS = 240_000

describe.each(['pterodactyl', 'pelican'] as const)('from %s', { timeout: 300_000 }, (flavor) => {
  async function opened(flags: string, more: SourceOptions = {}): Promise<MigrationStage> {
    stage = await MigrationStage.open({ source: { ...sourceFlags(flags), flavor, ...more } })
    return stage
  }

  async function ended(at: MigrationStage, more: object = {}): Promise<MigrationDetail> {
    return at.in(await at.start({ ...more }), undefined, PATIENCE_MS)
  }

  it('twelve servers come whole: files, owners, friends, schedules, limits', async () => {
    const at = await opened('--servers 12 --seed 7')
    const before = at.source.state()
    const job = await ended(at)
    expect({ status: job.status, error: job.error, failed: failedSteps(job) }).toEqual({
      status: 'completed',
      error: null,
      failed: [],
    })
    expect(job.report?.clean).toBe(true)
    await expectAllThere(at)
    const servers = await at.servers()
    expect(servers).toHaveLength(12)
    const ways = job.report?.servers.map(({ files }) => files?.way)
    expect(ways?.filter((way) => way === 'backup')).toHaveLength(11)
    for (const server of servers) {
      const row = at.source.world.servers.find(({ uuid }) => uuid === server.uuid)
      const owner = at.source.world.users.find(({ id }) => id === row?.ownerId)
      const { email } = await at.panel.app.core.db.read
        .selectFrom('user')
        .select('email')
        .where('id', '=', server.ownerId)
        .executeTakeFirstOrThrow()
      expect(email.toLowerCase()).toBe(owner?.email.toLowerCase())
      const grants = await at.panel.app.core.db.read
        .selectFrom('serverAccess')
        .select(['permissions'])
        .where('serverId', '=', server.id)
        .execute()
      expect(grants).toHaveLength(row?.subusers.length ?? -1)
      if (grants[0] !== undefined) expect(grants[0].permissions).toContain('file.sftp')
      const suspended = row?.status === 'suspended'
      expect(server.status).toBe(suspended ? 'suspended' : 'stopped')
      // The source shows no schedules of one that is suspended.
      if (suspended) continue
      const tasks = await at.panel.client.call(listTasks, { params: { serverId: server.id } })
      const nightly = tasks.find(({ name }) => name === 'nightly')
      expect(nightly?.steps.map(({ action }) => action)).toEqual(['command', 'backup', 'restart'])
      const odd = row?.schedules.find(({ name }) => name === 'odd times')
      const came = tasks.find(({ name }) => name === 'odd times')
      if (came !== undefined) expect(came.schedule.split(' ')[3]).toBe(odd?.cron.month)
    }
    for (const { read, ...rest } of Object.values(job.report?.totals ?? {})) {
      expect(Object.values(rest).reduce((sum, count) => sum + count, 0)).toBe(read)
    }
    expect(at.source.state()).toEqual(before)
    const temp = join(at.panel.dataDir, 'tmp')
    expect(existsSync(temp) ? await readdir(temp) : []).toEqual([])
    const again = await ended(at)
    expect(failedSteps(again)).toEqual([])
    const changed = Object.values(again.report?.totals ?? {}).map(({ created, updated }) => created + updated)
    expect(changed.reduce((sum, count) => sum + count, 0)).toBe(0)
    expect(await at.servers()).toHaveLength(12)
  })

  it('servers whose ids are ids of nodes too are not mistaken for them', async () => {
    const at = await opened('--servers 4 --nodes 2 --suspended 0 --full-slots 0 --zero-slots 0 --file-kb 4')
    const job = await ended(at, { nodeMappings: { 2: at.panel.nodeId } })
    expect(failedSteps(job)).toEqual([])
    const there = at.source.world.servers.filter(({ nodeId }) => nodeId === 2).map(({ uuid }) => uuid)
    expect((await at.servers()).map(({ uuid }) => uuid).sort()).toEqual(there.sort())
    await expectAllThere(at)
    const one = at.source.world.servers.find(({ nodeId }) => nodeId === 1)
    const named = await ended(at, {
      scope: 'server',
      nodeMappings: {},
      serverMappings: { [one?.id ?? 0]: at.panel.nodeId },
    })
    expect(failedSteps(named)).toEqual([])
    expect((await at.servers()).map(({ uuid }) => uuid)).toContain(one?.uuid)
  })

  it('answers that get lost leave no second backup', async () => {
    const at = await opened(`${FEW} --fail-every 5 --fail-kind lost`)
    const before = at.source.state()
    const job = await ended(at)
    expect({ status: job.status, failed: failedSteps(job) }).toEqual({ status: 'completed', failed: [] })
    await expectAllThere(at)
    const made = at.source.log.filter(({ method, path }) => method === 'POST' && path.endsWith('/backups'))
    expect(made.length).toBeLessThanOrEqual(6)
    expect(at.source.state()).toEqual(before)
  })

  it('a source that wants to be left alone is', async () => {
    const at = await opened(`${FEW} --throttle 30 --throttle-window 5`)
    const job = await ended(at)
    expect({ status: job.status, failed: failedSteps(job) }).toEqual({ status: 'completed', failed: [] })
    expect(at.source.log.filter(({ early }) => early)).toEqual([])
    await expectAllThere(at)
    expect(await eventTypes(at)).toContain('migration_throttled')
  })

  it.each(['short', 'reset'] as const)('an archive that is cut off (%s) is fetched again', async (mode) => {
    const at = await opened(`${FEW} --truncate-backup 1 --truncate-mode ${mode}`)
    const job = await ended(at)
    expect({ status: job.status, failed: failedSteps(job) }).toEqual({ status: 'completed', failed: [] })
    await expectAllThere(at)
  })

  it('archives that are damaged every time fail by their checksum, and touch nothing', async () => {
    const at = await opened(`${FEW} --corrupt-backup`)
    const before = at.source.state()
    const job = await ended(at, { options: { concurrency: 8 } })
    expect(job).toMatchObject({ status: 'completed', outcome: 'with_failures', report: { clean: false } })
    const failed = job.steps.filter(({ status }) => status === 'failed')
    expect(new Set(failed.map(({ action, errorCode }) => `${action} ${errorCode}`))).toEqual(
      new Set(['transfer_files CHECKSUM']),
    )
    for (const { id, status } of await at.servers()) {
      expect(await at.filesOf(id)).toEqual({})
      expect(status).toBe('suspended')
    }
    expect(at.source.state()).toEqual(before)
    // What was wrong is mended there: each failed step and what hangs on it are tried again.
    await at.source.setFaults({ corruptBackup: 0 })
    for (const { jobId, stepId } of failed) {
      await at.panel.client.call(retryMigrationStep, { params: { jobId, stepId } })
      await at.in(jobId, ['completed'], PATIENCE_MS)
    }
    const mended = await at.get(job.jobId)
    expect({ failed: failedSteps(mended), clean: mended.report?.clean }).toEqual({ failed: [], clean: true })
    await expectAllThere(at)
    expect(at.source.state()).toEqual(before)
  })

  it('a backup that has failed is not taken for a good one', async () => {
    const at = await opened(`${FEW} --backup-fail 1`)
    const before = at.source.state()
    const job = await ended(at)
    expect({ status: job.status, failed: failedSteps(job) }).toEqual({ status: 'completed', failed: [] })
    await expectAllThere(at)
    expect(at.source.state()).toEqual(before)
  })

  it('a backup that never ends is given up, and the files come from the node', async () => {
    const at = await opened(`${FEW} --backup-hang`)
    const job = await ended(at, { options: { backupTimeoutSeconds: 1 } })
    expect({ status: job.status, failed: failedSteps(job) }).toEqual({ status: 'completed', failed: [] })
    expect(job.report?.servers.map(({ files }) => files?.way)).toEqual(['node', 'node', 'node'])
    await expectAllThere(at)
  })

  it('full and missing slots are raised by one and put back; no old backup is used', async () => {
    const at = await opened('--servers 4 --nodes 1 --suspended 0 --full-slots 1 --zero-slots 2 --file-kb 4')
    const before = at.source.state()
    const job = await ended(at)
    expect({ status: job.status, failed: failedSteps(job) }).toEqual({ status: 'completed', failed: [] })
    await expectAllThere(at)
    expect(at.source.state()).toEqual(before)
    const builds = at.source.log.filter(({ path, body }) => path.endsWith('/build') && body !== null)
    expect(builds.length).toBeGreaterThanOrEqual(6)
    for (const { body } of builds)
      expect(JSON.parse(body ?? '{}')).toMatchObject({ limits: { memory: 1024, swap: expect.any(Number) } })
  })

  it('suspended servers come from their node, and stay suspended on both sides', async () => {
    const at = await opened('--servers 2 --nodes 1 --suspended 1 --full-slots 0 --zero-slots 0 --file-kb 4')
    const before = at.source.state()
    const job = await ended(at)
    expect({ status: job.status, failed: failedSteps(job) }).toEqual({ status: 'completed', failed: [] })
    await expectAllThere(at)
    expect((await at.servers()).map(({ status }) => status).sort()).toEqual(['stopped', 'suspended'])
    expect(at.source.state()).toEqual(before)
  })

  it('keys with too few rights are named by the test, and nothing is written by a start', async () => {
    const at = await opened(FEW)
    const { url, keys } = at.source
    const weak = { url, key: keys.applicationServersOnly, clientApiKey: keys.account }
    const tested = await at.panel.client.call(testMigration, { body: weak })
    expect(tested.success).toBe(false)
    expect(tested.missingRights.length).toBeGreaterThan(1)
    const job = await ended(at, weak)
    expect(job).toMatchObject({ status: 'failed', steps: [] })
    expect(['SOURCE_RIGHTS_MISSING', 'DENIED']).toContain(job.errorCode)
    expect(await at.servers()).toEqual([])
  })

  it('an egg that cannot be read does not hold up the others', async () => {
    const at = await opened(`${FEW} --poison-egg`)
    const job = await ended(at)
    expect(job.status).toBe('completed')
    expect(failedSteps(job)).toEqual([])
    await expectAllThere(at)
    expect((await at.servers()).length).toBeGreaterThan(0)
  })

  it('an archive that leads out of its folder is refused for good', async () => {
    const at = await opened(`${FEW} --hostile-tar`)
    const job = await ended(at)
    expect(job).toMatchObject({ status: 'completed', outcome: 'with_failures' })
    const failed = job.steps.filter(({ status }) => status === 'failed')
    expect(failed.map(({ errorCode, retryable }) => `${errorCode} ${retryable}`)).toEqual(
      Array.from({ length: 3 }, () => 'ARCHIVE_REFUSED false'),
    )
    for (const { id } of await at.servers()) expect(await at.filesOf(id)).toEqual({})
    const beside = await readdir(join(at.panel.dataDir, 'agent', 'servers'))
    expect(beside.filter((name) => !name.startsWith('srv_'))).toEqual([])
  })

  it('is paused and resumed in a transfer, and cancelled in one', async () => {
    const at = await opened(`${FEW} --file-kb 256 --slow-bps 100000`)
    const before = at.source.state()
    const jobId = await at.start()
    await running(at, jobId, 'transfer_files')
    const params = { jobId }
    await until('how far it is stands with its job', async () => {
      const rows = await at.panel.app.core.db.read.selectFrom('job').select(['kind', 'progress']).execute()
      return rows.some(({ kind, progress }) => kind === 'migration.step' && (progress ?? '').includes('"unit":"bytes"'))
    })
    await at.panel.client.call(pauseMigration, { params })
    const paused = await at.in(jobId, ['paused'])
    expect(paused.steps.filter(({ status }) => status === 'running')).toEqual([])
    await at.panel.client.call(resumeMigration, { params, body: {} })
    await running(at, jobId, 'transfer_files')
    await until('how far it is', async () => (await eventTypes(at)).has('migration_step_progress'), 30_000)
    await at.panel.client.call(cancelMigration, { params, body: {} })
    const job = await at.in(jobId, ['cancelled'], PATIENCE_MS)
    expect(job.hasKeys).toBe(false)
    expect(at.source.state()).toEqual(before)
    await at.source.setFaults({ slowBps: 0 })
    const whole = await ended(at)
    expect({ status: whole.status, failed: failedSteps(whole) }).toEqual({ status: 'completed', failed: [] })
    await expectAllThere(at)
  })

  it('a pause and a cancel during the last step hold', async () => {
    const at = await opened(FEW)
    const { client } = at.panel
    const first = await at.start({ phases: ['users'] })
    await client.call(pauseMigration, { params: { jobId: first } })
    await at.in(first, ['paused'])
    await client.call(resumeMigration, { params: { jobId: first }, body: {} })
    await at.in(first, ['completed'])
    const second = await at.start()
    await client.call(cancelMigration, { params: { jobId: second }, body: {} })
    expect((await at.in(second)).status).toBe('cancelled')
    expect(await at.servers()).toEqual([])
  })

  it('is rolled back: what it has made goes, what was there stays', async () => {
    const at = await opened(`${FEW} --file-kb 256 --slow-bps 200000`)
    const counts = async () => {
      const { read } = at.panel.app.core.db
      const of = async (table: 'user' | 'template' | 'location' | 'nest' | 'server') =>
        (await read.selectFrom(table).select('id').execute()).length
      return Promise.all([of('user'), of('template'), of('location'), of('nest'), of('server')])
    }
    const before = await counts()
    const jobId = await at.start()
    await running(at, jobId, 'transfer_files')
    await at.panel.client.call(cancelMigration, { params: { jobId }, body: { rollback: true } })
    const job = await at.in(jobId, ['cancelled'], PATIENCE_MS)
    expect(job.steps.filter(({ action, status }) => action.startsWith('rollback_') && status !== 'completed')).toEqual(
      [],
    )
    expect(await counts()).toEqual(before)
  })

  it('nodes that become one have their conflicts in the plan', async () => {
    const at = await opened('--servers 4 --nodes 2 --suspended 0 --full-slots 0 --zero-slots 0 --file-kb 4')
    const planned = await ended(at, { dryRun: true, options: { conflicts: { port: 'fail' } } })
    const codes = new Set(planned.plan?.conflicts.map(({ code, policy }) => `${code} ${policy}`))
    expect(codes).toEqual(new Set(['PORT_TAKEN conflicts.port']))
    const refused = await ended(at, { options: { conflicts: { port: 'fail' } } })
    expect(refused).toMatchObject({ status: 'failed', errorCode: 'PLAN_CONFLICT', steps: [] })
    expect(await at.servers()).toEqual([])
    const job = await ended(at, { options: { conflicts: { port: 'remap' } } })
    expect(failedSteps(job)).toEqual([])
    expect(job.report?.portChanges.length).toBeGreaterThan(0)
  })

  it('a node that is off costs its own servers alone', async () => {
    const at = await opened(
      '--servers 4 --nodes 2 --suspended 0 --full-slots 0 --zero-slots 0 --file-kb 4 --wings-offline 1',
    )
    const job = await ended(at, { options: { concurrency: 8 } })
    expect(job).toMatchObject({ status: 'completed', outcome: 'with_failures' })
    const of = (id: number) => at.source.world.servers.filter(({ nodeId }) => nodeId === id).map(({ uuid }) => uuid)
    const [off, on] = [of(1), of(2)]
    for (const { id, uuid, status } of await at.servers()) {
      if (on.includes(uuid)) expect(await at.filesOf(id)).toEqual(at.manifestOf(uuid))
      else expect(status).toBe('suspended')
    }
    const failed = new Set(job.steps.filter(({ status }) => status === 'failed').map(({ sourceId }) => sourceId))
    expect(failed.size).toBe(off.length)
  })

  it('what differs after a week comes, and nothing else', async () => {
    const at = await opened(FEW)
    expect(failedSteps(await ended(at))).toEqual([])
    at.source.passWeek()
    const job = await ended(at)
    expect({ status: job.status, failed: failedSteps(job) }).toEqual({ status: 'completed', failed: [] })
    await expectAllThere(at)
    expect(job.report?.totals['server']).toMatchObject({ created: 1, updated: 1, unchanged: 2 })
    expect(job.report?.totals['files']).toMatchObject({ created: 1, updated: 1, unchanged: 2 })
    expect((await at.servers()).map(({ name }) => name)).toContain('server 2 renamed')
  })

  it('stored backups come too where that is asked for, with their dates', async () => {
    const at = await opened(FEW)
    const before = at.source.state()
    const job = await ended(at, { options: { backups: 'copy' } })
    expect({ status: job.status, failed: failedSteps(job) }).toEqual({ status: 'completed', failed: [] })
    expect(job.report?.totals['backup']).toMatchObject({ read: 1, created: 1 })
    const there = at.source.world.servers.find(({ id }) => id === 1)
    const server = (await at.servers()).find(({ uuid }) => uuid === there?.uuid)
    const backups = await at.panel.client.call(listBackups, { params: { serverId: server?.id ?? ('' as never) } })
    expect(backups).toHaveLength(1)
    expect(backups[0]).toMatchObject({ name: 'weekly-0', status: 'completed', createdAt: '2026-01-02T03:04:05.000Z' })
    expect(at.source.state()).toEqual(before)
    expect(failedSteps(await ended(at, { options: { backups: 'copy' } }))).toEqual([])
    const again = await at.panel.client.call(listBackups, { params: { serverId: server?.id ?? ('' as never) } })
    expect(again).toHaveLength(1)
  })

  it('what somebody has started here is not replaced without being asked', async () => {
    const at = await opened('--servers 1 --nodes 1 --suspended 0 --full-slots 0 --zero-slots 0 --plain', {
      customize: ({ servers: [server], eggs }) => {
        const egg = eggs.find(({ id }) => id === server?.eggId)
        if (server === undefined || egg === undefined) throw new Error('a source has a server with an egg')
        egg.startup = 'echo "Done (1s)"; exec sleep 1000'
        server.startup = egg.startup
        egg.files = {}
        server.tree.files.set('world/level.txt', textFile('of the first week'))
      },
    })
    const { client, dataDir } = at.panel
    // The source makes two backups of a server in ten minutes, and here are more runs than that.
    const again = (conflicts: object = {}) =>
      ended(at, { options: { transport: 'node', conflicts: { port: 'remap', ...conflicts } } })
    expect(failedSteps(await again())).toEqual([])
    const [server] = await at.servers()
    const serverId = server?.id ?? ('' as never)
    const level = join(dataDir, 'agent', 'servers', serverId, 'world', 'level.txt')
    const statusIs = (status: string) => async () =>
      (await client.call(getServer, { params: { serverId } })).status === status
    await client.call(updateServer, { params: { serverId }, body: { description: 'ours' } })
    await client.call(powerServer, { params: { serverId }, body: { action: 'start' } })
    await until('it runs', statusIs('running'))
    await writeFile(level, 'played on here')
    // The source has not changed: nothing is touched, and the game goes on.
    const same = await again()
    expect({ failed: failedSteps(same), files: same.report?.totals['files'] }).toMatchObject({
      failed: [],
      files: { unchanged: 1 },
    })
    expect(await readFile(level, 'utf8')).toBe('played on here')
    at.source.world.servers[0]?.tree.files.set('world/level.txt', textFile('of the second week'))
    const left = await again()
    const failed = left.steps.filter(({ status }) => status === 'failed')
    expect(failed.map(({ action, errorCode }) => `${action} ${errorCode}`)).toEqual(['place_files FILES_EXIST'])
    expect(left).toMatchObject({ status: 'completed', outcome: 'with_failures' })
    expect(await readFile(level, 'utf8')).toBe('played on here')
    expect(await statusIs('running')()).toBe(true)
    const replaced = await again({ files: 'replace' })
    expect(failedSteps(replaced)).toEqual([])
    await expectAllThere(at)
    expect(await readFile(level, 'utf8')).toBe('of the second week')
    const after = await client.call(getServer, { params: { serverId } })
    expect({ status: after.status, description: after.description }).toEqual({ status: 'stopped', description: 'ours' })
  })
})

/** The types of all events so far. */
async function eventTypes(at: MigrationStage): Promise<Set<string>> {
  const events = await allEvents(`${at.panel.url}/api/admin/events`, at.panel.adminToken)
  return new Set(events.map(({ type }) => type))
}

/** Each server that came has the files that it has on the source. */
async function expectAllThere(at: { source: SourceSimulator } & MigrationStage): Promise<void> {
  for (const { id, uuid } of await at.servers()) expect(await at.filesOf(id), uuid).toEqual(at.manifestOf(uuid))
}

async function running(at: MigrationStage, jobId: MigrationDetail['jobId'], action: string): Promise<void> {
  for (const deadline = performance.now() + 60_000; ; ) {
    const { steps, status } = await at.get(jobId)
    if (steps.some((step) => step.action === action && step.status === 'running')) return
    if (performance.now() > deadline) throw new Error(`${action} does not begin; the migration is ${status}`)
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}
