import type { z } from 'zod'
import type { ServerPatch } from '../../../../shared/api/servers.ts'
import type { NewTemplate } from '../../../../shared/api/template-fields.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import { startupLineProblem } from '../../../../shared/kernel/startup-line.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { checkEnvironment } from '../../../../shared/templates/variable-rules.ts'
import { changes } from '../../../access/audit.ts'
import type { Done, WorkOver } from '../../../access/operation.ts'
import { type Holder, mayAsAssignee } from '../../../access/permit.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import { statement } from '../../../db/statement.ts'
import { canonicalIp } from '../../fleet/nodes/addresses.ts'
import { ensureCapacity } from '../../fleet/nodes/capacity.ts'
import type { PortLooks } from '../../fleet/nodes/port-looks.ts'
import { type AppliesAt, type ResizeDeps, refuseDiskBelowUse, whenApplied } from './applies-at.ts'
import { keptImage } from './images.ts'
import { ensureNameFree } from './names.ts'
import { finishCommand } from './observe.ts'
import { addCommand, type OrderDeps, pendingStatus, refuseSuspended } from './orders.ts'
import { moveServerPorts } from './ports.ts'
import { type ColumnEdit, findServerRow, type ServerRow, updateServerColumn } from './rows.ts'
import { definitionOf, environmentOf, withoutMasks } from './view.ts'

/** Fields that say what a server costs and where it listens: the operator's, not the owner's. */
const OPERATOR_FIELDS = [
  'allocatedMemoryMb',
  'allocatedCpuCores',
  'allocatedDiskMb',
  'allocatedSwapMb',
  'databaseAllocation',
  'cpuSet',
  'ioWeight',
  'primaryPort',
  'primaryIp',
  'allocationId',
  'startupCommand',
  'startOrder',
  'mounts',
] as const satisfies readonly (keyof ServerPatch)[]

/** Columns that are the panel's alone: no specification has them, so the node need not hear of a change. */
const PANEL_COLUMNS: ReadonlySet<string> = new Set(['description', 'databaseAllocation'])

/** What other servers of the owner, the node or its addresses have a say in. */
const OTHERS_FIELDS = [
  'name',
  'allocatedMemoryMb',
  'allocatedCpuCores',
  'primaryPort',
  'primaryIp',
  'allocationId',
] as const satisfies readonly (keyof ServerPatch)[]

type Patch = z.output<typeof ServerPatch>
type WantedColumns = Awaited<ReturnType<typeof wantedColumns>>

/** What an edit needs of the rest of the daemon. */
export type EditDeps = OrderDeps & ResizeDeps & { readonly bus: Bus; readonly portLooks: Pick<PortLooks, 'isTaken'> }

interface EditAt {
  readonly tx: Tx
  readonly clock: Clock
  readonly looks: Pick<PortLooks, 'isTaken'>
  readonly holder: Holder
}

/** An edit that may be carried out; without columns nothing changes. */
export interface EditPlan {
  readonly row: ServerRow
  readonly columns?: Readonly<Partial<WantedColumns>>
  readonly generation: number
  readonly done: Done
  readonly appliesAt: AppliesAt
}

/**
 * Edits a server; what changes how it runs reaches its node as a new specification, in force at the next start. Leaves
 * nothing when nothing changes.
 */
export async function changeServer(
  work: WorkOver<EditDeps>,
  { serverId, patch }: { readonly serverId: string; readonly patch: Patch },
): Promise<Pick<EditPlan, 'done' | 'appliesAt'>> {
  const plan = await planEdit(work, await findServerRow(work.tx.q, serverId), patch)
  await writeEdit(work, plan)
  return plan
}

/** Checks an edit and says what it writes. Only another address is taken here already ({@link needsOthers}). */
export async function planEdit(
  { tx, deps, holder, userId }: WorkOver<EditDeps>,
  row: ServerRow | undefined,
  patch: Patch,
): Promise<EditPlan> {
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  refuseSuspended(row)
  if (row.deletingAt !== null) {
    throw new PanelError('SERVER_INVALID_STATE', 'This server is being deleted', {
      meta: { currentStatus: 'deleting', allowed: [] },
    })
  }
  refuseStartupLine(patch.startupCommand)
  const before = comparable(row)
  const columns = await wantedColumns({ tx, clock: deps.clock, looks: deps.portLooks, holder }, row, patch)
  refuseStartupName(definitionOf(row), { ...row, ...columns })
  const changedColumns = changes(before, columns)
  if (changedColumns === undefined) return { row, generation: row.generation, done: {}, appliesAt: 'now' }
  await refuseOperatorFields({ tx, row, holder, patch }, changedColumns)
  if (patch.name !== undefined && patch.name !== row.name)
    await ensureNameFree(tx, { ownerId: row.ownerId, name: patch.name })
  const changed = byFieldName(changedColumns)
  const { memoryMb, cpuCores, diskMb } = { ...row, ...columns }
  refuseDiskBelowUse(row, diskMb, deps)
  const appliesAt = await whenApplied({ tx, deps }, row, changedColumns)
  if (memoryMb > row.memoryMb || cpuCores > row.cpuCores) {
    const node = await tx.q.selectFrom('node').selectAll().where('id', '=', row.nodeId).executeTakeFirstOrThrow()
    // Only what grows: a node that was made smaller keeps what it has given, and takes no offence at it.
    const growing = {
      memoryMb: memoryMb > row.memoryMb ? memoryMb : 0,
      cpuCores: cpuCores > row.cpuCores ? cpuCores : 0,
    }
    await ensureCapacity(tx, node, growing, row.id)
  }
  const isForNode = Object.keys(changedColumns).some((column) => !PANEL_COLUMNS.has(column))
  const generation = isForNode ? row.generation + 1 : row.generation
  const data = { updatedBy: userId, change: Object.keys(changed).join(',') }
  const done: Done = {
    audit: { resourceId: row.id, details: maskEnvironment(changed, row) },
    events: [{ type: 'server_updated', serverId: row.id, data }],
  }
  return { row, columns, generation, done, appliesAt }
}

/** Writes what was planned. */
export async function writeEdit(
  work: Pick<WorkOver<EditDeps>, 'tx' | 'deps'>,
  { row, columns, generation }: EditPlan,
): Promise<void> {
  if (columns === undefined) return
  await work.tx.q
    .updateTable('server')
    .set({ ...columns, generation, updatedAt: work.tx.now })
    .where('id', '=', row.id)
    .execute()
  await specify(work, { row, generation })
}

/** Writes what was planned of different servers, none of which {@link needsOthers}: the edits of one and the same column together. */
export async function writeEdits(
  work: Pick<WorkOver<EditDeps>, 'tx' | 'deps'>,
  plans: readonly EditPlan[],
): Promise<void> {
  const byColumn = new Map<string, ColumnEdit[]>()
  for (const plan of plans) {
    const [[column, value] = [], ...more] = Object.entries(plan.columns ?? {})
    if (column === undefined || value === undefined) continue
    if (more.length > 0) {
      await writeEdit(work, plan)
      continue
    }
    const edits = byColumn.get(column) ?? []
    edits.push({ id: plan.row.id, value, generation: plan.generation })
    byColumn.set(column, edits)
  }
  const { tx } = work
  for (const [column, edits] of byColumn) await updateServerColumn(tx.q, { column, edits, now: tx.now })
  for (const plan of plans) if (Object.keys(plan.columns ?? {}).length === 1) await specify(work, plan)
}

/** What changes how the server runs goes to its node. */
async function specify(
  { tx, deps }: Pick<WorkOver<EditDeps>, 'tx' | 'deps'>,
  { row, generation }: Pick<EditPlan, 'row' | 'generation'>,
): Promise<void> {
  if (generation === row.generation) return
  await replaceQueuedApplies(tx, deps.bus, row)
  await addCommand(tx, deps, { row, generation, op: 'apply', args: {} })
}

/** Whether an edit is checked against more than its server, or takes something before it is written: a name, a share of the node, an address. */
export function needsOthers(patch: Patch): boolean {
  return OTHERS_FIELDS.some((field) => patch[field] !== undefined)
}

/** Refuses a startup line of a server's own in which the place of a value cannot be known. */
export function refuseStartupLine(line: string | null | undefined): void {
  const problem = startupLineProblem(line ?? '')
  if (problem !== undefined) throw fieldError('body.startupCommand', problem)
}

/** Refuses a startup line by a name that the template does not have, and one beside a line of the server's own. */
export function refuseStartupName(
  { startupCommands }: Pick<NewTemplate, 'startupCommands'>,
  { startupName: wanted, startupCommand }: Pick<Patch, 'startupName' | 'startupCommand'>,
): void {
  if (wanted === undefined || wanted === null) return
  if (!startupCommands.some(({ name }) => name === wanted)) {
    const names = startupCommands.map(({ name }) => name).join(', ')
    throw fieldError('body.startupName', `must be one of the template's: ${names === '' ? 'it has none' : names}`)
  }
  if (typeof startupCommand === 'string') throw fieldError('body.startupName', 'and startupCommand exclude each other')
}

async function wantedColumns(at: EditAt, row: ServerRow, patch: Patch) {
  const allocationId = await movedAllocation(at, row, patch)
  return {
    ...(patch.name === undefined ? {} : { name: patch.name }),
    ...(patch.description === undefined ? {} : { description: patch.description }),
    ...(patch.startupCommand === undefined ? {} : { startupCommand: patch.startupCommand }),
    ...(patch.startupName === undefined ? {} : { startupName: patch.startupName }),
    ...(patch.allocatedMemoryMb === undefined ? {} : { memoryMb: patch.allocatedMemoryMb }),
    ...(patch.allocatedCpuCores === undefined ? {} : { cpuCores: patch.allocatedCpuCores }),
    ...(patch.allocatedDiskMb === undefined ? {} : { diskMb: patch.allocatedDiskMb }),
    ...(patch.allocatedSwapMb === undefined ? {} : { swapMb: patch.allocatedSwapMb }),
    ...(patch.databaseAllocation === undefined ? {} : { databaseAllocation: patch.databaseAllocation }),
    ...(patch.cpuSet === undefined ? {} : { cpuSet: patch.cpuSet }),
    ...(patch.ioWeight === undefined ? {} : { ioWeight: patch.ioWeight }),
    ...(patch.image === undefined ? {} : { image: keptImage(row, patch.image) }),
    ...(patch.restartPolicy === undefined ? {} : { restartPolicy: patch.restartPolicy }),
    ...(patch.maxCrashCount === undefined ? {} : { maxCrashCount: patch.maxCrashCount }),
    ...(patch.bootPolicy === undefined ? {} : { bootPolicy: patch.bootPolicy }),
    ...(patch.startOrder === undefined ? {} : { startOrder: patch.startOrder }),
    ...(patch.stopTimeoutSeconds === undefined ? {} : { stopTimeoutSeconds: patch.stopTimeoutSeconds }),
    ...(patch.timeZone === undefined ? {} : { timeZone: patch.timeZone }),
    ...(patch.environment === undefined
      ? {}
      : { environment: JSON.stringify(wantedEnvironment(row, patch.environment, at.holder)) }),
    ...(patch.mounts === undefined ? {} : { mounts: JSON.stringify(patch.mounts) }),
    ...(allocationId === undefined ? {} : { allocationId }),
  }
}

/** Names that are not given keep their value; the mask of a secret means unchanged. */
function wantedEnvironment(row: ServerRow, given: Record<string, string>, holder: Holder): Record<string, string> {
  const existing = environmentOf(row)
  const { variables } = definitionOf(row)
  const changed = withoutMasks(given, variables)
  refuseFixedVariables(holder, variables, changed, existing)
  const { environment, problems } = checkEnvironment(variables, changed, { existing })
  if (problems.length > 0)
    throw new PanelError('VALIDATION_ERROR', 'Some variables are not valid', { details: problems })
  return environment
}

/** Variables that the template keeps from the server's members are the operator's. */
export function refuseFixedVariables(
  holder: Holder,
  variables: NewTemplate['variables'],
  given: Readonly<Record<string, string>>,
  existing: Readonly<Record<string, string>>,
): void {
  if (grants(holder.permissions, 'admin.write')) return
  const fixed = variables.filter(
    ({ name, userEditable, default: value }) =>
      !userEditable && Object.hasOwn(given, name) && given[name] !== (existing[name] ?? value),
  )
  if (fixed.length === 0) return
  const names = fixed.map(({ name }) => name).join(', ')
  throw new PanelError('PERMISSION_DENIED', `Setting ${names} needs admin.write`, {
    meta: { missing: ['admin.write'] },
  })
}

async function movedAllocation(
  { tx, clock, looks, holder }: EditAt,
  row: ServerRow,
  patch: Patch,
): Promise<string | undefined> {
  // Who sends a server back as it was shown names its allocation without asking for another one.
  const allocationId = patch.allocationId === row.allocationId ? undefined : patch.allocationId
  const ip = wantedIp(row, patch.primaryIp)
  const port = patch.primaryPort ?? row.port
  const elsewhere = ip !== row.ip || port !== row.port
  if (allocationId === undefined && !elsewhere) return undefined
  await refuseOperatorFields({ tx, row, holder, patch }, { allocationId: true })
  if (allocationId !== undefined && elsewhere) {
    throw fieldError('body.allocationId', 'and another primaryPort or primaryIp exclude each other')
  }
  await refuseUnlessStopped(tx, row, 'Stop the server before you give it another address')
  const wanted = allocationId === undefined ? { ip, port } : { allocationId }
  const field = allocationId === undefined ? 'body.primaryPort' : 'body.allocationId'
  return (await moveServerPorts({ tx, clock, looks, row, field }, wanted)).id
}

/** A start that is on its way, and a restart that is due after a crash, would still take the old address. */
export async function refuseUnlessStopped(tx: Tx, row: ServerRow, message: string): Promise<void> {
  const currentStatus = await pendingStatus(tx, row)
  if (row.power === 'offline' && currentStatus !== 'starting' && row.nextRestartAt === null) return
  throw new PanelError('SERVER_MUST_BE_STOPPED', message, { meta: { currentStatus } })
}

/** `null`: the address that the node gives by default. */
function wantedIp(row: ServerRow, requested: Patch['primaryIp']): string {
  if (requested === undefined) return row.ip
  return requested === null ? row.nodeDefaultIp : (canonicalIp(requested) ?? requested)
}

/** Who has the node assigned may say what its servers cost; a startup line of its own stays the administrators'. */
async function refuseOperatorFields(
  { tx, row, holder, patch }: { tx: Tx; row: ServerRow; holder: Holder; patch: Patch },
  changed: Readonly<Record<string, unknown>>,
): Promise<void> {
  if (grants(holder.permissions, 'admin.write')) return
  const column: Partial<Record<keyof Patch, string>> = {
    allocatedMemoryMb: 'memoryMb',
    allocatedCpuCores: 'cpuCores',
    allocatedDiskMb: 'diskMb',
    allocatedSwapMb: 'swapMb',
    primaryPort: 'allocationId',
    primaryIp: 'allocationId',
  }
  const touched = OPERATOR_FIELDS.filter((field) => patch[field] !== undefined && (column[field] ?? field) in changed)
  if (touched.length === 0) return
  const isOfNode = !touched.includes('startupCommand') && !touched.includes('mounts')
  if (isOfNode && (await mayAsAssignee({ q: tx.q, now: tx.now }, holder, row.nodeId, 'server.create'))) return
  throw new PanelError('PERMISSION_DENIED', `Changing ${touched.join(', ')} needs admin.write`, {
    meta: { missing: ['admin.write'] },
  })
}

/** What the API calls the columns that are named differently in the database. */
const FIELD_OF: Readonly<Record<string, string>> = {
  memoryMb: 'allocatedMemoryMb',
  cpuCores: 'allocatedCpuCores',
  diskMb: 'allocatedDiskMb',
  swapMb: 'allocatedSwapMb',
}

/** The changes as people made them: audit rows and events name fields of the API. */
function byFieldName<T>(changed: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(changed).map(([column, value]) => [FIELD_OF[column] ?? column, value]))
}

function comparable(row: ServerRow): Record<string, unknown> {
  const { name, description, startupCommand, memoryMb, cpuCores, diskMb, swapMb, restartPolicy, maxCrashCount } = row
  const { environment, allocationId, databaseAllocation, bootPolicy, startOrder, stopTimeoutSeconds, timeZone } = row
  const { startupName, cpuSet, ioWeight, image, mounts } = row
  return {
    name, description, startupCommand, memoryMb, cpuCores, diskMb, swapMb, restartPolicy, maxCrashCount, environment, allocationId,
    databaseAllocation, bootPolicy, startOrder, stopTimeoutSeconds, timeZone, startupName, cpuSet, ioWeight, image, mounts,
  } // biome-ignore format: columns
}

/** The newest specification is all that a node needs: older ones that have not left yet end here. */
export async function replaceQueuedApplies(tx: Tx, bus: Bus, row: ServerRow): Promise<void> {
  const replaced = await queuedApplies(tx.q, { nodeId: row.nodeId, serverId: row.id })
  for (const { id: commandId } of replaced) {
    await finishCommand(tx, bus, row.nodeId, { commandId, ok: true, noop: true, error: null })
  }
}

const queuedApplies = statement((q, { nodeId, serverId }: { nodeId: string; serverId: string }) =>
  q
    .selectFrom('command')
    .select('id')
    .where('nodeId', '=', nodeId)
    .where('serverId', '=', serverId)
    .where('op', '=', 'apply')
    .where('state', '=', 'queued')
    .where('endedAt', 'is', null),
)

/** Variables may hold secrets: the audit row names those that changed, and the values of those that are none. */
function maskEnvironment(
  changed: Record<string, { before: unknown; after: unknown }>,
  row: ServerRow,
): Record<string, unknown> {
  const { environment, ...rest } = changed
  if (environment === undefined) return rest
  const secret = new Set(definitionOf(row).variables.flatMap((variable) => (variable.secret ? [variable.name] : [])))
  const before = environmentOf(row)
  const after = environmentOf({ environment: String(environment.after) })
  const values = changes(before, after) ?? {}
  const shown = Object.entries(values).map(([name, value]) => [name, secret.has(name) ? SECRET_MASK : value])
  return { ...rest, environment: Object.fromEntries(shown) }
}
