import * as api from '../../../shared/api/database-hosts.ts'
import type { Action } from '../../kit/command.ts'
import { CLI_FAILURES, usage } from '../../kit/failure.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { readText } from '../../kit/read-file.ts'
import { call, deleted, ignoringNotFound, subjectOf, viewAction } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Run } from '../../kit/run.ts'

const VIEW = view<api.DatabaseHost>([
  column('NAME', (row) => row.name),
  column('ENGINE', (row) => row.engine),
  column('ADDRESS', (row) => `${row.host}:${row.port}`),
  column('USER', (row) => row.username),
  column('DATABASES', (row) =>
    row.maxDatabases === null ? row.databaseCount : `${row.databaseCount}/${row.maxDatabases}`,
  ),
  column('LEFTOVERS', (row) => row.leftoverCount),
  column('ID', (row) => row.id),
  wide('TLS', (row) => row.tls),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])

const SUBJECT = { ref: 'databaseHost', param: 'hostId', word: 'host' } as const

export const listHosts = listAction(api.listDatabaseHosts, VIEW)
export const viewHost = viewAction(api.getDatabaseHost, SUBJECT, VIEW)

export const createHost: Action = async (run) => {
  const body = await bodyOf(run)
  body['password'] ??= await readSecret(PASSWORD, run)
  await run.out.item(await call(run, api.createDatabaseHost, { params: {}, body }), VIEW)
}

export const editHost: Action = async (run) => {
  const { id: hostId } = await subjectOf(run, SUBJECT)
  const body = { ...(await bodyOf(run)), ...unset(run) }
  if (run.args.flag('password-stdin') || run.args.text('password-file') !== undefined) {
    body['password'] = await readSecret(PASSWORD, run)
  }
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel db-hosts edit --help')
  await run.out.item(await call(run, api.updateDatabaseHost, { params: { hostId }, body }), VIEW)
}

export const deleteHost: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const host = await subjectOf(run, SUBJECT)
    await run.prompt.confirm(`Remove the database host ${host.name}?`)
    const query = run.args.flag('force') ? { force: 'true' } : {}
    await call(run, api.deleteDatabaseHost, { params: { hostId: host.id }, query })
    await deleted(run, host)
  })
}

export const pingHost: Action = async (run) => {
  const { id, name } = await subjectOf(run, SUBJECT)
  const answer = await call(run, api.pingDatabaseHost, { params: { hostId: id } })
  const shown: View<api.DatabaseHostPing> = {
    id: () => id,
    name: () => name,
    columns: [
      column('OK', (row) => row.ok),
      column('LATENCY', (row) => (row.latencyMs === null ? null : `${row.latencyMs} ms`)),
      column('VERSION', (row) => row.version),
      column('REASON', (row) => row.reason),
      column('ERROR', (row) => row.error),
    ],
  }
  await run.out.item(answer, shown)
  return answer.ok ? 0 : CLI_FAILURES.OPERATION_FAILED
}

const PASSWORD = { name: 'password', question: 'Password of the user on the host:' }
const UNSET: Readonly<Record<string, string>> = { max: 'maxDatabases', 'tls-ca': 'caCertificate' }

async function bodyOf(run: Run): Promise<Record<string, unknown>> {
  const body = await fieldsOf(run)
  const ca = run.args.text('tls-ca')
  return ca === undefined ? body : { ...body, caCertificate: await readText(ca) }
}

function unset(run: Run): Record<string, null> {
  const fields = run.args.list('unset').map((name) => {
    const known = UNSET[name.replace(/^--/, '')]
    if (known === undefined) throw usage(`--unset ${name}: choose from ${Object.keys(UNSET).join(', ')}`)
    return [known, null] as const
  })
  return Object.fromEntries(fields)
}
