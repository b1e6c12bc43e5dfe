import * as api from '../../../shared/api/passkeys.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { column, type View, wide } from '../../kit/output/view.ts'
import { call, deleted, ignoringNotFound } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { isAnId } from '../../kit/resource/id.ts'
import { listAction } from '../../kit/resource/list.ts'
import type { Named } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

const VIEW: View<api.Passkey> = {
  id: (row) => row.id,
  name: (row) => row.name ?? row.id,
  columns: [
    column('NAME', (row) => row.name),
    column('DEVICE', (row) => (row.deviceType === 'multiDevice' ? 'synchronised' : 'one device')),
    column('BACKED UP', (row) => row.backedUp),
    column('USED', (row) => ({ time: row.lastUsedAt })),
    column('ID', (row) => row.id),
    wide('TRANSPORTS', (row) => row.transports.join(' ')),
    wide('CREATED', (row) => ({ time: row.createdAt })),
  ],
}

export const listPasskeys = listAction(api.listPasskeys, VIEW)

export const renamePasskey: Action = async (run) => {
  const body = await fieldsOf(run)
  if (body['name'] === undefined) throw usage('--name is required')
  const { id } = await passkeyOf(run)
  await run.out.item(await call(run, api.renamePasskey, { params: { passkeyId: id }, body }), VIEW)
}

export const deletePasskey: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { id, name } = await passkeyOf(run)
    await run.prompt.confirm(`Delete the passkey ${name}?`)
    await call(run, api.deletePasskey, { params: { passkeyId: id } })
    await deleted(run, { id, name })
  })
}

/** One's own are few: the first page has them all. */
async function passkeyOf(run: Run): Promise<Named> {
  const word = run.args.required('passkey')
  if (isAnId(word, 'psk')) return { id: word, name: word }
  const rows = await (await run.client()).call(api.listPasskeys, { query: { limit: 100 } })
  const found = rows.filter((row) => row.id === word || row.name === word)
  const [only] = found
  if (only !== undefined && found.length === 1) return { id: only.id, name: only.name ?? only.id }
  if (found.length > 1) throw usage(`${found.length} passkeys have the name '${word}'; give the id`)
  throw new CliFailure('NOT_FOUND', `there is no passkey '${word}'`, { hint: 'panel profile passkeys list' })
}
