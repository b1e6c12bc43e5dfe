import { registerTally, TALLY } from '../daemon/jobs/tally-job.ts'
import type { World } from './world.ts'

const registered = new WeakSet<object>()

/** A job of a test's type that is not due for an hour. */
export async function waitingJob(world: Pick<World, 'panel' | 'next'>, serverId?: string): Promise<string> {
  const { jobs, core } = world.panel.app
  if (!registered.has(jobs)) registerTally(jobs)
  registered.add(jobs)
  const name = `job${world.next()}`
  const input = { file: `/nowhere/${name}`, name, steps: 2, lane: name, serverId: null, needs: null }
  const at = new Date(core.clock.nowMs() + 3_600_000).toISOString() as never
  return (await core.db.write((tx) => jobs.queue.add(tx, TALLY, { input, cause: 'test', at, serverId }))) ?? ''
}

/** The same, paused. */
export async function pausedJob(world: World): Promise<string> {
  const jobId = await waitingJob(world)
  const { db } = world.panel.app.core
  await db.write((tx) =>
    tx.q.updateTable('job').set({ status: 'paused', dueAt: null }).where('id', '=', jobId).execute(),
  )
  return jobId
}

/** The same, ended by the failure of its first step. */
export async function failedJob(world: World): Promise<{ jobId: string; stepId: string }> {
  const jobId = await waitingJob(world)
  const { db } = world.panel.app.core
  const failed = { status: 'failed', error: 'it broke' } as const
  return db.write(async (tx) => {
    const ended = { ...failed, dueAt: null, endedAt: tx.now }
    await tx.q.updateTable('job').set(ended).where('id', '=', jobId).execute()
    const step = tx.q.updateTable('jobStep').set(failed).where('jobId', '=', jobId).where('number', '=', 1)
    const { id } = await step.returning('id').executeTakeFirstOrThrow()
    return { jobId, stepId: id }
  })
}
