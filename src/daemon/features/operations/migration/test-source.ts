import type { z } from 'zod'
import type { SourceTest } from '../../../../shared/api/migration.ts'
import type { MigrationDeps, SourceAccess } from './deps.ts'
import type { SourceList, SourceServer } from './source/model.ts'
import { type Source, SourceFailure, type SourceProblem } from './source/source.ts'

type Answer = z.input<typeof SourceTest>

const CODES: Readonly<Partial<Record<SourceProblem, NonNullable<Answer['errorCode']>>>> = {
  unreachable: 'UNREACHABLE',
  tls: 'UNREACHABLE',
  auth: 'REFUSED',
  denied: 'REFUSED',
  'not-a-source': 'NOT_A_PANEL',
}

const NOTHING = { nodes: [], nodesList: [], servers: [], serversList: [], missingRights: [], stats: null }

/** Somebody waits for the answer; a migration itself is more patient. */
const PATIENCE_MS = 180_000

const TOO_SLOW = new SourceFailure(
  'unreachable',
  `the source has not said within ${PATIENCE_MS / 60_000} minutes what it holds; it throttles these keys, or is too busy`,
)

/** Looks what a source holds and what its keys may do. A source that refuses, or answers too slowly, is an answer too, not a failure. */
export async function testSource(
  { openSource, clock }: Pick<MigrationDeps, 'openSource' | 'clock'>,
  { access, signal }: { readonly access: SourceAccess; readonly signal: AbortSignal },
): Promise<Answer> {
  let source: Source | undefined
  const late = new AbortController()
  const done = new AbortController()
  void clock.sleep(PATIENCE_MS, done.signal).then(() => late.abort())
  const until = AbortSignal.any([signal, late.signal])
  try {
    source = await openSource(access, until)
    return await looked(source, until)
  } catch (error) {
    signal.throwIfAborted()
    const failure = late.signal.aborted ? TOO_SLOW : error
    if (!(failure instanceof SourceFailure)) throw failure
    const { message, problem } = failure
    const kind = source?.flavor ?? null
    return { success: false, kind, version: null, ...NOTHING, error: message, errorCode: CODES[problem] ?? 'FAILED' }
  } finally {
    done.abort()
    await source?.close()
  }
}

/** None where the keys may not read them, which the probe has named. */
async function itemsOf<T>(list: Promise<SourceList<T>>): Promise<readonly T[]> {
  try {
    return (await list).items
  } catch (error) {
    if (error instanceof SourceFailure && error.problem === 'denied') return []
    throw error
  }
}

async function looked(source: Source, signal: AbortSignal): Promise<Answer> {
  const { version, missing, counts } = await source.probe(signal)
  const eggs = new Map((await itemsOf(source.eggs(signal))).map((egg) => [egg.id, egg]))
  const nests = new Map((await itemsOf(source.nests(signal))).map(({ id, name }) => [id, name]))
  const all = await itemsOf(source.servers(signal))
  const nodes = await itemsOf(source.nodes(signal))
  const names = new Map(nodes.map(({ id, name }) => [id, name]))
  const shownNodes = nodes.map(({ id, name, fqdn, memoryMb: memory }) => {
    return { id, name, fqdn, memory, serverCount: all.filter(({ nodeId }) => nodeId === id).length }
  })
  const shown = (server: SourceServer): Answer['servers'][number] => {
    const { id, uuid, name, nodeId, state, limits, featureLimits, isSuspended: suspended } = server
    const egg = eggs.get(server.eggId)
    const { memoryMb: memory, diskMb: disk, cpuPercent: cpu } = limits
    return {
      ...{ id, uuid, name, nodeId, nodeName: names.get(nodeId) ?? nodeId, state, memory, disk, cpu, suspended },
      eggName: egg?.name ?? server.eggId,
      nestName: egg === undefined ? null : (nests.get(egg.nestId) ?? null),
      backupSlots: featureLimits.backups ?? 0,
      ...{ currentBackups: null, schedules: null, databases: featureLimits.databases ?? 0 },
      subusers: server.subusers?.length ?? 0,
      hasAllocation: server.primaryAllocationId !== null,
    }
  }
  const servers = all.map(shown)
  const stats = {
    locations: counts.location ?? 0,
    nodes: nodes.length,
    nests: counts.nest ?? nests.size,
    users: counts.user ?? 0,
    servers: all.length,
  }
  return {
    ...{ success: missing.length === 0, kind: source.flavor, version, stats },
    ...{ nodes: shownNodes, nodesList: shownNodes, servers, serversList: servers },
    missingRights: [...missing],
    error: missing[0] ?? null,
    errorCode: missing.length === 0 ? null : 'REFUSED',
  }
}
