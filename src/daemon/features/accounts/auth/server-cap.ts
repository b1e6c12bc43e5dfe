import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type FilePaths, isWithinPaths } from '../../../../shared/kernel/file-paths.ts'
import { grants, type Permission } from '../../../../shared/kernel/permissions.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { memberPaths } from '../../../access/member-paths.ts'
import { type Holder, serverPermissions } from '../../../access/permit.ts'
import { type At, type Source, serverSources } from '../../../access/relations.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import { refuseMissing } from './grant-cap.ts'

/** What somebody wants to pass on for one server. */
export interface ServerGift {
  readonly serverId: string
  readonly permissions: readonly Permission[]
  /** Which files it shall reach; `null`: all. */
  readonly filePaths: FilePaths | null
  /** When it shall end; `null`: not at all. */
  readonly expiresAt: IsoTime | null
}

/**
 * Refuses with PERMISSION_DENIED what the caller does not hold on the server themselves, and what would outlast their own right:
 * a right that ends can only be passed on with an end.
 */
export async function ensureMayGive(at: At, caller: Holder, gift: ServerGift): Promise<void> {
  const held = new Set(await serverPermissions(at, caller, gift.serverId, gift.permissions))
  refuseMissing(gift.permissions.filter((permission) => !held.has(permission)))
  await ensureReaches(at, caller, gift)
  const byRole = await rolePermissions(at.q, caller.userId)
  const related = gift.permissions.filter((permission) => !grants(byRole, permission, gift.serverId))
  if (related.length === 0) return
  refuseLonger(await serverSources(at, caller.userId, gift.serverId), related, gift.expiresAt)
}

/** Refuses with PERMISSION_DENIED what reaches more files than the caller, who is held to patterns of paths, may have. */
export async function ensureReaches(
  at: At,
  caller: Holder,
  { serverId, permissions, filePaths }: Omit<ServerGift, 'expiresAt'>,
): Promise<void> {
  if (!permissions.some((permission) => permission.startsWith('file.') || permission.startsWith('backup.'))) return
  const own = await memberPaths(at, caller, serverId)
  if (isWithinPaths(filePaths, own)) return
  const { allow, deny } = own ?? { allow: [], deny: [] }
  throw new PanelError(
    'PERMISSION_DENIED',
    'You are held to some files of this server: what you give has to allow only patterns of yours, and to deny all that you are denied',
    { meta: { missing: [], allow, deny } },
  )
}

/** Refuses an end after that of the sources by which the giver holds each of these. */
export function refuseLonger(sources: readonly Source[], permissions: readonly string[], end: IsoTime | null): void {
  for (const permission of permissions) {
    const ends = sources.flatMap((source) => (source.permissions.includes(permission) ? [source.expiresAt] : []))
    if (ends.length === 0 || ends.includes(null)) continue
    const until = ends.reduce((latest, one) => (latest !== null && one !== null && one > latest ? one : latest))
    if (until === null || (end !== null && end <= until)) continue
    throw new PanelError('PERMISSION_DENIED', `You hold ${permission} until ${until} and cannot give it for longer`, {
      meta: { missing: [permission], until },
    })
  }
}
