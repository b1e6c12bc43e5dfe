import type { BackedUpDatabase } from '../../../../shared/api/backups.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { BACKUP_LIMITS } from '../../../../shared/protocol/backups.ts'
import {
  databasesOfServer,
  dumpDatabase,
  type KnownDatabase,
  knownDatabase,
  loadDatabase,
} from '../databases/database-copy.ts'
import type { DumpFacts } from '../databases/dump.ts'
import type { BackupDeps } from './deps.ts'
import { nodeOf } from './reach-store.ts'
import { deliver } from './reads.ts'
import type { ShownBackup } from './rows.ts'

/** Dumps that a node may fetch while it packs: each is made while it is read. */
export interface DatabaseDumps {
  readonly extras: readonly { readonly name: string; readonly ticket: string }[]
  /** What the store keeps of them, for a panel that does not know the backup. */
  readonly databases: readonly Pick<BackedUpDatabase, 'name' | 'engine'>[]
  /** What was dumped, once the node is done. */
  done(): BackedUpDatabase[]
  /** What was left out, as sentences. */
  notes(): string[]
  /** Why one of them has failed. */
  failure(): unknown
  close(): void
}

/** Offers the databases of a server to its node. */
export async function offerDumps(
  deps: BackupDeps,
  { serverId, nodeId, signal }: { readonly serverId: string; readonly nodeId: string; readonly signal: AbortSignal },
): Promise<DatabaseDumps> {
  const known = await databasesOfServer(deps, serverId)
  if (known.length > BACKUP_LIMITS.extras) {
    throw new PanelError(
      'CONFLICT',
      `A backup takes at most ${BACKUP_LIMITS.extras} databases; the server has ${known.length}`,
    )
  }
  const dumped: { readonly one: KnownDatabase; readonly facts: DumpFacts }[] = []
  let failed: unknown
  const offers = known.map((one) => {
    const offer = deps.transfers.offer(nodeId, (ending) => {
      const facts: DumpFacts = { tables: 0, rows: 0, left: [] }
      dumped.push({ one, facts })
      return noticing(dumpDatabase(deps, one, { facts, signal: AbortSignal.any([signal, ending]) }), (error) => {
        failed ??= error
      })
    })
    return { name: `${one.row.name}.sql`, ...offer }
  })
  return {
    extras: offers.map(({ name, ticket }) => ({ name, ticket })),
    databases: known.map(({ row, host }) => ({ name: row.name, engine: host.engine })),
    done: () =>
      dumped.map(({ one, facts: { tables, rows, left } }) => ({
        ...{ name: one.row.name, engine: one.host.engine, tables, rows, left: left.slice(0, 100) },
      })),
    notes: () =>
      dumped.flatMap(({ one, facts: { left } }) =>
        left.length === 0
          ? []
          : [`not in the dump of ${one.row.name}: ${left.slice(0, 5).join(', ')}${left.length > 5 ? ' and more' : ''}`],
      ),
    failure: () => failed,
    close: () => {
      for (const { close } of offers) close()
    },
  }
}

async function* noticing(
  content: AsyncIterable<Uint8Array>,
  notice: (error: unknown) => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* content
  } catch (error) {
    notice(error)
    // The node learns no more than that there is none: its daemon knows why.
    throw new PanelError('NOT_FOUND', 'The dump has failed')
  }
}

/** Brings dumps of a backup into databases, one after the other; answers what people should know. */
export async function restoreDumps(
  deps: BackupDeps,
  {
    backup,
    databases,
    signal,
    report,
  }: {
    readonly backup: ShownBackup
    readonly databases: readonly { readonly name: string; readonly databaseId: string }[]
    readonly signal: AbortSignal
    readonly report: (bytes: number) => void
  },
): Promise<string[]> {
  const nodeId = nodeOf(deps, backup, null)
  const notes: string[] = []
  for (const { name, databaseId } of databases) {
    const known = await knownDatabase(deps, databaseId)
    const what = { content: 'extra', path: `${name}.sql`, compression: 'none', offset: 0, length: null } as const
    const content = await deliver(deps, { backup, nodeId, ...what, denied: [] }, { signal })
    const left = await loadDatabase(deps, known, { content, signal, report })
    notes.push(...left, `the database ${known.row.name} was restored`)
  }
  return notes
}
