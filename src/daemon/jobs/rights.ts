import { grants } from '../../shared/kernel/permissions.ts'
import { type Holder, serverPermissions } from '../access/permit.ts'
import type { At } from '../access/relations.ts'
import type { Needs } from './job-type.ts'
import type { JobRow } from './rows.ts'

/** The rights that a user has now, within what this API key of theirs may do; `undefined`: account or key are gone or banned. */
export type HolderOf = (at: At, userId: string, apiKeyId: string | null) => Promise<Holder | undefined>

/** Why the person behind a job may not go on with it, as a sentence; `undefined`: they may. */
export async function refusalFor(
  at: At,
  row: JobRow,
  { needs, holderOf }: { readonly needs: Needs | undefined; readonly holderOf: HolderOf },
): Promise<string | undefined> {
  if (row.principal === 'panel') return undefined
  const holder = row.userId === null ? undefined : await holderOf(at, row.userId, row.apiKeyId)
  if (holder === undefined) return 'The account or API key that started this job is gone, disabled or banned'
  if (needs === undefined) return undefined
  if ('panel' in needs) {
    return grants(holder.permissions, needs.panel) ? undefined : missing([needs.panel])
  }
  const held = await serverPermissions(at, holder, needs.server, needs.permissions)
  const lacking = needs.permissions.filter((permission) => !held.includes(permission))
  return lacking.length === 0 ? undefined : missing(lacking)
}

function missing(permissions: readonly string[]): string {
  return `Whoever started this job no longer has the permission ${permissions.join(' and ')}`
}
