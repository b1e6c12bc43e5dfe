import * as api from '../../../shared/api/schedules.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure } from '../../kit/failure.ts'
import { column, type View } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'
import { waitForJob } from '../jobs/watch.ts'
import { address } from './actions.ts'
import { RUNS } from './views.ts'

const WAIT_MS = 600_000

interface Started {
  readonly runId: string
  readonly jobId: string
  readonly status: string
}

const STARTED: View<Started> = {
  id: (row) => row.runId,
  name: (row) => row.runId,
  columns: [
    column('RUN', (row) => row.runId),
    column('STATUS', (row) => ({ status: row.status })),
    column('JOB', (row) => row.jobId),
  ],
}

/** `panel schedules run`: now, and with `--wait` to its end. */
export const runSchedule: Action = async (run) => {
  const { params, name } = await address(run)
  const started = await call(run, api.executeTask, { params })
  const waits =
    run.args.choice('wait') ?? (run.args.text('timeout') !== undefined || run.terminal.stdout.isTTY === true)
  if (!waits) {
    await run.out.item(started, STARTED)
    return 0
  }
  await waitForJob(run, started.jobId, run.args.duration('timeout') ?? WAIT_MS)
  const ended = await call(run, api.getTaskRun, { params: { ...params, taskRunId: started.runId } })
  if (run.out.machine) await run.out.value(ended)
  else await show(run, ended)
  if (ended.status === 'success') return 0
  throw new CliFailure('OPERATION_FAILED', `${name}: ${ended.error ?? ended.status}`)
}

/** `panel schedules abort`. */
export const abortSchedule: Action = async (run) => {
  const { params, name } = await address(run)
  await run.prompt.confirm(`Abort the run of the schedule ${name}?`)
  const aborted = await call(run, api.abortTask, { params })
  if (run.out.machine) await run.out.value(aborted)
  else run.notice(`aborting the run ${aborted.runId} of ${name}`)
}

const list = listAction(api.listTaskRuns, RUNS, async (run) => ({ params: (await address(run)).params }))

/** `panel schedules runs`: the history, with `--logs` each run with its output. */
export const listRuns: Action = async (run) => {
  if (!run.args.flag('logs')) {
    await list(run)
    return
  }
  const { params } = await address(run)
  const query = {
    ...(await fieldsOf(run)),
    limit: run.args.integer('limit', 1) ?? 10,
    page: run.args.integer('page', 1) ?? 1,
  }
  const runs = await call(run, api.listTaskRuns, { params, query })
  const detailed: api.TaskRunDetail[] = []
  for (const { id: taskRunId } of runs)
    detailed.push(await call(run, api.getTaskRun, { params: { ...params, taskRunId } }))
  if (run.out.machine) await run.out.value(detailed)
  else for (const one of detailed) await show(run, one)
}

/** A run for people: how it went, each step, and what the console has said. */
async function show(run: Run, ended: api.TaskRunDetail): Promise<void> {
  const lines = [
    `${ended.dueAt}  ${ended.status}  ${ended.cause}  ${ended.id}${ended.error === null ? '' : `  ${ended.error}`}`,
  ]
  for (const step of ended.steps) {
    lines.push(`  ${step.number}. ${step.action}  ${step.status}${step.error === null ? '' : `  ${step.error}`}`)
    for (const line of step.output?.lines ?? []) lines.push(`       ${line.data}`)
    if (step.output?.truncated === true) lines.push('       … more was not kept')
  }
  // Lines of a game are somebody else's text.
  await run.out.remote(`${lines.join('\n')}\n`)
}
