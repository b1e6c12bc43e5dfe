import { realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { lieTogether, partsOf } from '../../shared/protocol/mounts.ts'
import type { BackupsConfig } from '../config.ts'
import { AgentFailure } from '../failure.ts'
import { codeOf } from '../files/folder-handle.ts'
import type { AgentLayout } from '../state/layout.ts'
import type { BackupFolders } from './stores.ts'

/**
 * The folders of local stores. Throws BAD_REQUEST for one among the folders of servers: their members and games would read, change and
 * delete backups there, and each backup would hold those before it.
 */
export function backupFolders(
  { dataDir, serversDir }: AgentLayout,
  { folder, folders = {} }: BackupsConfig = {},
): BackupFolders {
  const written = { ...(folder === undefined ? {} : { 'backups.folder': folder }) }
  const named = Object.entries(folders).map(([name, path]) => [`backups.folders.${name}`, path] as const)
  for (const [setting, path] of [...Object.entries(written), ...named]) {
    if (!liesIn(realPath(serversDir), realPath(path))) continue
    const message = `${setting}: ${path} is among the folders of servers (${serversDir}); backups lie outside of them`
    throw new AgentFailure('BAD_REQUEST', message)
  }
  return { folder: folder ?? join(dataDir, 'backups'), isOwn: folder === undefined, named: folders }
}

function liesIn(folder: string, path: string): boolean {
  return lieTogether(folder, path) && partsOf(path).length >= partsOf(folder).length
}

/** Without links, also of what is not there yet. */
function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || path === dirname(path)) throw error
    return join(realPath(dirname(path)), basename(path))
  }
}
