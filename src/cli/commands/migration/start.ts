import * as api from '../../../shared/api/migration.ts'
import type { MigrationId } from '../../../shared/kernel/ids.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { wantsToWait } from '../servers/power.ts'
import { driftBetween } from './drift.ts'
import { jobOf, readJob } from './job.ts'
import { settle, settled, waitFor } from './outcome.ts'
import { type PlanFile, readPlanFile } from './plan-file.ts'
import { readRequest } from './request.ts'
import { readSource, type SourceAccess, type SourcePlace, withKeys } from './source.ts'
import { STARTED } from './views.ts'

/** `panel migration start`. */
export const startMigration: Action = async (run) => {
  const file = run.args.text('plan')
  if (file !== undefined) return startPlan(run, await readPlanFile(run, file))
  if (run.args.flag('allow-drift')) throw usage('--allow-drift is of --plan')
  const source = await readSource(run)
  const jobId = await start(run, source, await readRequest(run, source))
  return afterStart(run, jobId)
}

/** What a plan file says is not said again by flags: another request has another plan. */
const OF_THE_PLAN = [
  ...[
    'source',
    'url',
    'insecure',
    'node',
    'path',
    'scope',
    'map',
    'server',
    'map-file',
    'phase',
    'on-conflict',
    'port-range',
  ],
  ...['unlimited', 'transport', 'archive-origin', 'backup-timeout', 'freeze', 'verify', 'runtime', 'mounts', 'backups'],
  ...['invite', 'grant-admin', 'location', 'concurrency', 'max-failures'],
] as const

async function startPlan(run: Run, file: PlanFile): Promise<number> {
  const { args } = run
  const both = OF_THE_PLAN.find((name) => args.flag(name))
  if (both !== undefined)
    throw usage(`--${both} and --plan exclude each other`, 'make the plan anew with it: panel migration plan')
  const body = { ...file.request, planHash: file.plan.hash, allowDrift: args.flag('allow-drift') }
  const jobId = await start(run, await withKeys(run, file.source), body)
  if (!wantsToWait(run)) return begun(run, jobId)
  const ending = await waitFor(run, jobId, { timeoutMs: args.duration('timeout') })
  if (ending.kind === 'ended' && ending.job.errorCode === 'PLAN_DRIFT') {
    const { plan } = await call(run, api.getMigration, { params: { jobId } })
    for (const line of plan === null ? [] : driftBetween(file.plan, plan)) run.terminal.say(line)
  }
  return settled(run, jobId, ending)
}

/** `panel migration verify`. */
export const verifyMigration: Action = async (run) => {
  const verifyOf = await jobOf(run, { moves: true })
  const { sourceUrl } = await readJob(run, verifyOf)
  const source = await withKeys(run, placeOf(sourceUrl, run.args.flag('insecure')))
  const jobId = await start(run, source, { verifyOf })
  return afterStart(run, jobId)
}

const DIRECTORY = 'directory://'

/** Where the source of a migration is, by the address that the panel shows of it. */
function placeOf(sourceUrl: string, insecure: boolean): SourcePlace {
  if (!sourceUrl.startsWith(DIRECTORY)) return { url: sourceUrl, insecure }
  const rest = sourceUrl.slice(DIRECTORY.length)
  const slash = rest.indexOf('/')
  const nodeId = rest.slice(0, slash) as api.DirectorySource['nodeId'] // checked by the daemon
  return { source: { kind: 'directory', nodeId, path: rest.slice(slash) } }
}

/** Starts one with what else the request has; the id of it. */
export async function start(
  run: Run,
  source: SourceAccess,
  body: Readonly<Record<string, unknown>>,
): Promise<MigrationId> {
  const allowPaused = run.args.flag('allow-paused')
  const { jobId } = await call(run, api.startMigration, { params: {}, body: { ...source, ...body, allowPaused } })
  return jobId
}

async function afterStart(run: Run, jobId: MigrationId): Promise<number> {
  if (!wantsToWait(run)) return begun(run, jobId)
  return settle(run, jobId, { timeoutMs: run.args.duration('timeout') })
}

/** Says how what was started is followed. */
async function begun(run: Run, jobId: MigrationId): Promise<number> {
  await run.out.item({ jobId }, STARTED)
  if (!run.out.machine) run.notice(`started; panel migration watch ${jobId}`)
  return 0
}
