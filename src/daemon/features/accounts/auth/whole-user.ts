import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Caller } from '../../../access/caller.ts'
import { type Context, callerOf } from '../../../http/route.ts'

/**
 * The caller, unless it is a key with fewer rights than its user: by a password or session it would get them all, and how its
 * user signs in is none of its business.
 */
export function wholeUser(context: Pick<Context, 'caller'>): Caller {
  const caller = callerOf(context)
  if (caller.scope === null || caller.scope.has('*')) return caller
  throw new PanelError('PERMISSION_DENIED', 'This needs a session, or an API key with all permissions of its user', {
    meta: { missing: ['*'] },
  })
}
