import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { StorePrefix } from '../../../shared/api/backup-stores.ts'
import * as api from '../../../shared/api/self-backups.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { CLI_FAILURES, CliFailure, usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import type { ExaminedSelfBackup, RestoredPanel, SelfBackupSource } from '../../roles.ts'
import { passphraseOf } from './actions.ts'

const CHECK: View<api.SelfBackupCheck> = {
  id: (row) => String(row.ok),
  name: (row) => String(row.ok),
  columns: [column('OK', (row) => row.ok), column('PROBLEM', (row) => row.problem)],
}

const EXAMINED: View<ExaminedSelfBackup> = {
  id: (row) => row.id,
  name: (row) => row.name,
  columns: [
    column('NAME', (row) => row.name),
    column('CREATED', (row) => ({ time: row.createdAt })),
    column('VERSION', (row) => row.panelVersion),
    column('SCHEMA', (row) => row.schemaVersion),
    column('KEY', (row) => row.includesKey),
    column('BYTES', (row) => row.bytes),
    wide('SHA256', (row) => row.sha256),
  ],
}

const RESTORED: View<RestoredPanel> = {
  id: (row) => row.id,
  name: (row) => row.name,
  columns: [
    column('FROM', (row) => row.name),
    column('CREATED', (row) => ({ time: row.createdAt })),
    column('VERSION', (row) => row.panelVersion),
    column('DATA FOLDER', (row) => row.dataDir),
    column('KEY FILE', (row) => row.keyFile),
  ],
}

/** `panel self-backup verify`: exit 11 when it is damaged. */
export const verifyBackup: Action = async (run) => {
  const word = run.args.required('backup')
  if (run.args.text('endpoint') === undefined && /^[A-Za-z0-9_-]+$/.test(word)) {
    const checked = await call(run, api.verifySelfBackup, { params: { selfBackupId: word } })
    await run.out.item(checked, CHECK)
    return checked.ok ? 0 : CLI_FAILURES.OPERATION_FAILED
  }
  const folder = await mkdtemp(join(tmpdir(), 'panel-self-backup-'))
  try {
    const found = await run.roles.examineSelfBackup({ source: await sourceOf(run, word), folder, signal: run.signal })
    await run.out.item(found, EXAMINED)
    notePassedOver(run, found)
    return 0
  } catch (error) {
    if (!(error instanceof PanelError) || error.code !== 'VALIDATION_ERROR') throw error
    throw new CliFailure('OPERATION_FAILED', error.message, { cause: error })
  }
}

/** `panel self-backup restore`. */
export const restoreBackup: Action = async (run) => {
  const { args } = run
  const source = await sourceOf(run, args.required('backup'))
  const withoutKey = args.flag('without-key')
  const isGiven = args.flag('passphrase-stdin') || args.text('passphrase-file') !== undefined
  if (withoutKey && isGiven) throw usage('--without-key and a passphrase exclude each other')
  const passphrase =
    withoutKey || (!isGiven && run.env.backupPassphrase === undefined) ? undefined : await passphraseOf(run)
  const options = { source, dataDir: args.text('data-dir'), passphrase, withoutKey, signal: run.signal }
  const restored = await run.roles.restorePanel(options)
  await run.out.item(restored, RESTORED)
  notePassedOver(run, restored)
  if (run.out.machine) return
  if (restored.keyFile !== null) {
    run.notice(
      `the credential key is in ${restored.keyFile}; for panel daemon run: PANEL_CREDENTIAL_KEY_FILE=${restored.keyFile}`,
    )
  } else if (restored.keyFingerprint !== null) {
    run.notice('the daemon needs the credential key that it had (PANEL_CREDENTIAL_KEY_FILE): secrets are sealed by it')
  }
  run.notice(`next: start the daemon at its old address, with --data-dir ${restored.dataDir}`)
}

function notePassedOver(run: Run, { name, passedOver: [newest, ...more] }: ExaminedSelfBackup): void {
  if (newest === undefined) return
  const all = more.length === 0 ? `${newest} is` : `${newest} and ${more.length} more are`
  run.notice(`${all} dated ahead of this machine's clock, so latest is ${name}; name the archive to take another one`)
}

async function sourceOf(run: Run, name: string): Promise<SelfBackupSource> {
  const { args } = run
  const endpoint = args.text('endpoint')
  const [bucket, accessKeyId] = [args.text('bucket'), args.text('access-key')]
  if (endpoint === undefined) {
    if (bucket !== undefined || accessKeyId !== undefined) throw usage('--endpoint is needed for a bucket')
    return { name, s3: undefined }
  }
  if (bucket === undefined || accessKeyId === undefined)
    throw usage('--bucket and --access-key are needed with --endpoint')
  if (!URL.canParse(endpoint)) throw usage(`--endpoint must be a URL such as https://s3.example.org, not '${endpoint}'`)
  const { origin, hostname } = new URL(endpoint)
  const isGiven = args.flag('secret-key-stdin') || args.text('secret-key-file') !== undefined
  const ask = { name: 'secret-key', question: 'Secret access key:' }
  const secretAccessKey = isGiven ? await readSecret(ask, run) : (run.env.storeSecret ?? (await readSecret(ask, run)))
  const [region, prefix] = [args.text('region') ?? 'us-east-1', args.text('prefix') ?? '']
  const checked = StorePrefix.safeParse(prefix)
  if (!checked.success) throw usage(`--prefix ${checked.error.issues[0]?.message}, not '${prefix}'`)
  const pathStyle = !/\.amazonaws\.com(\.cn)?$/i.test(hostname)
  return { name, s3: { endpoint: origin, region, bucket, prefix, pathStyle, accessKeyId, secretAccessKey } }
}
