import * as api from '../../../shared/api/ssh-keys.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { readInput } from '../../kit/read-file.ts'
import { call, deleted, ignoringNotFound } from '../../kit/resource/actions.ts'
import { isAnId } from '../../kit/resource/id.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Named } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

const VIEW: View<api.SshKey> = {
  id: (row) => row.id,
  name: (row) => row.name,
  columns: [
    column('NAME', (row) => row.name),
    column('TYPE', (row) => row.type),
    column('FINGERPRINT', (row) => row.fingerprint),
    column('READ ONLY', (row) => row.readOnly),
    column('USED', (row) => ({ time: row.lastUsedAt })),
    column('ID', (row) => row.id),
    wide('CREATED', (row) => ({ time: row.createdAt })),
  ],
}

export const listSshKeys = listAction(api.listSshKeys, VIEW)

export const addSshKey: Action = async (run) => {
  const publicKey = (await readInput(run.args.required('file'), run.terminal.stdin)).trim()
  const name = run.args.text('name')
  const body = { publicKey, readOnly: run.args.flag('read-only'), ...(name === undefined ? {} : { name }) }
  await run.out.item(await call(run, api.addSshKey, { params: {}, body }), VIEW)
}

export const deleteSshKey: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { id, name } = await keyOf(run)
    await run.prompt.confirm(`Delete the SSH key ${name}?`)
    await call(run, api.deleteSshKey, { params: { sshKeyId: id } })
    await deleted(run, { id, name })
  })
}

/** One's own are few: the first page has them all. */
async function keyOf(run: Run): Promise<Named> {
  const word = run.args.required('key')
  if (isAnId(word, 'ssk')) return { id: word, name: word }
  const rows = await (await run.client()).call(api.listSshKeys, { query: { limit: 100 } })
  const found = rows.filter(({ id, name, fingerprint }) => [id, name, fingerprint].includes(word))
  const [only] = found
  if (only !== undefined && found.length === 1) return { id: only.id, name: only.name }
  if (found.length > 1) throw usage(`${found.length} SSH keys have the name '${word}'; give the id`)
  throw new CliFailure('NOT_FOUND', `there is no SSH key '${word}'`, { hint: 'panel profile ssh-keys list' })
}
