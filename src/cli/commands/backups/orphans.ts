import * as api from '../../../shared/api/backups.ts'
import type { Action } from '../../kit/command.ts'
import { call, deleted, ignoringNotFound, subjectOf } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import { anyBackup } from './address.ts'
import { outcomeOf } from './outcome.ts'
import { ADDED, ALL_BACKUPS } from './views.ts'

/** `panel backups orphans list`. */
export const listOrphans = listAction(api.listAllBackups, ALL_BACKUPS, async () => ({ query: { orphaned: 'true' } }))

/** `panel backups orphans view`. */
export const viewOrphan: Action = async (run) => {
  const { id: backupId } = await anyBackup(run, run.args.required('backup'))
  await run.out.item(await call(run, api.getAnyBackup, { params: { backupId } }), ALL_BACKUPS)
}

/** `panel backups orphans delete`. */
export const deleteOrphan: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { id: backupId, name } = await anyBackup(run, run.args.required('backup'))
    const force = run.args.flag('force')
    await run.prompt.confirm(
      force ? `Forget the backup ${name}, whatever lies in its store?` : `Delete the backup ${name}?`,
    )
    const query = force ? { force: 'true' } : {}
    const started = await call(run, api.deleteAnyBackup, { params: { backupId }, query })
    const job = await outcomeOf(run, started.jobId)
    if (job !== undefined || started.jobId === null) await deleted(run, { id: backupId, name })
    else if (run.out.machine) await run.out.value(started)
    else run.notice(`started; panel jobs watch ${started.jobId}`)
  })
}

/** `panel backups orphans reattach`. */
export const reattachBackup: Action = async (run) => {
  const { id: backupId } = await anyBackup(run, run.args.required('backup'))
  const server = await resolve(run, 'server', run.args.required('server'))
  const backup = await call(run, api.reattachBackup, { params: { backupId }, body: { serverId: server.id } })
  await run.out.item(backup, ALL_BACKUPS)
}

/** `panel backups scan`. */
export const scanStore: Action = async (run) => {
  const { id: storeId } = await subjectOf(run, { ref: 'backupStore', param: 'storeId', word: 'store' })
  const node = run.args.text('node')
  const body = {
    storeId,
    ...(node === undefined ? {} : { nodeId: (await resolve(run, 'node', node)).id }),
    ...(run.args.flag('dry-run') ? { dryRun: true } : {}),
  }
  const { found, added, missing } = await call(run, api.scanBackups, { params: {}, body })
  if (run.out.machine) return await run.out.value({ found, added, missing })
  await run.out.list(added, ADDED)
  run.notice(`${found} found, ${added.length} of them new${run.args.flag('dry-run') ? '; nothing was changed' : ''}`)
  for (const { name, serverName } of missing.slice(0, 20)) run.notice(`missing: ${name} of ${serverName}`)
  if (missing.length > 20) run.notice(`and ${missing.length - 20} more are missing`)
}
