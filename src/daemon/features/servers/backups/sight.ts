import { grants } from '../../../../shared/kernel/permissions.ts'
import { type Holder, serverPermissions } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import { isHeld } from './held.ts'
import type { Sight } from './view.ts'

/** What somebody sees of the backups of a server. */
export async function sightOf(at: At, holder: Holder, serverId: string): Promise<Sight> {
  return { files: !(await isHeld(at, holder, serverId)), databases: await seesDatabases(at, holder, serverId) }
}

/** The same of the backups of all servers, for those whose right to them is panel-wide. */
export function sightOfAll(holder: Holder): Sight {
  return { files: true, databases: grants(holder.permissions, 'database.read') }
}

/** Whether somebody may know the databases of a server, and so their dumps. */
export async function seesDatabases(at: At, holder: Holder, serverId: string): Promise<boolean> {
  return (await serverPermissions(at, holder, serverId, ['database.read'])).length > 0
}
