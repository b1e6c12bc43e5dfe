import { z } from 'zod'
import type { Tx } from '../../../db/db.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { findServerRow } from '../servers/rows.ts'
import type { BackupDeps } from './deps.ts'
import { typeAll } from './quiesce.ts'
import { settingsOf } from './settings.ts'

/** Types the commands behind a backup that was cut off: a game that holds still must go on. */
export const RESUME_GAME = defineJob({
  kind: 'backups.resume',
  input: z.object({ serverId: z.string() }),
  state: z.object({}),
  first: () => ({}),
  title: ({ serverId }) => `Let ${serverId} go on after a backup`,
  pool: { name: 'backups.resume', size: 8 },
  lane: ({ serverId }) => serverId,
  ordered: false,
  background: true,
  plan: () => [{ step: 'type', name: 'type' }],
})

/** Has it done now. */
export async function resumeLater(tx: Tx, { jobs }: Pick<BackupDeps, 'jobs'>, serverId: string): Promise<void> {
  if ((await settingsOf(tx.q, serverId)).resume.length === 0) return
  await jobs.queue.add(tx, RESUME_GAME, { input: { serverId }, cause: 'backup' })
}

/** Gives the engine the step of it. */
export function registerResume(jobs: Pick<Jobs, 'register'>, deps: BackupDeps): void {
  jobs.register(RESUME_GAME, {
    steps: {
      type: {
        run: async ({ job, signal }) => {
          const { serverId } = job.input
          const row = await findServerRow(deps.db.read, serverId)
          if (row === undefined) return undefined
          const { resume } = await settingsOf(deps.db.read, serverId)
          const notes = await typeAll(deps, row, { commands: resume, principal: job.principal, signal })
          if (notes.length > 0) throw new Error(notes.join('; '))
          return undefined
        },
      },
    },
  })
}
