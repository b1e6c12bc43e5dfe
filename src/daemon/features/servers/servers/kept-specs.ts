import { setImmediate as nextTurn } from 'node:timers/promises'
import { sql } from 'kysely'
import type { ServerSpec } from '../../../../shared/protocol/server-spec.ts'
import type { Queries } from '../../../db/db.ts'
import { KeepingQueries } from '../../../db/kept-results.ts'
import { jsonStatement } from '../../../db/statement.ts'
import { definitionSight, FURTHER_PORTS, LATER, withDefinitions } from './rows.ts'
import { buildSpec, type SpecRow, type WireSpec } from './spec.ts'

/** Of all that is kept, in characters of their JSON: some thousand servers of most templates. */
const MOST_CHARS = 8 * 1024 * 1024

/** One that is longer is made anew each time. */
const LONGEST = MOST_CHARS / 16

/** So many turns of the event loop are waited for the end of a commit, before all is read instead. */
const TURNS = 3

/** All but its generation, which each command says anew. */
type Rest = Omit<ServerSpec, 'generation'>

interface Kept {
  readonly rest: Rest
  /** All behind the opening bracket. */
  readonly json: string
  readonly logMb: number
  /** When it was found to be as it was made. */
  readonly since: number
  unmoved(since: number): boolean
}

/** What a specification is made of. The columns that orders and reports change are not among them, so that it stays as it is when those come. */
const specRows = jsonStatement(
  (q, { ids }: { ids: string }) =>
    q
      .selectFrom('server')
      .innerJoin('allocation', 'allocation.id', 'server.allocationId')
      .leftJoin('ipPoolAddress', (join) =>
        join.onRef('ipPoolAddress.serverId', '=', 'server.id').onRef('ipPoolAddress.ip', '=', 'allocation.ip'),
      )
      .leftJoin('ipPool', 'ipPool.id', 'ipPoolAddress.poolId')
      .select([
        'server.id', 'server.uuid', 'server.name', 'server.templateId', 'server.runtime', 'server.memoryMb', 'server.cpuCores',
        'server.diskMb', 'server.swapMb', 'server.cpuSet', 'server.ioWeight', 'server.image', 'server.environment',
        'server.startupCommand', 'server.startupName', 'server.mounts', 'server.restartPolicy', 'server.maxCrashCount',
        'server.suspendedAt', 'server.bootPolicy', 'server.startOrder', 'server.stopTimeoutSeconds', 'server.timeZone',
        'server.pinnedTemplate', 'allocation.ip', 'allocation.port', 'ipPool.networkName',
        LATER.as('templateDefinition'), LATER.as('currentDefinition'),
      ]) // biome-ignore format: columns
      .select(FURTHER_PORTS)
      .where('server.id', 'in', sql<string>`(select value from json_each(${ids}))`),
  { keepsTo: ({ ids }) => ({ table: 'server', ids: JSON.parse(ids) as string[] }) }, // made of such below
)

/**
 * Specifications of servers as their agents get them, with their JSON. Most commands are given to servers of which nothing has changed since the command
 * before but what the command itself is about: what was made then is what is made now.
 */
export class KeptSpecs {
  readonly #logMb: () => number
  /** By the ids of servers; that which was used longest ago comes first. */
  readonly #kept = new Map<string, Kept>()
  #chars = 0

  /** `logMb`: how much of each console agents keep. */
  constructor(logMb: () => number) {
    this.#logMb = logMb
  }

  /** What makes the specifications of those of these servers that are there, each of which throws where that cannot be made of what is stored. */
  async of(q: Queries, ids: readonly string[]): Promise<Map<string, (generation: number) => WireSpec>> {
    const logMb = this.#logMb()
    const since = q instanceof KeepingQueries ? await settledMoment(q) : undefined
    const specs = new Map<string, (generation: number) => WireSpec>()
    for (const id of since === undefined ? [] : ids) {
      const kept = this.#kept.get(id)
      if (kept === undefined) continue
      this.#forget(id, kept)
      if (kept.logMb !== logMb || !kept.unmoved(kept.since)) continue
      this.#keep(id, kept) // at the end
      specs.set(id, (generation) => atGeneration(kept, generation))
    }
    const missing = ids.filter((id) => !specs.has(id))
    if (missing.length === 0) return specs
    for (const row of await withDefinitions(q, await specRows(q, { ids: JSON.stringify(missing) }))) {
      let made: Pick<Kept, 'rest' | 'json'> | undefined
      specs.set(row.id, (generation) => {
        made ??= this.#make(q, row, { logMb, since })
        return atGeneration(made, generation)
      })
    }
    return specs
  }

  #make(
    q: Queries,
    row: SpecRow,
    { logMb, since }: { readonly logMb: number; readonly since: number | undefined },
  ): Pick<Kept, 'rest' | 'json'> {
    const { generation: _, ...rest } = buildSpec(row, { generation: 0, logMb })
    const json = JSON.stringify(rest).slice(1)
    if (since === undefined || !(q instanceof KeepingQueries) || json.length > LONGEST) return { rest, json }
    const server = serverSight(q, [row.id])
    const template = definitionSight(q, row.templateId)
    const unmoved = (then: number): boolean => server.unmoved(then) && template.unmoved(then)
    if (server.moment() !== undefined && unmoved(since)) this.#keep(row.id, { rest, json, logMb, since, unmoved })
    return { rest, json }
  }

  #keep(id: string, kept: Kept): void {
    const before = this.#kept.get(id)
    if (before !== undefined) this.#forget(id, before)
    this.#kept.set(id, kept)
    this.#chars += kept.json.length
    for (const [oldest, one] of this.#kept) {
      if (this.#chars <= MOST_CHARS) break
      this.#forget(oldest, one)
    }
  }

  #forget(id: string, { json }: Kept): void {
    this.#kept.delete(id)
    this.#chars -= json.length
  }
}

function serverSight(q: KeepingQueries, ids: readonly string[]): ReturnType<KeepingQueries['sightOf']> {
  return q.sightOf(specRows.sql(), { keepsTo: { table: 'server', ids } })
}

/** The present moment; what is on disk and has not been heard of is waited for, as it is so in a moment. */
async function settledMoment(q: KeepingQueries): Promise<number | undefined> {
  const { moment } = serverSight(q, [])
  let now = moment()
  for (let turn = 0; turn < TURNS && now === undefined; turn++) {
    await nextTurn()
    now = moment()
  }
  return now
}

function atGeneration({ rest, json }: Pick<Kept, 'rest' | 'json'>, generation: number): WireSpec {
  return { spec: { generation, ...rest }, json: `{"generation":${generation},${json}` }
}
