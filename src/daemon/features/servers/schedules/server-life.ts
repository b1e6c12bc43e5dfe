import type { Tx } from '../../../db/db.ts'
import { lookForDue, nextRunOrKept } from './due-job.ts'
import { timeSchedule, updateSchedule } from './rows.ts'
import { abortRun, type RunDeps } from './runs.ts'

/**
 * What a suspension does to the schedules of a server: those that are enabled are not while it lasts, and what runs is aborted.
 * Their times go on, so that the history says what was left out. The end of it enables those again, and no others.
 */
export async function followSuspension(tx: Tx, deps: RunDeps, serverId: string, isSuspended: boolean): Promise<void> {
  const schedules = await tx.q.selectFrom('schedule').selectAll().where('serverId', '=', serverId).execute()
  for (const row of schedules) {
    if (isSuspended) {
      await abortRun(tx, deps, row.id, 'The server was suspended')
      if (row.enabled === 1) await updateSchedule(tx, row.id, { enabled: 0, disabledBySuspension: 1 })
    } else if (row.disabledBySuspension === 1) {
      await updateSchedule(tx, row.id, { enabled: 1, disabledBySuspension: 0 })
      await timeSchedule(tx, row.id, nextRunOrKept(row, Date.parse(tx.now)))
    }
  }
  if (schedules.length > 0) await lookForDue(tx, deps.jobs)
}

/** Ends what runs of a server that is being forgotten; its schedules and their history go with its row. */
export async function endWithServer(tx: Tx, deps: RunDeps, serverId: string): Promise<void> {
  const schedules = await tx.q.selectFrom('schedule').select('id').where('serverId', '=', serverId).execute()
  for (const { id } of schedules) await abortRun(tx, deps, id, 'The server was deleted')
}
