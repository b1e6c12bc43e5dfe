import { createHash } from 'node:crypto'
import * as api from '../../../../shared/api/profile.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { type Done, operationsOver, transact } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import type { Context } from '../../../http/route.ts'
import { avatarUrl, readAvatar, removeAvatar, writeAvatar } from './avatar-rows.ts'
import type { AccountDeps } from './deps.ts'
import { wholeUser } from './whole-user.ts'

const MIB = 1024 * 1024

/** Stores the picture of the account: it is read, bounded and looked at before the transaction. */
export async function setAvatar(
  deps: AccountDeps,
  input: Input<typeof api.setAvatar>,
  context: Context<typeof api.setAvatar>,
) {
  wholeUser(context)
  const { principal } = context
  const limit = Math.min(api.AVATAR_MAX_BYTES, deps.settings.get('files.maxUploadMb') * MIB)
  const content = await collect(input.body.content, limit)
  const contentType = kindOf(content)
  if (contentType === undefined) throw fieldError('body.file', 'must be a JPEG, PNG, GIF or WebP picture')
  const tag = createHash('sha256').update(content).digest('hex').slice(0, 16)
  return transact(writePicture({ contentType, tag, content }), { deps, principal, input })
}

/** The picture of an account, as a file. */
export async function getAvatar(
  deps: AccountDeps,
  { params }: Input<typeof api.getAvatar>,
  context: Context<typeof api.getAvatar>,
) {
  const picture = await readAvatar(deps.db.read, params.userId)
  if (picture === undefined) {
    const user = await deps.db.read.selectFrom('user').select('id').where('id', '=', params.userId).executeTakeFirst()
    if (user === undefined) return context.fail('USER_NOT_FOUND', `There is no account ${params.userId}`)
    return context.fail('NOT_FOUND', 'This account has no picture')
  }
  const { contentType, content } = picture
  return { contentType, fileName: `avatar.${contentType.slice('image/'.length)}`, content: once(content) }
}

const operation = operationsOver<AccountDeps>()

/** The picture has come, and been looked at, before the transaction. */
const writePicture = (picture: Parameters<typeof writeAvatar>[2]) =>
  operation(api.setAvatar, async (work) => {
    const { tx } = work
    const { userId } = wholeUser(work)
    const isNew = await writeAvatar(tx, userId, picture)
    const answer = { image: (await avatarUrl(tx.q, userId)) ?? '' }
    if (!isNew) return { answer }
    const { contentType, content } = picture
    return { answer, ...(await pictureChange(tx, userId, { contentType, bytes: content.length })) }
  })

export const deleteAvatar = operation(api.deleteAvatar, async (work) => {
  const { tx } = work
  const { userId } = wholeUser(work)
  if (!(await removeAvatar(tx.q, userId))) return { answer: null }
  return { answer: null, ...(await pictureChange(tx, userId, { removed: true })) }
})

async function pictureChange(tx: Tx, userId: string, details: Record<string, unknown>): Promise<Done> {
  const { username } = await tx.q
    .selectFrom('user')
    .select('username')
    .where('id', '=', userId)
    .executeTakeFirstOrThrow()
  const data = { userId, username, updatedBy: userId, change: 'avatar' }
  return { audit: { resourceId: userId, details }, events: [{ type: 'user_updated', data }] }
}

async function collect(content: AsyncIterable<Uint8Array>, limit: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of content) {
    bytes += piece.length
    if (bytes > limit) {
      throw new PanelError('PAYLOAD_TOO_LARGE', `The picture is larger than ${limit} bytes`, {
        meta: { maxBytes: limit },
      })
    }
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** What the content is by its first bytes; what the client calls it counts for nothing. */
function kindOf(content: Uint8Array): string | undefined {
  const head = Buffer.from(content.subarray(0, 12)).toString('latin1')
  if (head.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (head.startsWith('GIF87a') || head.startsWith('GIF89a')) return 'image/gif'
  return head.startsWith('RIFF') && head.slice(8) === 'WEBP' ? 'image/webp' : undefined
}

async function* once(content: Uint8Array): AsyncGenerator<Uint8Array> {
  yield content
}
