import { sql } from 'kysely'
import type { DesiredState } from '../../../../shared/kernel/server-life.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import { jsonStatement, statement } from '../../../db/statement.ts'
import type { CommandRow } from '../../../gateway/handlers.ts'
import type { ServerRow } from './rows.ts'
import type { LifeRow } from './view.ts'

const STATE_COLUMNS = [
  'server.id', 'server.generation', 'server.desired', 'server.deletingAt', 'server.archivedAt', 'server.suspendedAt',
  'server.activity', 'server.power', 'server.crashed', 'server.failed', 'server.reason', 'server.crashCount', 'server.pid',
  'server.installed', 'server.lastExitCode', 'server.lastExitSignal', 'server.lastExitCause', 'server.lastExitReason',
  'server.nextRestartAt',
] as const // biome-ignore format: columns

/** What the event of a state says, and what shows that there is one. */
export type StateRow = LifeRow &
  Pick<
    ServerRow,
    | 'id' | 'generation' | 'desired' | 'reason' | 'crashCount' | 'pid' | 'installed' | 'lastExitCode' | 'lastExitSignal'
    | 'lastExitCause' | 'lastExitReason' | 'nextRestartAt'
  > // biome-ignore format: columns

/** What a report of a server is compared with. */
export type ObservedRow = StateRow &
  Pick<
    ServerRow,
    'uuid' | 'lastKnownPower' | 'observedGeneration' | 'observedAt' | 'startedAt' | 'lastCrashAt' | 'eula'
  > & {
    /** Whether an order is under way that says what is wanted; an edit does not. */
    readonly hasOpenOrder: number
  }

const OPEN_ORDER = sql<number>`exists (
  select 1 from command where command.server_id = server.id and command.node_id = server.node_id
    and command.op <> 'apply' and command.ended_at is null
)`

/** Those of the servers with these ids (as JSON) that the node has. */
export const observedRows = jsonStatement((q, { nodeId, ids }: { nodeId: string; ids: string }) =>
  observed(q)
    .where('server.id', 'in', sql<string>`(select value from json_each(${ids}))`)
    .where('server.nodeId', '=', nodeId),
)

/** All that the node has. */
export const observedRowsOfNode = jsonStatement((q, { nodeId }: { nodeId: string }) =>
  observed(q).where('server.nodeId', '=', nodeId),
)

function observed(q: Queries) {
  return q
    .selectFrom('server')
    .select(STATE_COLUMNS)
    .select([
      'server.uuid', 'server.lastKnownPower', 'server.observedGeneration', 'server.observedAt', 'server.startedAt',
      'server.lastCrashAt', 'server.eula', OPEN_ORDER.as('hasOpenOrder'),
    ]) // biome-ignore format: columns
}

type Observed = Pick<
  ObservedRow,
  | 'power' | 'lastKnownPower' | 'activity' | 'installed' | 'failed' | 'crashed' | 'crashCount' | 'reason'
  | 'observedGeneration' | 'startedAt' | 'pid' | 'lastExitCode' | 'lastExitSignal' | 'lastExitCause' | 'lastExitReason'
  | 'lastCrashAt' | 'nextRestartAt' | 'eula' | 'desired' | 'id'
> & { readonly now: IsoTime } // biome-ignore format: columns

/** Writes what was observed of a server. */
export const writeObserved = statement((q, seen: Observed) =>
  q
    .updateTable('server')
    .set({
      power: seen.power,
      lastKnownPower: seen.lastKnownPower,
      activity: seen.activity,
      installed: seen.installed,
      failed: seen.failed,
      crashed: seen.crashed,
      crashCount: seen.crashCount,
      reason: seen.reason,
      observedGeneration: seen.observedGeneration,
      startedAt: seen.startedAt,
      pid: seen.pid,
      lastExitCode: seen.lastExitCode,
      lastExitSignal: seen.lastExitSignal,
      lastExitCause: seen.lastExitCause,
      lastExitReason: seen.lastExitReason,
      lastCrashAt: seen.lastCrashAt,
      nextRestartAt: seen.nextRestartAt,
      eula: seen.eula,
      desired: seen.desired,
      observedAt: seen.now,
    })
    .where('id', '=', seen.id),
)

/** These servers (ids as JSON) were observed as they were, unless that is known of a later time. */
export const touchObserved = statement((q, { ids, at }: { ids: string; at: IsoTime }) =>
  q
    .updateTable('server')
    .set({ observedAt: at })
    .where('id', 'in', sql<string>`(select value from json_each(${ids}))`)
    .where((on) => on.or([on('observedAt', 'is', null), on('observedAt', '<', at)])),
)

/** An end of a command, as the agent reports it. */
interface CommandEnd {
  readonly commandId: string
  readonly ok: boolean
  readonly noop: boolean
  readonly error: unknown
  /** Its acceptance is not written yet. */
  readonly isAccepted?: boolean | undefined
}

/** A command that has got its end. `rests`: 1 where its server is at rest although it is to run ({@link settleAtRest}), unless another order is under way. */
export type EndedRow = Pick<CommandRow, 'id' | 'op' | 'serverId' | 'args'> & { readonly rests: 1 | null }

/** Writes the ends of commands of this node, which have none yet; answers those. Of two ends of one command one counts. */
export async function endCommands(
  q: Queries,
  { nodeId, ends, now }: { readonly nodeId: string; readonly ends: readonly CommandEnd[]; readonly now: IsoTime },
): Promise<EndedRow[]> {
  const ids = JSON.stringify(ends.map(({ commandId }) => commandId))
  const open = await openCommands(q, { nodeId, ids })
  if (open.length === 0) return []
  const rows = ends.map(({ commandId, ok, noop, error, isAccepted = false }) => [
    commandId,
    ok ? 'done' : 'failed',
    error === null ? null : JSON.stringify(error),
    noop ? 1 : 0,
    isAccepted ? 1 : 0,
  ])
  await updateEnded(q, { nodeId, rows: JSON.stringify(rows), now })
  return open
}

const STOPPED: DesiredState = 'stopped'

/** Of a server that is at rest in its newest generation. */
const AT_REST = sql<boolean>`observed_generation >= generation and power = ${'offline'} and activity is null and crashed = 0 and next_restart_at is null`

const openCommands = statement((q, { nodeId, ids }: { nodeId: string; ids: string }) => ({
  compile: () =>
    sql<EndedRow>`
      select id, op, server_id, args,
        (select 1 from "server" where "server".id = "command".server_id and desired <> ${STOPPED} and ${AT_REST}) as rests
      from "command"
      where id in (select value from json_each(${ids})) and +node_id = ${nodeId} and ended_at is null`.compile(q),
}))

const updateEnded = statement<{ nodeId: string; rows: string; now: IsoTime }, never>((q, { nodeId, rows, now }) => ({
  compile: () =>
    sql<never>`
      update "command"
      set state = given.value ->> 1, error = given.value ->> 2, noop = given.value ->> 3, ended_at = ${now},
        accepted_at = coalesce(accepted_at, iif(given.value ->> 4, ${now}, null))
      from json_each(${rows}) as given
      where "command".id = given.value ->> 0 and +node_id = ${nodeId} and ended_at is null`.compile(q),
}))

/** What is wanted of these servers (ids as JSON) becomes what is, where one rests in its newest generation and no order is under way; answers those. */
export const settleAtRest = statement((q, { ids }: { ids: string }) =>
  q
    .updateTable('server')
    .set({ desired: STOPPED })
    .where('id', 'in', sql<string>`(select value from json_each(${ids}))`)
    .where('desired', '<>', STOPPED)
    .where(AT_REST)
    .where(sql<boolean>`not ${OPEN_ORDER}`)
    .returning(STATE_COLUMNS),
)
