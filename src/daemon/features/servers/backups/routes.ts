import * as api from '../../../../shared/api/backups.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { operate } from '../../../http/operate.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import { findServerRow } from '../servers/rows.ts'
import type { BackupDeps } from './deps.ts'
import { audited } from './download-audit.ts'
import { backupOf } from './find.ts'
import * as operations from './operations.ts'
import * as reads from './reads.ts'
import { findShown, listShown } from './rows.ts'
import { scan } from './scan.ts'
import { toSettings } from './settings.ts'
import { sightOf, sightOfAll } from './sight.ts'
import { type Sight, shownTo } from './view.ts'

/** Backups of servers: their own, and those of all servers for hosts. */
export function backupRoutes(deps: BackupDeps): Route[] {
  const { db, stores, clock } = deps
  const known = async (serverId: string): Promise<void> => {
    if ((await findServerRow(db.read, serverId)) !== undefined) return
    throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  }
  const sight = (context: Pick<Context, 'caller'>, serverId: string): Promise<Sight> =>
    sightOf({ q: db.read, now: now(clock) }, callerOf(context), serverId)
  return [
    route(api.listBackups, async ({ params: { serverId }, query }, context) => {
      await known(serverId)
      const { rows, total } = await listShown(db.read, { ...query, serverId })
      const seen = await sight(context, serverId)
      return { items: rows.map((row) => shownTo(seen, row)), total }
    }),
    operate(operations.createBackup, deps),
    route(api.getBackup, async ({ params: { serverId, backupId } }, context) => {
      await known(serverId)
      return shownTo(await sight(context, serverId), await backupOf(db.read, serverId, backupId))
    }),
    operate(operations.updateBackup, deps),
    operate(operations.deleteBackup, deps),
    operate(operations.restoreBackup, deps),
    operate(operations.verifyBackup, deps),
    operate(operations.pruneBackups, deps),
    route(api.listBackupEntries, (input, context) => reads.entriesOf(deps, input, context)),
    route(api.downloadBackup, async (input, context) => {
      const asked = { endpoint: api.downloadBackup, principal: context.principal, ...input }
      return audited(deps, asked, await reads.download(deps, input, context))
    }),
    route(api.readBackupFile, async (input, context) => {
      const asked = { endpoint: api.readBackupFile, principal: context.principal, ...input }
      return audited(deps, asked, await reads.fileOf(deps, input, context))
    }),
    route(api.getBackupSettings, async ({ params: { serverId } }) => {
      await known(serverId)
      return await toSettings(db.read, stores, serverId)
    }),
    operate(operations.updateSettings, deps),
    route(api.listAllBackups, async ({ query }, context) => {
      const { rows, total } = await listShown(db.read, query)
      const seen = sightOfAll(callerOf(context))
      return { items: rows.map((row) => shownTo(seen, row)), total }
    }),
    route(api.getAnyBackup, async ({ params: { backupId } }, context) => {
      const row = await findShown(db.read, backupId)
      if (row === undefined) return context.fail('BACKUP_NOT_FOUND', 'There is no such backup')
      return shownTo(sightOfAll(callerOf(context)), row)
    }),
    operate(operations.deleteAnyBackup, deps),
    operate(operations.reattachBackup, deps),
    route(api.scanBackups, (input, context) => scan(deps, input, context)),
  ]
}
