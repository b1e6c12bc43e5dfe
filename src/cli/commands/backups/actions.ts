import * as api from '../../../shared/api/backups.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import { call, deleted, ignoringNotFound, subjectOf } from '../../kit/resource/actions.ts'
import { forEach } from '../../kit/resource/bulk.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import { type Named, resolveAll } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { type Address, address, SERVER } from './address.ts'
import { outcomeOf } from './outcome.ts'
import { ALL_BACKUPS, BACKUPS, STARTED } from './views.ts'

const SHOWN_PROBLEMS = 10

const listOwn = listAction(api.listBackups, BACKUPS, async (run) => ({
  params: { serverId: (await subjectOf(run, SERVER)).id },
}))
const listAll = listAction(api.listAllBackups, ALL_BACKUPS)

/** `panel backups list`. */
export const listBackups: Action = async (run) => {
  const all = run.args.flag('all-servers')
  const named = run.args.word('server') !== undefined
  if (all === named) throw usage('name a server, or --all-servers')
  await (all ? listAll : listOwn)(run)
}

/** `panel backups view`. */
export const viewBackup: Action = async (run) => {
  const { params } = await address(run)
  const backup = await call(run, api.getBackup, { params })
  await run.out.item(backup, BACKUPS)
  if (!run.out.machine) report(run, backup)
}

/** `panel backups create`. */
export const createBackups: Action = async (run) => {
  const servers = await resolveAll(run, 'server', run.args.words('server'))
  const fields = await fieldsOf(run)
  const kind = kindOf(run)
  const body = kind === undefined ? fields : { ...fields, kind }
  const [only] = servers
  if (only !== undefined && servers.length === 1) {
    const made = await create(run, only, { body, alone: true })
    await (isBackup(made) ? run.out.item(made, BACKUPS) : run.out.item(made, STARTED))
    return 0
  }
  const backups: api.Backup[] = []
  const started: api.BackupStarted[] = []
  const code = await forEach(run, servers, async (server) => {
    const made = await create(run, server, { body, alone: false })
    if (isBackup(made)) backups.push(made)
    else started.push(made)
  })
  await (backups.length > 0 ? run.out.list(backups, ALL_BACKUPS) : run.out.list(started, STARTED))
  return code
}

async function create(
  run: Run,
  server: Named,
  { body, alone }: { readonly body: unknown; readonly alone: boolean },
): Promise<api.Backup | api.BackupStarted> {
  const client = await run.client()
  const params = { serverId: server.id as never } // checked by the daemon
  const options = { idempotencyKey: run.idempotencyKey(server.id) }
  const started = await client.call(api.createBackup, { params, body: body as never }, options)
  const job = await outcomeOf(run, started.jobId, { alone })
  if (job === undefined) {
    if (alone && !run.out.machine) run.notice(`started; panel jobs watch ${started.jobId}`)
    return started
  }
  const made = await call(run, api.getBackup, { params: { serverId: server.id, backupId: started.backupId } })
  if (alone && !run.out.machine) report(run, made)
  return made
}

function isBackup(made: api.Backup | api.BackupStarted): made is api.Backup {
  return 'id' in made
}

function kindOf(run: Run): 'incremental' | 'archive' | undefined {
  const [incremental, archive] = [run.args.flag('incremental'), run.args.flag('archive')]
  if (incremental && archive) throw usage('--incremental and --archive exclude each other')
  if (incremental) return 'incremental'
  return archive ? 'archive' : undefined
}

/** Says what is not in a backup, and what is wrong with it. */
export function report(run: Run, { problems, problemCount, damage, error }: api.Backup): void {
  for (const { path, reason } of problems.slice(0, SHOWN_PROBLEMS))
    run.notice(path === '' ? reason : `${path}: ${reason}`)
  if (problemCount > SHOWN_PROBLEMS) run.notice(`and ${problemCount - Math.min(problems.length, SHOWN_PROBLEMS)} more`)
  if (damage !== null) run.notice(`damaged: ${damage}`)
  if (error !== null) run.notice(error)
}

/** `panel backups edit`. */
export const editBackup: Action = async (run) => {
  const { params } = await address(run)
  const body = await fieldsOf(run)
  if (run.args.flag('unlabel')) body['label'] = null
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel backups edit --help')
  await run.out.item(await call(run, api.updateBackup, { params, body }), BACKUPS)
}

/** `panel backups lock` and `unlock`. */
export const lockBackup: Action = async (run) => {
  const locked = run.path.at(-1) === 'lock'
  const { params } = await address(run)
  const backup = await call(run, api.updateBackup, { params, body: { locked } })
  if (run.out.machine) return run.out.value(backup)
  run.notice(locked ? `${backup.name} stays until it is unlocked` : `${backup.name} may be deleted`)
}

/** `panel backups delete`. */
export const deleteBackup: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { params, name, server } = await address(run)
    await run.prompt.confirm(`Delete the backup ${name} of ${server.name}?`)
    const started = await call(run, api.deleteBackup, { params })
    const job = await outcomeOf(run, started.jobId)
    // One that had failed is only forgotten, at once.
    if (job !== undefined || started.jobId === null) await deleted(run, { id: params.backupId, name })
    else if (run.out.machine) await run.out.value(started)
    else run.notice(`started; panel jobs watch ${started.jobId}`)
  })
}

/** `panel backups verify`: what is damaged is exit 11. */
export const verifyBackup: Action = async (run) => {
  const { params }: Address = await address(run)
  const started = await call(run, api.verifyBackup, { params, body: { deep: !run.args.flag('quick') } })
  try {
    const job = await outcomeOf(run, started.jobId)
    if (job === undefined) {
      await run.out.item(started, STARTED)
      return 0
    }
  } catch (error) {
    // The row says which files are damaged; the job, which backups.
    if (!(error instanceof CliFailure) || error.code !== 'OPERATION_FAILED') throw error
    const { damage } = await call(run, api.getBackup, { params })
    if (damage !== null) run.notice(damage)
    throw error
  }
  const backup = await call(run, api.getBackup, { params })
  await run.out.item(backup, BACKUPS)
  if (!run.out.machine && backup.bytes !== null && !run.args.flag('quick'))
    run.notice(`${backup.name}: ${byteSize(backup.bytes)} are as they were`)
  return 0
}
