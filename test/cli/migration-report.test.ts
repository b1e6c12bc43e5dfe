import { expect, it } from 'vitest'
import { migration } from '../../src/cli/commands/migration/commands.ts'
import { driftBetween } from '../../src/cli/commands/migration/drift.ts'
import { afterEvent, type Progress } from '../../src/cli/commands/migration/progress.ts'
import { lineOf } from '../../src/cli/commands/migration/progress-lines.ts'
import { markdownReport, textReport } from '../../src/cli/commands/migration/report-text.ts'
import { optionName, walk } from '../../src/cli/kit/command.ts'
import {
  ConflictPolicies,
  type MigrationJob,
  MigrationOptions,
  type MigrationPlan,
  type MigrationReport,
  MigrationScope,
  SourceKind,
} from '../../src/shared/api/migration.ts'
import { MigrationJobStatus, MigrationPhase, MigrationStepStatus } from '../../src/shared/kernel/migration.ts'

const EVIL = 'a\u001b[2J|b\n# c <script> [x](http://evil) `d` \u202e'
const JOB = { id: 'mig_1', sourceUrl: EVIL, status: 'completed', outcome: 'clean', config: { verifyOf: null } }
const COUNTS = { read: 1, created: 1, linked: 0, updated: 0, unchanged: 0, skipped: 0, failed: 0 }
const REPORT: MigrationReport = {
  clean: true,
  totals: { server: COUNTS },
  servers: [
    {
      source: { id: '1', uuid: 'u', name: EVIL, node: 'n' },
      target: null,
      files: { count: 1, bytes: 2048, manifestSha256: 'ab', archiveSha1: null, way: 'backup' },
      warnings: [EVIL],
    },
  ],
  portChanges: [{ server: EVIL, from: '1', to: '2' }],
  passwordResets: [{ userId: 'usr_1', email: EVIL }],
  skipped: [{ type: 'user', id: '2', name: EVIL, reason: EVIL }],
  lost: [{ what: EVIL, count: 0, why: EVIL }],
  sourceLeftovers: [EVIL],
  warnings: [EVIL],
  api: { requests: 5, retries: 1, throttledSeconds: 2 },
}

it.each([
  ['text', textReport],
  ['Markdown', markdownReport],
] as const)('a report in %s takes nothing of a hostile source for its own', (_, written) => {
  const text = written(JOB as MigrationJob, REPORT) // the fields that a report shows
  // biome-ignore lint/suspicious/noControlCharactersInRegex: none of these may reach a terminal
  expect(text).not.toMatch(/[\u001b\u202e]/)
  expect(text).not.toMatch(/^# c/m)
  expect(text).toContain('2.0 KiB')
})

it('a report does not say that everything came when servers were left out', () => {
  const head = (skipped: number) =>
    textReport(JOB as MigrationJob, { ...REPORT, totals: { server: { ...COUNTS, skipped } } }).split('\n')[0]
  expect(head(0)).toMatch(/: everything came$/)
  expect(head(2)).toMatch(/: not everything came$/)
})

it('a report in Markdown has no markup of a hostile source', () => {
  const text = markdownReport(JOB as MigrationJob, REPORT)
  expect(text).not.toContain('<script>')
  expect(text).not.toContain('[x](')
  for (const line of text.split('\n').filter((one) => one.startsWith('|'))) {
    const cells = line.replaceAll('\\|', '').split('|').length - 2
    expect([2, 3, 7, 8]).toContain(cells)
  }
})

it('a plan that has become another one is told by what differs', () => {
  const item = (stepId: string, op: string) => ({ stepId, op, source: { type: 'server', id: stepId, name: EVIL } })
  const plan = (hash: string, ...items: object[]) => ({ hash, items, conflicts: [] }) as object as MigrationPlan // what is compared
  const lines = driftBetween(
    plan('1', item('a', 'create'), item('b', 'create'), item('c', 'link')),
    plan('2', item('b', 'skip'), item('c', 'link'), item('d', 'create')),
  )
  expect(lines.map((line) => line.slice(0, 1))).toEqual(['~', '+', '-'])
  expect(lines.join('')).not.toContain('\u001b')
  expect(driftBetween(plan('1', item('a', 'link')), plan('2', item('a', 'link')))).toHaveLength(1)
})

it('progress follows the events: what runs, what has failed, what the source wants', () => {
  const begun: Progress = {
    ...{ sourceUrl: 'https://old', sourceKind: null, what: 'move', status: 'running', requested: null, phase: null },
    ...{ counts: { total: 4, completed: 1, failed: 0, skipped: 0 }, active: [], failed: [], failures: 0 },
    ...{ throttledUntilMs: 0, cutOff: null },
  }
  const step = { jobId: 'mig_1', stepId: 's', action: 'transfer_files', name: 'survival' }
  const events = [
    { type: 'migration_step_updated', data: { ...step, status: 'running' } },
    { type: 'migration_step_progress', data: { stepId: 's', bytes: 1024, totalBytes: 4096 } },
    { type: 'migration_throttled', data: { waitSeconds: 5 } },
    {
      type: 'migration_step_updated',
      data: { ...step, stepId: 't', name: 'lobby', status: 'failed', error: 'no room' },
    },
    {
      type: 'migration_progress',
      data: { phase: 'files', progress: { total: 4, completed: 1, failed: 1, skipped: 0 } },
    },
    { type: 'migration_of_tomorrow', data: { status: 7 } },
  ]
  const at = events.reduce((now, event) => afterEvent(now, { id: '', ...event }, 1000), begun)
  expect(lineOf(at, 1000)).toBe(
    'running, files: 2 of 4 steps, 1 failed; transfer_files survival 1.0 KiB of 4.0 KiB; the source wants to be left alone for 5 s',
  )
  expect(at.failed).toEqual([{ action: 'transfer_files', name: 'lobby', error: 'no room' }])
  const paused = afterEvent(at, { id: '', type: 'migration_status', data: { to: 'paused' } }, 9000)
  expect(lineOf(paused, 9000)).toMatch(/^paused, files: 2 of 4 steps, 1 failed; transfer_files/)
})

it('the choices of flags are those of the contract', () => {
  const option = (path: string, flag: string) =>
    [...walk([migration])]
      .find((one) => one.path.join(' ') === `migration ${path}`)
      ?.command.options?.find(({ flags }) => optionName(flags) === flag)
  const of = (path: string, flag: string) => option(path, flag)?.choices
  const summaryOf = (path: string, flag: string) => option(path, flag)?.summary
  expect(of('list', 'status')).toEqual(MigrationJobStatus.options)
  expect(of('steps', 'status')).toEqual(MigrationStepStatus.options)
  expect(of('steps', 'phase')).toEqual(MigrationPhase.options)
  expect(of('start', 'phase')).toEqual(MigrationPhase.options)
  expect(of('test', 'source')).toEqual(SourceKind.options)
  for (const path of ['plan', 'start']) {
    expect(of(path, 'scope')).toEqual(MigrationScope.options)
    const { transport, freeze, verify, mounts, backups, runtimes } = MigrationOptions.shape
    const words = { transport, freeze, verify, mounts, backups }
    for (const [flag, field] of Object.entries(words)) expect(of(path, flag), flag).toEqual(field.unwrap().options)
    expect(of(path, 'runtime')).toEqual(runtimes.unwrap().element.options)
    expect(summaryOf(path, 'on-conflict')).toContain(`what: ${Object.keys(ConflictPolicies.shape).join(', ')}`)
  }
})
