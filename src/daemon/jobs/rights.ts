import { grants } from '../../shared/kernel/permissions.ts'
import { type Holder, serverPermissions } from '../access/permit.ts'
import type { At } from '../access/relations.ts'
import type { Needs } from './job-type.ts'
import type { JobRow } from './rows.ts'

/** The rights that a user has now, within what this API key of theirs may do; `undefined`: account or key are gone or banned. */
export type HolderOf = (at: At, userId: string, apiKeyId: string | null) => Promise<Holder | undefined>

/** The rights that a job's operations have, or why the person behind it may not go on with it, as a sentence. */
export type Standing = { readonly holder: Holder | undefined } | { readonly refusal: string }

/** Looks at the rights of the person behind a job as they are now; the panel's own jobs have no holder. */
export async function standingOf(
  at: At,
  row: JobRow,
  { needs, holderOf }: { readonly needs: Needs | undefined; readonly holderOf: HolderOf },
): Promise<Standing> {
  if (row.principal === 'panel') return { holder: undefined }
  const holder = row.userId === null ? undefined : await holderOf(at, row.userId, row.apiKeyId)
  if (holder === undefined)
    return { refusal: 'The account or API key that started this job is gone, disabled or banned' }
  const lacking = await missing(at, holder, needs)
  if (lacking.length === 0) return { holder }
  return { refusal: `Whoever started this job no longer has the permission ${lacking.join(' and ')}` }
}

async function missing(at: At, holder: Holder, needs: Needs | undefined): Promise<readonly string[]> {
  if (needs === undefined) return []
  if ('panel' in needs) return grants(holder.permissions, needs.panel) ? [] : [needs.panel]
  const held = await serverPermissions(at, holder, needs.server, needs.permissions)
  return needs.permissions.filter((permission) => !held.includes(permission))
}
