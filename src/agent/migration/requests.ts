import * as migration from '../../shared/protocol/migration.ts'
import type { PullConfig } from '../files/pull-ports.ts'
import type { Bulk } from '../link/bulk.ts'
import { onRequest, type RequestHandler } from '../link/request-handler.ts'
import type { ServerTable } from '../server/commands.ts'
import { knownServer } from '../server/known-server.ts'
import { listServers } from './directory.ts'
import { pullFiles } from './pull.ts'
import type { MigrationSteps } from './steps.ts'

/** What the answers to requests of moves between panels are made from. */
export interface MigrationRequestDeps {
  readonly servers: ServerTable
  readonly bulk: Bulk
  readonly migrations: MigrationSteps
  /** Folders with servers of another panel. */
  readonly migrationRoots: readonly string[]
  readonly pull: PullConfig
  readonly dataDir: string
}

/** The requests of moves between panels. */
export function migrationRequests({
  servers,
  bulk,
  migrations,
  migrationRoots,
  pull,
  dataDir,
}: MigrationRequestDeps): readonly RequestHandler[] {
  const directories = { roots: migrationRoots, dataDir }
  return [
    onRequest(migration.pullFiles, ({ stepId, serverId, ...what }, watch) => {
      const server = knownServer(servers, serverId)
      const work = { bulk, pull, directories }
      return migrations.pull({ stepId, serverId }, (options) => pullFiles(server, what, options, work), watch)
    }),
    onRequest(migration.askFiles, ({ stepId }) => migrations.ask(stepId)),
    onRequest(migration.verifyFiles, ({ stepId, mode }, watch) => migrations.check(stepId, mode, watch)),
    onRequest(migration.placeFiles, async ({ serverId, ...what }, watch) => ({
      placed: await migrations.place(knownServer(servers, serverId), what, watch),
    })),
    onRequest(migration.wipeFiles, async ({ stepId }, { progress }) => ({
      wiped: await migrations.wipe(stepId, progress),
    })),
    onRequest(migration.listDirectory, (what, watch) => listServers(directories, { ...what, ...watch })),
  ]
}
