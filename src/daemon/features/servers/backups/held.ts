import { PanelError } from '../../../../shared/kernel/errors.ts'
import { memberPaths } from '../../../access/member-paths.ts'
import type { Holder } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'

/** Refuses what is in backups to a member who is held to some paths of the server: a backup has all files of it. */
export async function refuseHeld(at: At, holder: Holder, serverId: string): Promise<void> {
  const filePaths = await memberPaths(at, holder, serverId)
  if (filePaths === null) return
  throw new PanelError(
    'PERMISSION_DENIED',
    'Your access to this server reaches some of its files only, and a backup has all of them: ask who manages the server',
    { meta: { missing: [], allow: filePaths.allow, deny: filePaths.deny } },
  )
}
