import { getApiKey } from '../../../shared/api/api-keys.ts'
import { getMe } from '../../../shared/api/auth.ts'
import { ApiKeyId } from '../../../shared/kernel/ids.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { writePrivateFile } from '../../kit/profile/files.ts'
import { call, subjectOf } from '../../kit/resource/actions.ts'
import { makeSuccessor, overlapOf, retire } from './successor.ts'

/** Prints the new key alone on stdout, or keeps it in a file that only its owner reads. */
export const rotateApiKey: Action = async (run) => {
  const overlapMs = overlapOf(run)
  const { id } = await subjectOf(run, { ref: 'apiKey', param: 'keyId', word: 'key' })
  const old = await call(run, getApiKey, { params: { keyId: ApiKeyId.parse(id) } })
  const me = await call(run, getMe, { params: {} })
  if (old.userId !== me.id) throw usage(`the key belongs to ${old.user.username}: a new one would belong to you`)
  const made = await makeSuccessor(run, old)
  const file = run.args.text('out-file')
  if (file !== undefined) await writePrivateFile(file, `${made.key}\n`)
  const oldEnds = await retire(run, old, overlapMs)
  const { key, ...rest } = made
  if (run.out.machine)
    return run.out.value({ ...rest, ...(file === undefined ? { key } : {}), oldKeyId: old.id, oldEnds })
  if (file === undefined) await run.out.text(`${key}\n`)
  const where = file === undefined ? 'it is shown this once' : `it is in ${file}`
  run.notice(
    `${made.name} has a new key (${made.id}), ${where}; the old one ${oldEnds === null ? 'is revoked' : `works until ${oldEnds}`}`,
  )
}
