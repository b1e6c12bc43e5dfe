import * as api from '../../../shared/api/backups.ts'
import type { Endpoint } from '../../../shared/kernel/contract.ts'
import { CliFailure } from '../../kit/failure.ts'
import { subjectOf } from '../../kit/resource/actions.ts'
import { beginsId, isAnId } from '../../kit/resource/id.ts'
import { hasNextPage } from '../../kit/resource/next-page.ts'
import type { Named } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

export const SERVER = { ref: 'server', param: 'serverId' } as const

/** A backup of a server, as its endpoints take it. */
export interface Address {
  readonly params: { readonly serverId: string; readonly backupId: string }
  readonly server: Named
  readonly name: string
}

/** The backup that the words `server` and `backup` mean. */
export async function address(run: Run): Promise<Address> {
  const server = await subjectOf(run, SERVER)
  const { id: backupId, name } = await backupOf(run, server.id, run.args.required('backup'))
  return { params: { serverId: server.id, backupId }, server, name }
}

/**
 * A backup of a server by its id, the beginning of that, its name, or `latest`: the newest one that is whole. Of several by one name the
 * newest is not meant: they need not be alike.
 */
async function backupOf(run: Run, serverId: string, word: string): Promise<Named> {
  if (isAnId(word, 'bak')) return { id: word, name: word }
  const client = await run.client()
  if (word === 'latest') {
    const query = { limit: 1, page: 1, status: 'completed' as const }
    const { data } = await client.page<Endpoint>(api.listBackups, { params: { serverId }, query })
    const [newest] = data as api.Backup[]
    if (newest !== undefined) return newest
    throw new CliFailure('NOT_FOUND', 'this server has no backup that is whole', {
      hint: 'panel backups create <server>',
    })
  }
  const named: Named[] = []
  const begun: Named[] = []
  for (let page = 1; ; page++) {
    const answer = await client.page<Endpoint>(api.listBackups, { params: { serverId }, query: { limit: 100, page } })
    const rows = answer.data as api.Backup[] // parsed by that endpoint's own schema
    for (const { id, name } of rows) {
      if (name === word) named.push({ id, name })
      else if (beginsId(id, 'bak', word)) begun.push({ id, name })
    }
    if (!hasNextPage(answer.pagination, rows.length)) break
  }
  return only(named.length > 0 ? named : begun, word, 'panel backups list <server>')
}

/** A backup of any server, or of none that is there, by its id, the beginning of that, or its name. */
export async function anyBackup(run: Run, word: string): Promise<Named> {
  if (isAnId(word, 'bak')) return { id: word, name: word }
  const query = { limit: 100, page: 1, orphaned: 'true', search: word }
  const { data } = await (await run.client()).page<Endpoint>(api.listAllBackups, { params: {}, query })
  const rows = data as api.Backup[] // parsed by that endpoint's own schema
  const exact = rows.filter(({ name }) => name === word)
  const found = exact.length > 0 ? exact : rows.filter(({ id }) => beginsId(id, 'bak', word))
  return only(found, word, 'panel backups orphans list')
}

function only(found: readonly Named[], word: string, hint: string): Named {
  const [one] = found
  if (one !== undefined && found.length === 1) return one
  if (one === undefined) throw new CliFailure('NOT_FOUND', `there is no backup '${word}'`, { hint })
  const list = found.slice(0, 8).map(({ id, name }) => `${name} (${id})`)
  throw new CliFailure('AMBIGUOUS_NAME', `'${word}' means ${found.length} backups: ${list.join(', ')}`, {
    hint: 'use the id',
  })
}
