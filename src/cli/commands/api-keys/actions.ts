import * as api from '../../../shared/api/api-keys.ts'
import type { Action } from '../../kit/command.ts'
import { column, type View, view } from '../../kit/output/view.ts'
import { writePrivateFile } from '../../kit/profile/files.ts'
import { call, deleted, editAction, ignoringNotFound, viewAction } from '../../kit/resource/actions.ts'
import { forEach } from '../../kit/resource/bulk.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolveAll } from '../../kit/resource/resolve.ts'
import { API_KEY_VIEW } from './view.ts'

const SUBJECT = { ref: 'apiKey', param: 'keyId', word: 'key' } as const

export const listApiKeys = listAction(api.listApiKeys, API_KEY_VIEW, async ({ args }) => {
  const enabled = args.choice('enabled')
  return { query: { ...(args.flag('mine') ? { mine: true } : {}), ...(enabled === undefined ? {} : { enabled }) } }
})
export const viewApiKey = viewAction(api.getApiKey, SUBJECT, API_KEY_VIEW)
export const editApiKey = editAction(api.updateApiKey, SUBJECT, API_KEY_VIEW)

/** Prints the key alone on stdout, or keeps it in a file that only its owner reads. */
export const createApiKey: Action = async (run) => {
  const made = await call(run, api.createApiKey, { params: {}, body: await fieldsOf(run) })
  const file = run.args.text('out-file')
  if (file !== undefined) {
    await writePrivateFile(file, `${made.key}\n`)
    const { key: _, ...rest } = made
    if (run.out.machine) return run.out.value(rest)
    return run.notice(`the key ${made.name} (${made.id}) is in ${file}`)
  }
  if (run.out.machine) return run.out.value(made)
  await run.out.text(`${made.key}\n`)
  run.notice(`the key ${made.name} (${made.id}); it is shown this once`)
}

export const revokeApiKeys: Action = async (run) => {
  let code = 0
  await ignoringNotFound(run, async () => {
    const keys = await resolveAll(run, 'apiKey', run.args.words('key'))
    await run.prompt.confirm(`Revoke ${keys.map(({ name }) => name).join(', ')}?`)
    code = await forEach(run, keys, async (key) => {
      await call(run, api.deleteApiKey, { params: { keyId: key.id } })
      await deleted(run, key)
    })
  })
  return code
}

type Usage = {
  totalRequests: number
  remaining: number | null
  lastUsed: string | null
  rateLimit: { max: number; windowMs: number }
}

const USAGE: View<Usage> = {
  id: () => '',
  name: () => '',
  columns: [
    column('REQUESTS', (row) => row.totalRequests),
    column('REMAINING', (row) => row.remaining),
    column('LIMIT', (row) => `${row.rateLimit.max} in ${row.rateLimit.windowMs / 1000} s`),
    column('USED', (row) => ({ time: row.lastUsed })),
  ],
}

export const apiKeyUsage = viewAction(api.getApiKeyUsage, SUBJECT, USAGE)

interface PermissionRow {
  readonly id: string
  readonly name: string
  readonly category: string
  readonly label: string
}

const PERMISSIONS = view<PermissionRow>([
  column('PERMISSION', (row) => row.name),
  column('CATEGORY', (row) => row.category),
  column('MEANING', (row) => row.label),
])

export const listPermissions: Action = async (run) => {
  const catalog = await call(run, api.getPermissionsCatalog, { params: {} })
  const mine = run.args.flag('mine') ? new Set(await call(run, api.getMyPermissions, { params: {} })) : undefined
  const category = run.args.text('category')
  const rows = catalog
    .filter(({ id }) => category === undefined || id === category)
    .flatMap(({ id: group, permissions }) => {
      return permissions.map(({ value, label }) => ({ id: value, name: value, category: group, label }))
    })
  await run.out.list(mine === undefined ? rows : rows.filter(({ id }) => mine.has(id) || mine.has('*')), PERMISSIONS)
}
