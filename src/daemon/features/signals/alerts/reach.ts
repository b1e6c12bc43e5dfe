import type { AlertScope } from '../../../../shared/api/alerts.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants, type Permission } from '../../../../shared/kernel/permissions.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Caller } from '../../../access/caller.ts'
import { serverPermissions } from '../../../access/permit.ts'
import { type At, heldAssignments } from '../../../access/relations.ts'
import type { AlertRow } from './alert-rows.ts'

/**
 * The alerts that a list shows to somebody: all, or those of the servers with these ids together with those of his rules
 * and of the servers that he has a share in (`only`: of those as far as his key reaches; `null`: it does not reach so far).
 */
export type AlertReach =
  | 'all'
  | {
      readonly ids: readonly string[]
      readonly related: {
        readonly userId: string
        readonly now: IsoTime
        readonly everyNode: boolean
        readonly only: readonly string[] | null
      } | null
    }

const PREFIX = 'alert.read:'

/** What the caller may see, or of that his own part. Asking for all without the right to see all is refused. */
export async function alertReach(at: At, caller: Caller, scope: AlertScope | undefined): Promise<AlertReach> {
  const all = grants(caller.permissions, 'alert.read') || grants(caller.permissions, 'admin.read')
  if (scope === 'all' && !all) throw denied('alert.read')
  if (all && scope !== 'mine') return 'all'
  const ids = idsIn(caller.permissions)
  const only = reachOfKey(caller)
  if (only !== null && only.length === 0) return { ids, related: null }
  const everyNode = (await heldAssignments(at, caller.userId, [])).length > 0
  return { ids, related: { userId: caller.userId, now: at.now, everyNode, only } }
}

/** The servers whose alerts the caller's key reaches; `null`: all that its owner may see, or there is no key. */
export function reachOfKey({ scope }: Pick<Caller, 'scope'>): readonly string[] | null {
  return scope === null || grants(scope, 'alert.read') ? null : idsIn(scope)
}

/** Whether the caller may do that with this alert: by its server, as an administrator, or, but for its deletion, as whom it is for. */
export async function mayOnAlert(
  at: At,
  caller: Caller,
  { serverId, userId }: Pick<AlertRow, 'serverId' | 'userId'>,
  permission: Permission,
): Promise<boolean> {
  if (grants(caller.permissions, permission)) return true
  if (grants(caller.permissions, permission === 'alert.read' ? 'admin.read' : 'admin.write')) return true
  if (serverId !== null && (await serverPermissions(at, caller, serverId, [permission])).length > 0) return true
  const reaches = caller.scope === null || grants(caller.scope, permission)
  if (!reaches || userId !== caller.userId || permission === 'alert.delete') return false
  return permission === 'alert.read' || serverId === null
}

function idsIn(held: ReadonlySet<string>): string[] {
  return [...held].flatMap((text) =>
    text.startsWith(PREFIX) && !text.endsWith('*') ? [text.slice(PREFIX.length)] : [],
  )
}

/** The refusal of somebody who sees it and may not do that. */
export function denied(permission: Permission): PanelError {
  return new PanelError('PERMISSION_DENIED', `This needs the permission ${permission}`, {
    meta: { missing: [permission] },
  })
}
