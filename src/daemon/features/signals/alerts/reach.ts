import type { AlertScope } from '../../../../shared/api/alerts.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants, type Permission } from '../../../../shared/kernel/permissions.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Caller } from '../../../access/caller.ts'
import { type Holder, serverPermissions } from '../../../access/permit.ts'
import { type At, heldAssignments } from '../../../access/relations.ts'
import type { AlertRow } from './alert-rows.ts'

/**
 * The alerts that a list shows to somebody: all, or those of the servers with these ids together with those of their rules
 * and of the servers that they have a share in (`only`: of those as far as their key reaches; `null`: it does not reach so far).
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

/** What the caller may see, or of that their own part. Asking for all without the right to see all is refused. */
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

/** Whether the holder may do that with this alert: by its server, as an administrator, or, but for its deletion, as whom it is for. */
export async function mayOnAlert(
  at: At,
  holder: Holder,
  { serverId, userId }: Pick<AlertRow, 'serverId' | 'userId'>,
  permission: Permission,
): Promise<boolean> {
  if (grants(holder.permissions, permission)) return true
  if (grants(holder.permissions, permission === 'alert.read' ? 'admin.read' : 'admin.write')) return true
  if (serverId !== null && (await serverPermissions(at, holder, serverId, [permission])).length > 0) return true
  const reaches = holder.scope === null || grants(holder.scope, permission)
  if (!reaches || userId !== holder.userId || permission === 'alert.delete') return false
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
