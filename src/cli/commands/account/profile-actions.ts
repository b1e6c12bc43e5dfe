import { basename } from 'node:path'
import { resendVerification } from '../../../shared/api/account-recovery.ts'
import { getMe } from '../../../shared/api/auth.ts'
import * as api from '../../../shared/api/profile.ts'
import type { Data } from '../../../shared/kernel/contract.ts'
import { UserId } from '../../../shared/kernel/ids.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { cellOf, column, type View, view, wide } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { parsePair, readBytes } from '../../kit/read-file.ts'
import { call } from '../../kit/resource/actions.ts'
import { saveFile } from '../../kit/resource/download.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { resolve } from '../../kit/resource/resolve.ts'

const PROFILE: View<api.Profile> = {
  id: (row) => row.id,
  name: (row) => row.username,
  columns: [
    column('USERNAME', (row) => row.username),
    column('NAME', (row) => row.name),
    column('EMAIL', (row) => row.email),
    column('CONFIRMED', (row) => row.emailVerified),
    column('PASSWORD', (row) => row.hasPassword),
    column('TWO-FACTOR', (row) => row.twoFactorEnabled),
    column('LAST SIGN-IN', (row) => ({ time: row.lastSuccessfulLogin })),
    column('FAILED SIGN-INS', (row) => row.failedLoginAttempts),
    column('PICTURE', (row) => row.image),
    column('ID', (row) => row.id),
    wide('CREATED', (row) => ({ time: row.createdAt })),
  ],
}

const CHANGED: View<Data<typeof api.updateProfile>> = {
  id: (row) => row.id,
  name: (row) => row.username,
  columns: [
    column('USERNAME', (row) => row.username),
    column('FIRST NAME', (row) => row.firstName),
    column('LAST NAME', (row) => row.lastName),
  ],
}

interface Preference {
  readonly id: string
  readonly name: string
  readonly value: unknown
}

const PREFERENCES = view<Preference>([
  column('PREFERENCE', (row) => row.name),
  column('VALUE', (row) => cellOf(row.value)),
])

export const viewProfile: Action = async (run) => {
  await run.out.item(await call(run, api.getProfile, { params: {} }), PROFILE)
}

export const editProfile: Action = async (run) => {
  const body = await fieldsOf(run)
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel profile edit --help')
  const changed = await call(run, api.updateProfile, { params: {}, body })
  if (run.out.machine) return run.out.value(changed)
  await run.out.item(changed, CHANGED)
}

/** Shows the preferences, after `--set` and `--unset`. */
export const preferences: Action = async (run) => {
  const set = Object.fromEntries(run.args.list('set').map((text) => parsePair(text, '--set')))
  const unset = Object.fromEntries(run.args.list('unset').map((name) => [name, null]))
  const body = {
    ...Object.fromEntries(Object.entries(set).map(([name, text]) => [name, preferenceOf(text)])),
    ...unset,
  }
  const now =
    Object.keys(body).length === 0
      ? (await call(run, api.getProfile, { params: {} })).preferences
      : await call(run, api.updatePreferences, { params: {}, body })
  if (run.out.machine) return run.out.value(now)
  const rows = Object.entries(now).map(([name, value]) => ({ id: name, name, value }))
  await run.out.list(rows, PREFERENCES)
}

export const setAvatar: Action = async (run) => {
  const path = run.args.required('file')
  const content = await readBytes(path)
  const body = { fileName: basename(path), contentType: 'application/octet-stream', content: once(content) }
  const { image } = await call(run, api.setAvatar, { params: {}, body })
  if (run.out.machine) return run.out.value({ image })
  run.notice(`your picture is at ${image}`)
}

export const deleteAvatar: Action = async (run) => {
  await call(run, api.deleteAvatar, { params: {} })
  run.notice('your picture is removed')
}

export const downloadAvatar: Action = async (run) => {
  const word = run.args.text('user')
  const client = await run.client()
  const id = word === undefined ? (await client.call(getMe)).id : (await resolve(run, 'user', word)).id
  const userId = UserId.parse(id)
  await saveFile(run, () => client.file(api.getAvatar, { params: { userId } }))
}

export const exportProfile: Action = async (run) => {
  await saveFile(run, async () => (await run.client()).file(api.exportProfile))
}

export const deleteAccount: Action = async (run) => {
  const { username } = await call(run, api.getProfile, { params: {} })
  await run.prompt.confirmName(`Delete your account ${username} for good?`, username)
  const currentPassword = await readSecret({ name: 'password', question: 'Password:' }, run)
  await call(run, api.deleteAccount, { params: {}, body: { confirm: 'DELETE', currentPassword } })
  run.notice(`the account ${username} is deleted`)
}

export const resendConfirmation: Action = async (run) => {
  await call(run, resendVerification, { params: {} })
  run.notice('a mail is on its way, unless your address is confirmed already')
}

/** `true`, `false` and numbers are what they look like; all else is text. */
function preferenceOf(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?\d{1,15}(\.\d+)?$/.test(text) ? Number(text) : text
}

async function* once(content: Uint8Array): AsyncGenerator<Uint8Array> {
  yield content
}
