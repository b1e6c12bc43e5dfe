import * as api from '../../../shared/api/migration.ts'
import type { Action } from '../../kit/command.ts'
import { CLI_FAILURES } from '../../kit/failure.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import { shortDuration } from '../../kit/output/cell.ts'
import { oneLine } from '../../kit/output/escape.ts'
import { column, type View } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { endOf, leave, waitFor } from './outcome.ts'
import { writePlanFile } from './plan-file.ts'
import { readRequest } from './request.ts'
import { readSource, type SourceAccess, type SourcePlace } from './source.ts'
import { start } from './start.ts'
import { CONFLICTS, LOST } from './views.ts'

const PLAN: View<api.MigrationPlan> = {
  id: (row) => row.hash,
  name: (row) => row.sourceFp,
  columns: [
    column('CREATE', (row) => row.counts.create),
    column('LINK', (row) => row.counts.link),
    column('UPDATE', (row) => row.counts.update),
    column('SKIP', (row) => row.counts.skip),
    column('CONFLICTS', (row) => row.counts.conflict),
    column('BYTES', (row) => (row.estimate.bytes === null ? null : byteSize(row.estimate.bytes))),
    column('REQUESTS', (row) => row.estimate.apiRequests),
    column('AT LEAST', (row) => shortDuration(row.estimate.minSeconds * 1000)),
    column('HASH', (row) => row.hash),
  ],
}

const CHANGES_EXIT = 10

/** `panel migration plan`: what is in the way is exit 8. */
export const planMigration: Action = async (run) => {
  const { args } = run
  const source = await readSource(run)
  const request = await readRequest(run, source)
  const jobId = await start(run, source, { ...request, dryRun: true })
  const ending = await waitFor(run, jobId, { timeoutMs: args.duration('timeout') })
  if (ending.kind === 'left') return leave(run, jobId, ending)
  const { failure } = endOf(ending.job)
  const { plan } = await call(run, api.getMigration, { params: { jobId } })
  if (failure !== undefined || plan === null)
    throw failure ?? new Error(`the migration ${jobId} has ended without a plan`)
  const out = args.text('out')
  if (out !== undefined) await writePlanFile(run, out, { planFile: 1, source: placeOf(source), request, plan })
  if (out !== '-') await show(run, plan)
  const { conflicts, counts } = plan
  if (conflicts.length > 0) {
    run.notice(`${conflicts.length} conflicts: it does not start before each is decided`)
    return CLI_FAILURES.REJECTED
  }
  if (out !== undefined && out !== '-') run.notice(`panel migration start --plan ${out}`)
  return args.flag('detailed-exitcode') && counts.create + counts.update > 0 ? CHANGES_EXIT : 0
}

async function show(run: Run, plan: api.MigrationPlan): Promise<void> {
  await run.out.item(plan, PLAN)
  if (run.out.machine || run.out.format === 'csv') return
  if (plan.conflicts.length > 0) {
    run.notice('')
    await run.out.list(plan.conflicts, CONFLICTS)
  }
  if (plan.lost.length > 0) {
    run.notice('')
    await run.out.list(plan.lost, LOST)
  }
  for (const warning of plan.warnings.slice(0, MOST_WARNINGS)) run.notice(oneLine(warning))
  if (plan.warnings.length > MOST_WARNINGS)
    run.notice(`and ${plan.warnings.length - MOST_WARNINGS} more; -o json has all`)
}

const MOST_WARNINGS = 20

/** A source without its keys. */
function placeOf(source: SourceAccess): SourcePlace {
  return 'source' in source ? { source: source.source } : { url: source.url, insecure: source.insecure }
}
