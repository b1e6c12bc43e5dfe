import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Capability } from '../../../../shared/protocol/define.ts'
import { RuntimeReport } from '../../../../shared/protocol/node.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import type { ServerRow } from './rows.ts'
import { statusOf, usageOf, type ViewFacts } from './view.ts'

/** When a change is in force: at once, or something of it from the next start on. */
export type AppliesAt = 'now' | 'next-start'

/** What is asked about the node of a server that is given other sizes. */
export interface ResizeDeps {
  readonly facts: Pick<ViewFacts, 'usage' | 'observed'>
  /** Whether a node is connected whose agent can do this. */
  readonly can: (nodeId: string, capability: Capability) => boolean
}

/** Columns that no run goes by. */
const AT_ONCE: ReadonlySet<string> = new Set([
  'name', 'description', 'diskMb', 'databaseAllocation', 'restartPolicy', 'maxCrashCount', 'bootPolicy', 'startOrder',
]) // biome-ignore format: columns
/** Columns that are put in force for what runs, where its node can. */
const SIZES: ReadonlySet<string> = new Set(['memoryMb', 'cpuCores', 'swapMb'])

type Changed = Readonly<Record<string, { readonly after: unknown }>>

/**
 * When these changes of columns are in force, as far as is known of the node; its agent says in the end of the order how it went. Refuses
 * less memory than what runs uses now, where the limit would be in force at once.
 */
export async function whenApplied(
  { tx, deps }: { readonly tx: Tx; readonly deps: ResizeDeps },
  stored: ServerRow,
  changed: Changed,
): Promise<AppliesAt> {
  const row = deps.facts.observed(stored)
  const waiting = Object.keys(changed).filter((column) => !AT_ONCE.has(column))
  if (waiting.length === 0 || (row.power === 'offline' && row.activity === null)) return 'now'
  const sizes = waiting.filter((column) => SIZES.has(column))
  if (sizes.length > 0 && !(await canResize({ tx, deps }, row))) return 'next-start'
  const { after } = changed['memoryMb'] ?? {}
  if (typeof after === 'number') refuseBelowUse(row, after, deps)
  return sizes.length === waiting.length ? 'now' : 'next-start'
}

async function canResize({ tx, deps }: { tx: Tx; deps: ResizeDeps }, row: ServerRow): Promise<boolean> {
  if (!deps.can(row.nodeId, 'server-life@1')) return false
  const node = await tx.q.selectFrom('node').select('runtimes').where('id', '=', row.nodeId).executeTakeFirst()
  const reports = node === undefined ? [] : parseJson(RuntimeReport.array(), node.runtimes)
  const { limits = 'unknown' } = reports.find(({ name }) => name === row.runtime) ?? {}
  return limits === 'cgroup-v1' || limits === 'cgroup-v2'
}

function refuseBelowUse(row: ServerRow, memoryMb: number, { facts }: ResizeDeps): void {
  const usedMb = usageOf(row, facts).memoryUsageMb
  if (memoryMb >= row.memoryMb || usedMb === null || usedMb <= memoryMb) return
  const used = Math.ceil(usedMb)
  throw new PanelError(
    'SERVER_MUST_BE_STOPPED',
    `${row.name} uses ${used} MiB of memory now, more than ${memoryMb} MiB: with that limit it would be ended at once. ` +
      'Stop it first, or give it more',
    { meta: { currentStatus: statusOf(row), usedMemoryMb: used, wantedMemoryMb: memoryMb } },
  )
}

/**
 * Refuses a smaller disk limit that is below what the server uses by its node's last report: it would be stopped for it, or fail at its
 * next write. Refused as well while a node that is there has not counted yet; of one that is away nobody knows, and nothing is refused.
 */
export function refuseDiskBelowUse(
  row: ServerRow,
  diskMb: number,
  { facts, isOnline }: Pick<ResizeDeps, 'facts'> & { readonly isOnline: (nodeId: string) => boolean },
): void {
  const usedMb = usageOf(row, facts).diskUsageMb
  if (diskMb >= row.diskMb || (usedMb !== null && usedMb <= diskMb)) return
  const allocatedDiskMb = row.diskMb
  if (usedMb === null) {
    if (!isOnline(row.nodeId)) return
    const message = `How much the server uses is not counted yet, so its limit of ${allocatedDiskMb} MiB cannot become less: try again in a minute`
    throw new PanelError('CONFLICT', message, { meta: { diskUsageMb: null, allocatedDiskMb } })
  }
  const used = Math.ceil(usedMb)
  throw new PanelError(
    'CONFLICT',
    `The server uses ${used} MiB of its ${allocatedDiskMb} MiB: its limit cannot become ${diskMb} MiB before files are removed`,
    { meta: { diskUsageMb: used, allocatedDiskMb } },
  )
}
