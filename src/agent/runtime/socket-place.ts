import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { PrivateFolder } from '../../shared/platform/private-folder.ts'

/**
 * The path of a server's control socket: in `<data>/run`, which only this user can enter. However long it is, it is reached
 * through the open folder, so that no other place is needed, which somebody else could make first.
 */
export function socketPath(dataDir: string, serverId: string): string {
  const folder = PrivateFolder.make(join(dataDir, 'run'))
  folder.close()
  return join(folder.path, `${createHash('sha256').update(serverId).digest('hex').slice(0, 16)}.sock`)
}
