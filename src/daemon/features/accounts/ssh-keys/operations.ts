import * as api from '../../../../shared/api/ssh-keys.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Credentials } from '../../../access/caller.ts'
import { type OperationDeps, operationsOver } from '../../../access/operation.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import type { Context } from '../../../http/route.ts'
import { wholeUser } from '../auth/whole-user.ts'
import { readPublicKey } from './public-key.ts'
import { sshKeyView } from './view.ts'

/** What SSH keys of accounts need. */
export interface SshKeyDeps extends OperationDeps {
  readonly clock: Clock
  readonly credentials: Credentials
}

/** One account has at most so many. */
const MOST = 50

/** One page of the keys of the caller, newest first. */
export async function listSshKeys(
  { db }: SshKeyDeps,
  { query }: Input<typeof api.listSshKeys>,
  context: Context<typeof api.listSshKeys>,
) {
  const own = db.read.selectFrom('sshKey').where('userId', '=', wholeUser(context).userId)
  const total = await countRows(db.read, own)
  const rows = await own.selectAll().orderBy('id', 'desc').limit(query.limit).offset(offsetOf(query)).execute()
  return { items: rows.map(sshKeyView), total }
}

const operation = operationsOver<SshKeyDeps>()

export const addSshKey = operation(api.addSshKey, async (work, { body }) => {
  const { tx, deps, fail } = work
  const { userId } = wholeUser(work)
  const key = readPublicKey(body.publicKey)
  if (typeof key === 'string') throw fieldError('body.publicKey', key)
  const { fingerprint, type, text } = key
  const own = tx.q.selectFrom('sshKey').where('userId', '=', userId)
  const known = await own.select('name').where('fingerprint', '=', fingerprint).executeTakeFirst()
  if (known !== undefined) fail('SSH_KEY_EXISTS', `You have this key already, as ${known.name}`)
  if ((await countRows(tx.q, own)) >= MOST) {
    fail('SSH_KEY_LIMIT_REACHED', `An account has at most ${MOST} SSH keys; delete one that you no longer use`)
  }
  const name = body.name ?? (key.comment === '' ? type : key.comment)
  const row = {
    ...{ id: newId('ssk', deps.clock), userId, name, type, publicKey: text, fingerprint },
    isReadOnly: body.readOnly ? (1 as const) : (0 as const),
    createdAt: tx.now,
    lastUsedAt: null,
  }
  await tx.q.insertInto('sshKey').values(row).execute()
  const details = { keyId: row.id, name, type, fingerprint, readOnly: body.readOnly }
  return { answer: sshKeyView(row), audit: { resourceId: userId, details } }
})

export const deleteSshKey = operation(api.deleteSshKey, async (work, { params: { sshKeyId } }) => {
  const { tx, deps, fail } = work
  const { userId } = wholeUser(work)
  const gone = await tx.q
    .deleteFrom('sshKey')
    .where('id', '=', sshKeyId)
    .where('userId', '=', userId)
    .returning(['id', 'name', 'fingerprint'])
    .executeTakeFirst()
  if (gone === undefined) return fail('SSH_KEY_NOT_FOUND', `You have no SSH key ${sshKeyId}`)
  tx.onCommit(() => deps.credentials.changed())
  const { id, name, fingerprint } = gone
  return { answer: null, audit: { resourceId: userId, details: { keyId: id, name, fingerprint } } }
})
