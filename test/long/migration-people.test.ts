// @module-tag long
import { afterEach, expect, it } from 'vitest'
import { listMigrations, retryMigrationStep } from '../../src/shared/api/migration.ts'
import { getServer } from '../../src/shared/api/servers.ts'
import { updateSmtpSettings } from '../../src/shared/api/smtp-settings.ts'
import { listUsers } from '../../src/shared/api/users.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { type MailServer, startMailServer } from '../daemon/mail/mail-server.ts'
import { failedSteps, MigrationStage } from '../daemon/migration/migration-stage.ts'
import { refusal } from '../daemon/place-panel.ts'
import { until } from '../e2e/wait.ts'
import { sourceFlags } from '../migration-source/flags.ts'

const FEW =
  '--servers 3 --nodes 1 --users 4 --suspended 0 --full-slots 0 --zero-slots 0 --files-per-server 1 --file-kb 1'
const DAY_MS = 24 * 3_600_000

let stage: MigrationStage | undefined
let mail: MailServer | undefined

afterEach(async () => {
  await stage?.close()
  await mail?.close()
  stage = undefined
  mail = undefined
})

it('nobody is written to without being asked for, and then each new person once', { timeout: 120_000 }, async () => {
  mail = await startMailServer({ disabledCommands: ['AUTH', 'STARTTLS'] })
  stage = await MigrationStage.open({ source: sourceFlags(FEW) })
  const { client } = stage.panel
  await client.call(updateSmtpSettings, { body: { host: '127.0.0.1', port: mail.port, from: 'panel@example.org' } })
  const rehearsal = await stage.moved()
  expect(failedSteps(rehearsal)).toEqual([])
  const people = (rehearsal.report?.passwordResets ?? []).map(({ email }) => email).sort()
  expect(people.length).toBeGreaterThan(1)
  expect(rehearsal.steps.filter(({ action }) => action === 'invite_user')).toEqual([])
  expect(mail.received).toEqual([])

  const invited = await stage.moved({ options: { invite: true } })
  expect(failedSteps(invited)).toEqual([])
  const written = () => mail?.received.flatMap(({ to }) => to).sort() ?? []
  expect(written()).toEqual(people)
  expect(mail.received.every(({ text }) => text.includes('invit'))).toBe(true)
  expect(failedSteps(await stage.moved({ options: { invite: true } }))).toEqual([])
  expect(written()).toEqual(people)
})

it('administrators of the source are administrators here only where that is asked for', {
  timeout: 120_000,
}, async () => {
  for (const grantAdmin of [false, true]) {
    stage = await MigrationStage.open({ source: sourceFlags(FEW) })
    const { client } = stage.panel
    expect(failedSteps(await stage.moved({ options: { grantAdmin } }))).toEqual([])
    const emails = stage.source.world.users.flatMap((user) => (user.rootAdmin ? [user.email.toLowerCase()] : []))
    const known = await client.call(listUsers, { query: { limit: 100 } })
    const brought = known.filter(({ email }) => emails.includes(email))
    expect(brought.length).toBe(new Set(emails).size)
    const roles = brought.map((user) => user.roles.map(({ name }) => name))
    expect(roles).toEqual(brought.map(() => (grantAdmin ? ['Administrator'] : [])))
    const usual = stage.source.world.users.flatMap((user) => (user.rootAdmin ? [] : [user.email.toLowerCase()]))
    const others = known.filter(({ email }) => usual.includes(email))
    expect(others.length).toBeGreaterThan(0)
    expect(others.flatMap((user) => user.roles)).toEqual([])
    await stage.close()
    stage = undefined
  }
})

it('keys of the source are forgotten at once, or a week after something has failed', { timeout: 180_000 }, async () => {
  let aheadMs = 0
  const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs }
  stage = await MigrationStage.open({ source: sourceFlags(`${FEW} --hostile-tar`), panel: { clock } })
  const at = stage
  const keysOf = async () => {
    const rows = await at.panel.app.core.db.read.selectFrom('migrationJob').select(['id', 'keys']).execute()
    return rows.map(({ keys }) => keys)
  }
  const failed = await at.moved()
  expect(failed).toMatchObject({ status: 'completed', outcome: 'with_failures', hasKeys: true })
  expect(await keysOf()).toEqual([expect.not.stringContaining(at.source.keys.account)])
  aheadMs = 6 * DAY_MS
  await until('somebody looks', async () => (await at.panel.client.call(listMigrations, {})).length === 1)
  expect((await at.get(failed.jobId)).hasKeys).toBe(true)
  aheadMs = 8 * DAY_MS
  await until('the keys are forgotten', async () => !(await at.get(failed.jobId)).hasKeys, 60_000)
  expect(await keysOf()).toEqual([null])
  const step = failed.steps.find(({ status }) => status === 'failed') ?? expect.fail()
  const params = { jobId: failed.jobId, stepId: step.stepId }
  expect(await refusal(at.panel.client.call(retryMigrationStep, { params }))).toMatchObject({
    code: 'MIGRATION_STEP_NOT_RETRYABLE',
  })
  await at.source.setFaults({ hostileTar: false })
  expect(await at.moved()).toMatchObject({ outcome: 'clean', hasKeys: false })
  expect(await keysOf()).toEqual([null, null])
})

it("Pelican's mounts are listed, or taken by the same paths", { timeout: 120_000 }, async () => {
  stage = await MigrationStage.open({ source: { ...sourceFlags(FEW), flavor: 'pelican' } })
  const { client } = stage.panel
  const there = stage.source.world.servers.find(({ mountIds }) => mountIds.length > 0)
  const [mount] = stage.source.world.mounts
  const listed = await stage.moved()
  expect(failedSteps(listed)).toEqual([])
  expect(listed.report?.totals['mount']).toMatchObject({ read: 1, skipped: 1 })
  expect(listed.report?.skipped.filter(({ type }) => type === 'mount')).toMatchObject([{ reason: 'listed' }])
  const server = (await stage.servers()).find(({ uuid }) => uuid === there?.uuid)
  const now = () => client.call(getServer, { params: { serverId: server?.id ?? ('' as never) } })
  expect((await now()).mounts).toEqual([])
  const taken = await stage.moved({ options: { mounts: 'take' } })
  expect(failedSteps(taken)).toEqual([])
  expect(taken.report?.totals['mount']).toMatchObject({ read: 1, created: 1 })
  expect((await now()).mounts).toMatchObject([{ source: mount?.source }])
  expect(taken.report?.warnings.join()).toContain(`must allow the folder ${mount?.source}`)
  const again = await stage.moved({ options: { mounts: 'take' } })
  expect(again.report?.totals['mount']).toMatchObject({ read: 1, unchanged: 1 })
})
