import * as api from '../../../shared/api/jobs.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { call } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'
import { JOBS, STEPS } from './views.ts'

export const listJobs = listAction(api.listJobs, JOBS, async ({ args }) => {
  const [open, ended] = [args.flag('open'), args.flag('ended')]
  if (open && ended) throw usage('--open and --ended exclude each other')
  const background = args.flag('background') ? { background: true } : {}
  return { query: { ...background, ...(open || ended ? { ended } : {}) } }
})

export const viewJob: Action = async (run) => {
  const job = await call(run, api.getJob, { params: { jobId: run.args.required('job') } })
  await run.out.item(job, JOBS)
  if (run.out.machine) return
  if (job.error !== null) run.notice(`\n${job.error}`)
  run.notice('')
  await run.out.list(job.stepList, STEPS)
  if (job.notes.length > 0) run.notice('')
  for (const note of job.notes) run.notice(note)
}

export const pauseJob: Action = async (run) => {
  const params = { jobId: run.args.required('job') }
  await run.out.item(await call(run, api.pauseJob, { params }), JOBS)
}

export const resumeJob: Action = async (run) => {
  const params = { jobId: run.args.required('job') }
  await run.out.item(await call(run, api.resumeJob, { params }), JOBS)
}

export const cancelJob: Action = async (run) => {
  const params = { jobId: run.args.required('job') }
  await run.prompt.confirm(`Cancel the job ${params.jobId}?`)
  await run.out.item(await call(run, api.cancelJob, { params }), JOBS)
}

export const retryJob: Action = async (run) => {
  const jobId = run.args.required('job')
  const stepId = (await stepOf(run, jobId)).id
  await run.out.item(await call(run, api.retryJobStep, { params: { jobId, stepId } }), JOBS)
}

async function stepOf(run: Run, jobId: string): Promise<api.JobStep> {
  const { stepList } = await call(run, api.getJob, { params: { jobId } })
  const number = run.args.integer('step', 1)
  const step = stepList.find((one) => (number === undefined ? one.status !== 'succeeded' : one.number === number))
  if (step !== undefined) return step
  throw usage(number === undefined ? 'no step of this job has failed' : `the job has no step ${number}`)
}
