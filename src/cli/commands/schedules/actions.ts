import * as api from '../../../shared/api/schedules.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { call, deleted, ignoringNotFound, subjectOf } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { beginsId, isAnId } from '../../kit/resource/id.ts'
import { listAction } from '../../kit/resource/list.ts'
import { hasNextPage } from '../../kit/resource/next-page.ts'
import type { Named } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { readStep } from './steps.ts'
import { SCHEDULES } from './views.ts'

const SUBJECT = { ref: 'server', param: 'serverId' } as const

export const listSchedules = listAction(api.listTasks, SCHEDULES, async (run) => ({
  params: { serverId: (await subjectOf(run, SUBJECT)).id },
}))

export const viewSchedule: Action = async (run) => {
  const { params } = await address(run)
  await run.out.item(await call(run, api.getTask, { params }), SCHEDULES)
}

export const createSchedule: Action = async (run) => {
  const body = await bodyOf(run)
  const { id: serverId } = await subjectOf(run, SUBJECT)
  await run.out.item(await call(run, api.createTask, { params: { serverId }, body }), SCHEDULES)
}

export const editSchedule: Action = async (run) => {
  const body = await bodyOf(run)
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel schedules edit --help')
  await change(run, body)
}

export const enableSchedule: Action = (run) => change(run, { enabled: true })
export const disableSchedule: Action = (run) => change(run, { enabled: false })

export const deleteSchedule: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { params, name } = await address(run)
    await run.prompt.confirm(`Delete the schedule ${name} and its history?`)
    await call(run, api.deleteTask, { params })
    await deleted(run, { id: params.taskId, name })
  })
}

/** The server and the schedule that the positional words name. */
export async function address(run: Run): Promise<{ params: { serverId: string; taskId: string }; name: string }> {
  const { id: serverId } = await subjectOf(run, SUBJECT)
  const { id: taskId, name } = await scheduleOf(run, serverId, run.args.required('schedule'))
  return { params: { serverId, taskId }, name }
}

/** All schedules of a server. */
export async function* schedulesOf(run: Run, serverId: string): AsyncGenerator<api.Task> {
  const client = await run.client()
  for (let page = 1; ; page++) {
    const answer = await client.page(api.listTasks, { params: { serverId }, query: { limit: 100, page } })
    yield* answer.data
    if (!hasNextPage(answer.pagination, answer.data.length)) return
  }
}

async function change(run: Run, body: Readonly<Record<string, unknown>>): Promise<void> {
  const { params } = await address(run)
  await run.out.item(await call(run, api.updateTask, { params, body }), SCHEDULES)
}

async function bodyOf(run: Run): Promise<Record<string, unknown>> {
  const words = run.args.list('step')
  const steps = words.map(readStep)
  const body = await fieldsOf(run)
  return steps.length === 0 ? body : { ...body, steps }
}

async function scheduleOf(run: Run, serverId: string, word: string): Promise<Named> {
  // A whole id needs no look-up.
  if (isAnId(word, 'sch')) return { id: word, name: word }
  const [named, begun]: [Named[], Named[]] = [[], []]
  for await (const { id, name } of schedulesOf(run, serverId)) {
    if (name === word) named.push({ id, name })
    else if (beginsId(id, 'sch', word)) begun.push({ id, name })
  }
  const found = named.length > 0 ? named : begun
  const [only] = found
  if (only !== undefined && found.length === 1) return only
  if (found.length > 1) {
    const ids = found.map(({ id }) => id).join(', ')
    throw new CliFailure('AMBIGUOUS_NAME', `'${word}' names ${found.length} schedules: ${ids}`)
  }
  throw new CliFailure('NOT_FOUND', `this server has no schedule '${word}'`, { hint: 'panel schedules list <server>' })
}
