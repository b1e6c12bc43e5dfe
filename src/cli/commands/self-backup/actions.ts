import * as api from '../../../shared/api/self-backups.ts'
import type { SelfBackupId } from '../../../shared/kernel/ids.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { call, deleted, ignoringNotFound } from '../../kit/resource/actions.ts'
import { saveFile } from '../../kit/resource/download.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'
import { waitForJob } from '../jobs/watch.ts'

const VIEW: View<api.SelfBackup> = {
  id: (row) => row.id,
  name: (row) => row.name,
  columns: [
    column('CREATED', (row) => ({ time: row.createdAt })),
    column('STATUS', (row) => ({ status: row.status })),
    column('STORE', (row) => row.store.name),
    column('BYTES', (row) => row.bytes),
    column('KEY', (row) => row.includesKey),
    column('CAUSE', (row) => row.cause),
    column('ERROR', (row) => row.error),
    column('ID', (row) => row.id),
    wide('ADDRESS', (row) => row.address),
    wide('VERSION', (row) => row.panelVersion),
    wide('SHA256', (row) => row.sha256),
  ],
}

const SCHEDULE: View<api.SelfBackupSchedule> = {
  id: (row) => row.cron ?? 'never',
  name: (row) => row.cron ?? 'never',
  columns: [
    column('CRON', (row) => row.cron),
    column('NEXT', (row) => ({ time: row.nextAt })),
    column('STORE', (row) => row.storeId),
    column('KEEP', (row) => row.keep),
    column('KEY', (row) => row.includesKey),
  ],
}

export const listBackups = listAction(api.listSelfBackups, VIEW)

const paramsOf = (run: Run) => ({ selfBackupId: run.args.required('backup') })

export const viewBackup: Action = async (run) => {
  await run.out.item(await call(run, api.getSelfBackup, { params: paramsOf(run) }), VIEW)
}

export const createBackup: Action = async (run) => {
  const body = await fieldsOf(run)
  if (run.args.flag('with-key')) body['passphrase'] = await passphraseOf(run)
  const { backup, jobId } = await call(run, api.createSelfBackup, { params: {}, body })
  const waits = run.args.choice('wait') ?? run.terminal.stdout.isTTY === true
  if (!waits) {
    await run.out.item(backup, VIEW)
    return
  }
  const job = await waitForJob(run, jobId, run.args.duration('timeout') ?? 600_000)
  if (job.status !== 'succeeded') {
    const hint = `panel jobs view ${jobId}`
    throw new CliFailure('OPERATION_FAILED', `${job.title}: ${job.error ?? job.status}`, { hint })
  }
  await run.out.item(await call(run, api.getSelfBackup, { params: { selfBackupId: backup.id } }), VIEW)
}

export const deleteBackup: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { id, name } = await call(run, api.getSelfBackup, { params: paramsOf(run) })
    await run.prompt.confirm(`Delete the backup ${name} of this panel?`)
    await call(run, api.deleteSelfBackup, { params: { selfBackupId: id } })
    await deleted(run, { id, name })
  })
}

export const downloadBackup: Action = async (run) => {
  const params = { selfBackupId: run.args.required('backup') as SelfBackupId } // the daemon says what is none
  await saveFile(run, async () => {
    const client = await run.client()
    return (await client.stream(api.downloadSelfBackup, { params }, { signal: run.signal })).content
  })
}

export const viewSchedule: Action = async (run) => {
  await run.out.item(await call(run, api.getSelfBackupSchedule, { params: {} }), SCHEDULE)
}

export const setSchedule: Action = async (run) => {
  const { args } = run
  const body = await fieldsOf(run)
  for (const [flag, name, other] of EXCLUSIVE) {
    if (!args.flag(flag)) continue
    if (args.text(other) !== undefined || (other === 'with-key' && args.flag(other))) {
      throw usage(`--${flag} and --${other} exclude each other`)
    }
    body[name] = null
  }
  if (args.flag('with-key')) body['passphrase'] = await passphraseOf(run)
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel self-backup schedule --help')
  await run.out.item(await call(run, api.setSelfBackupSchedule, { params: {}, body }), SCHEDULE)
}

const EXCLUSIVE = [
  ['off', 'cron', 'cron'],
  ['default-store', 'storeId', 'store'],
  ['without-key', 'passphrase', 'with-key'],
] as const

/** From stdin, a file, the environment or a question. */
export async function passphraseOf(run: Run): Promise<string> {
  const isGiven = run.args.flag('passphrase-stdin') || run.args.text('passphrase-file') !== undefined
  if (!isGiven && run.env.backupPassphrase !== undefined) return run.env.backupPassphrase
  return readSecret({ name: 'passphrase', question: 'Passphrase of the credential key:' }, run)
}
