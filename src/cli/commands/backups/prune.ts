import * as api from '../../../shared/api/backups.ts'
import type { Action } from '../../kit/command.ts'
import { call } from '../../kit/resource/actions.ts'
import { forEach } from '../../kit/resource/bulk.ts'
import { resolveAll } from '../../kit/resource/resolve.ts'
import { outcomeOf } from './outcome.ts'
import { ALL_BACKUPS } from './views.ts'

/** `panel backups prune`: deletes what the keep rules of servers no longer keep. */
export const pruneBackups: Action = async (run) => {
  const servers = await resolveAll(run, 'server', run.args.words('server'))
  const dryRun = run.args.flag('dry-run')
  const [count, days] = [run.args.integer('keep'), run.args.integer('keep-days')]
  const body = {
    ...(dryRun ? { dryRun } : {}),
    ...(run.args.flag('orphans') ? { orphans: true } : {}),
    ...(count === undefined ? {} : { retentionCount: count }),
    ...(days === undefined ? {} : { retentionDays: days }),
  }
  const gone: api.Backup[] = []
  if (!dryRun) {
    const names = servers.map(({ name }) => name).join(', ')
    await run.prompt.confirm(`Delete the backups of ${names.slice(0, 500)} that are no longer kept?`)
  }
  const code = await forEach(run, servers, async ({ id }) => {
    const { backups, jobIds } = await call(run, api.pruneBackups, { params: { serverId: id }, body })
    gone.push(...backups)
    for (const jobId of jobIds) await outcomeOf(run, jobId, { alone: servers.length === 1 })
  })
  await run.out.list(gone, ALL_BACKUPS)
  if (!run.out.machine) run.notice(`${gone.length} ${dryRun ? 'would be deleted' : 'deleted'}`)
  return code
}
