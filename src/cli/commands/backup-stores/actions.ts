import * as api from '../../../shared/api/backup-stores.ts'
import type { Action } from '../../kit/command.ts'
import { CLI_FAILURES, usage } from '../../kit/failure.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { call, deleted, ignoringNotFound, subjectOf, viewAction } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolve } from '../../kit/resource/resolve.ts'

const VIEW = view<api.BackupStore>([
  column('NAME', (row) => row.name),
  column('KIND', (row) => row.kind),
  column('PLACE', placeOf),
  column('DEFAULT', (row) => row.isDefault),
  column('BACKUPS', (row) => row.backupCount),
  column('ID', (row) => row.id),
  wide('REGION', (row) => row.region),
  wide('ACCESS KEY', (row) => row.accessKeyId),
  wide('PATH STYLE', (row) => row.pathStyle),
  wide('LOCATIONS', (row) => row.defaultOf.locations),
  wide('NODES', (row) => row.defaultOf.nodes),
  wide('SERVERS', (row) => row.defaultOf.servers),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])

const SUBJECT = { ref: 'backupStore', param: 'storeId', word: 'store' } as const
const SECRET = { name: 'secret', question: 'Secret access key:' }

export const listStores = listAction(api.listBackupStores, VIEW)
export const viewStore = viewAction(api.getBackupStore, SUBJECT, VIEW)

export const createStore: Action = async (run) => {
  const body = await fieldsOf(run)
  if (body['kind'] === 's3') body['secretAccessKey'] ??= run.env.storeSecret ?? (await readSecret(SECRET, run))
  await run.out.item(await call(run, api.createBackupStore, { params: {}, body }), VIEW)
}

export const editStore: Action = async (run) => {
  const { id: storeId } = await subjectOf(run, SUBJECT)
  const body = await fieldsOf(run)
  const isGiven = run.args.flag('secret-stdin') || run.args.text('secret-file') !== undefined
  const secret = isGiven ? await readSecret(SECRET, run) : run.env.storeSecret
  if (secret !== undefined) body['secretAccessKey'] = secret
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel backup-stores edit --help')
  await run.out.item(await call(run, api.updateBackupStore, { params: { storeId }, body }), VIEW)
}

export const deleteStore: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const store = await subjectOf(run, SUBJECT)
    await run.prompt.confirm(`Remove the backup store ${store.name}? What lies there stays.`)
    await call(run, api.deleteBackupStore, { params: { storeId: store.id } })
    await deleted(run, store)
  })
}

export const testStore: Action = async (run) => {
  const { id: storeId } = await subjectOf(run, SUBJECT)
  const word = run.args.text('node')
  const body = word === undefined ? {} : { nodeId: (await resolve(run, 'node', word)).id }
  const answer = await call(run, api.testBackupStore, { params: { storeId }, body })
  await run.out.list(answer.checks, CHECKS)
  return answer.ok ? 0 : CLI_FAILURES.OPERATION_FAILED
}

export const listDefaults = listAction(
  api.listBackupStoreDefaults,
  view<api.BackupStoreDefault>([
    column('SCOPE', (row) => row.scope),
    column('NAME', (row) => row.name),
    column('STORE', (row) => row.store.name),
    column('ID', (row) => row.id),
  ]),
)

export const setDefault: Action = async (run) => {
  const given = (['location', 'node', 'server'] as const).flatMap((scope) => {
    const word = run.args.text(scope)
    return word === undefined ? [] : [{ scope, word }]
  })
  const [first, second] = given
  if (second !== undefined) throw usage('name one of --location, --node and --server')
  const store = run.args.flag('unset') ? null : await subjectOf(run, SUBJECT)
  const place =
    first === undefined
      ? { scope: 'panel' }
      : { scope: first.scope, id: (await resolve(run, first.scope, first.word)).id }
  await call(run, api.setBackupStoreDefault, { params: {}, body: { ...place, storeId: store?.id ?? null } })
}

const CHECKS: View<api.BackupStoreCheck> = {
  id: (row) => row.name,
  name: (row) => row.name,
  columns: [
    column('FROM', (row) => row.from),
    column('CHECK', (row) => row.name),
    column('OK', (row) => row.ok),
    column('LATENCY', (row) => (row.latencyMs === null ? null : `${row.latencyMs} ms`)),
    column('ERROR', (row) => row.error),
  ],
}

function placeOf(row: api.BackupStore): string | null {
  if (row.kind === 'local')
    return row.folder === null ? 'the folder of each node' : `the folder ${row.folder} of each node`
  return [row.endpoint, row.bucket, row.prefix].filter((part) => part !== '').join('/')
}
