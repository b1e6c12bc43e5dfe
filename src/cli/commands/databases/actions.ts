import * as api from '../../../shared/api/databases.ts'
import { SECRET_MASK } from '../../../shared/kernel/setting-values.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure } from '../../kit/failure.ts'
import { column, view, wide } from '../../kit/output/view.ts'
import { call, ignoringNotFound, subjectOf } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { beginsId, isAnId } from '../../kit/resource/id.ts'
import { listAction } from '../../kit/resource/list.ts'
import { hasNextPage } from '../../kit/resource/next-page.ts'
import type { Named } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

const SUBJECT = { ref: 'server', param: 'serverId' } as const

const VIEW = view<api.ServerDatabase>([
  column('NAME', (row) => row.name),
  column('USER', (row) => row.username),
  column('PASSWORD', (row) => row.password),
  column('ADDRESS', (row) => `${row.host}:${row.port}`),
  column('HOST', (row) => row.hostName),
  column('ENGINE', (row) => row.engine),
  column('STATE', (row) => row.state),
  column('MANAGED', (row) => row.managed),
  column('ID', (row) => row.id),
  wide('REMOTE', (row) => row.remote),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])

export const listDatabases = listAction(api.listServerDatabases, VIEW, async (run) => ({
  params: { serverId: (await subjectOf(run, SUBJECT)).id },
  shown: (row) => masked(run, row),
}))

export const viewDatabase: Action = async (run) => {
  const { params } = await address(run)
  await show(run, await call(run, api.getServerDatabase, { params }))
}

export const createDatabase: Action = async (run) => {
  const { id: serverId } = await subjectOf(run, SUBJECT)
  await show(run, await call(run, api.createServerDatabase, { params: { serverId }, body: await fieldsOf(run) }))
}

export const rotateDatabase: Action = async (run) => {
  const { params } = await address(run)
  const body = run.args.flag('force') ? { force: true } : {}
  await show(run, await call(run, api.rotateServerDatabase, { params, body }))
}

export const adoptDatabase: Action = async (run) => {
  const { params, name } = await address(run)
  await run.prompt.confirm(`Take over the database ${name}, so that it goes with its server from now on?`)
  await show(run, await call(run, api.adoptServerDatabase, { params }))
}

export const deleteDatabase: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { params, name } = await address(run)
    const drop = run.args.flag('drop')
    const only = drop ? ', also where the panel does not manage it' : ''
    await run.prompt.confirmName(`Delete the database ${name} and all its data${only}?`, name)
    const query = drop ? { drop: 'true' } : {}
    const { dropped } = await call(run, api.deleteServerDatabase, { params, query })
    if (run.out.machine) await run.out.value({ id: params.databaseId, deleted: true, dropped })
    else
      run.notice(dropped ? `deleted ${name}` : `forgot ${name}, which stays on its host: the panel does not manage it`)
  })
}

function show(run: Run, row: api.ServerDatabase): Promise<void> {
  return run.out.item(masked(run, row), VIEW)
}

/** Screens are looked at by others too, and outputs are kept: the password is there only for who asks for it. */
function masked(run: Run, row: api.ServerDatabase): api.ServerDatabase {
  return run.args.flag('show-password') || row.password === null ? row : { ...row, password: SECRET_MASK }
}

async function address(run: Run): Promise<{ params: { serverId: string; databaseId: string }; name: string }> {
  const { id: serverId } = await subjectOf(run, SUBJECT)
  const { id: databaseId, name } = await databaseOf(run, serverId, run.args.required('database'))
  return { params: { serverId, databaseId }, name }
}

async function databaseOf(run: Run, serverId: string, word: string): Promise<Named> {
  // A whole id needs no look-up, and so no database.read.
  if (isAnId(word, 'db')) return { id: word, name: word }
  const client = await run.client()
  const found: Named[] = []
  for (let page = 1; ; page++) {
    const answer = await client.page(api.listServerDatabases, { params: { serverId }, query: { limit: 100, page } })
    for (const { id, name } of answer.data) {
      if (name === word) return { id, name }
      if (beginsId(id, 'db', word)) found.push({ id, name })
    }
    if (!hasNextPage(answer.pagination, answer.data.length)) break
  }
  const [only] = found
  if (only !== undefined && found.length === 1) return only
  if (found.length > 1) throw new CliFailure('AMBIGUOUS_NAME', `'${word}' begins the ids of ${found.length} databases`)
  const hint = 'panel databases list <server>'
  throw new CliFailure('NOT_FOUND', `this server has no database '${word}'`, { hint })
}
