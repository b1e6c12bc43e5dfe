import { getMe } from '../../../shared/api/auth.ts'
import { type EffectivePermission, getEffectivePermissions } from '../../../shared/api/effective-permissions.ts'
import type { Action } from '../../kit/command.ts'
import { column, type View } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'

type Source = EffectivePermission['sources'][number]

const VIEW: View<EffectivePermission> = {
  id: (row) => row.permission,
  name: (row) => row.permission,
  columns: [
    column('PERMISSION', (row) => row.permission),
    column('ALLOWED', (row) => row.allowed),
    column('BECAUSE', (row) => row.sources.map(reason).join('; ')),
    column('WITHHELD BY', (row) => (row.cutBy === null ? null : `key ${row.cutBy.name}`)),
  ],
}

/** `panel permissions explain`: all that somebody may do with the reasons, or one permission; exit 5 when it is not held. */
export const explain: Action = async (run) => {
  const permission = run.args.word('permission')
  const rows = await effective(run, permission)
  const [only] = rows
  if (permission === undefined || only === undefined) {
    await run.out.list(rows, VIEW)
    return 0
  }
  await run.out.item(only, VIEW)
  return only.allowed ? 0 : 5
}

/** What the panel says about one permission, or about all that are held. */
export async function effective(run: Run, permission: string | undefined): Promise<EffectivePermission[]> {
  const { args } = run
  const user = args.text('user')
  const userId =
    user === undefined ? (await (await run.client()).call(getMe)).id : (await resolve(run, 'user', user)).id
  const query: Record<string, string> = permission === undefined ? {} : { permission }
  for (const [flag, field, ref] of [
    ['server', 'serverId', 'server'],
    ['node', 'nodeId', 'node'],
    ['key', 'keyId', 'apiKey'],
  ] as const) {
    const word = args.text(flag)
    if (word !== undefined) query[field] = (await resolve(run, ref, word)).id
  }
  return (await call(run, getEffectivePermissions, { params: { userId }, query })).permissions
}

/** One reason in words. */
export function reason({ kind, id, roleName, as, expiresAt }: Source): string {
  const end = expiresAt === null ? '' : ` until ${expiresAt}`
  switch (kind) {
    case 'role':
      return `role ${roleName} has ${as}`
    case 'owner':
      return 'owner of the server'
    case 'grant':
      return `grant ${id}${end}`
    case 'assignment':
      return `the node is assigned to ${roleName === null ? 'the user' : `role ${roleName}`} (${id})${end}`
  }
}
