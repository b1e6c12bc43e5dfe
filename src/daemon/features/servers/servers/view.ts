import type { z } from 'zod'
import {
  type ListedServer,
  type SERVER_PARTS,
  SERVER_SETTINGS,
  type Server,
  type ServerPort,
} from '../../../../shared/api/servers.ts'
import type { NewTemplate } from '../../../../shared/api/template-fields.ts'
import { agentText, MOST_REASON } from '../../../../shared/kernel/agent-text.ts'
import type { Permission } from '../../../../shared/kernel/permissions.ts'
import { PRIMARY_PORT } from '../../../../shared/kernel/ports.ts'
import { type PowerState, type ServerStatus, serverStatus } from '../../../../shared/kernel/server-life.ts'
import { isLoopbackHost, SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import type { ServerMount } from '../../../../shared/protocol/mounts.ts'
import { type Holder, permissionsOnServers } from '../../../access/permit.ts'
import type { At, Rooted } from '../../../access/relations.ts'
import { frozen } from '../../../core/frozen.ts'
import type { Reading } from '../../../http/answer-cache.ts'
import { shownEula } from './eula.ts'
import { furtherPortsOf } from './further-ports.ts'
import { type Definition, LATER_FIELDS } from './later-fields.ts'
import type { ServerRow } from './rows.ts'
import type { TemplateView, TemplateViews } from './template-views.ts'
import type { CurrentUsage } from './usage.ts'

/** What a view of a server needs beside its row. */
export interface ViewFacts {
  readonly isOnline: (nodeId: string) => boolean
  readonly usage: (serverId: string) => CurrentUsage | undefined
  readonly templates: TemplateViews
  /** The row with what is known beyond it while nothing can be stored. */
  readonly observed: (row: ServerRow) => ServerRow
  /** Whether nothing is known beyond the row. */
  readonly isStored: (server: Pick<ServerRow, 'id' | 'nodeId'>) => boolean
}

/** The same for a cached answer, which lasts as long as what it has taken of them. */
export function liveFacts(facts: ViewFacts, { live }: Pick<Reading, 'live'>): ViewFacts {
  return {
    templates: facts.templates, // by what is in the row alone
    isOnline: (nodeId) => live(facts.isOnline, nodeId),
    usage: (serverId) => live(facts.usage, serverId),
    isStored: ({ id, nodeId }) => live(facts.isStored, { id, nodeId }),
    observed: (row) => {
      if (live(facts.isStored, { id: row.id, nodeId: row.nodeId })) return row
      live(Symbol) // no two are the same: nobody says when what is not stored changes
      return facts.observed(row)
    },
  }
}

/** The columns that a status is derived from. */
export type LifeRow = Pick<
  ServerRow,
  'deletingAt' | 'archivedAt' | 'suspendedAt' | 'activity' | 'power' | 'crashed' | 'failed'
>

/** The status of a stored server. */
export function statusOf(row: LifeRow, power: PowerState = row.power): ServerStatus {
  const { deletingAt, archivedAt, suspendedAt, activity } = row
  const [crashed, failed] = [row.crashed === 1, row.failed === 1]
  return serverStatus({ deletingAt, archivedAt, suspendedAt, activity, power, crashed, failed })
}

/** So many definitions are kept, and none whose text is longer. */
const MOST_KEPT = 32
const LONGEST_KEPT = 64 * 1024

/** Parsed definitions by their texts: many servers have one template, and every order and answer needs it. */
const definitions = new Map<string, Definition>()

/**
 * The definition inside a template's row; it was parsed by the contract when it was written. Fields of the contract that came after
 * that have their defaults.
 */
export function definitionOf({ templateDefinition: text }: Pick<ServerRow, 'templateDefinition'>): Definition {
  const known = definitions.get(text)
  if (known !== undefined) return known
  const definition = frozen({ ...LATER_FIELDS, ...(JSON.parse(text) as Definition) }) // see above
  if (text.length > LONGEST_KEPT) return definition
  definitions.set(text, definition)
  const [oldest] = definitions.keys()
  if (definitions.size > MOST_KEPT && oldest !== undefined) definitions.delete(oldest)
  return definition
}

/** The stored values of a server's variables; they were parsed by the contract when they were written. */
export function environmentOf(row: Pick<ServerRow, 'environment'>): Record<string, string> {
  return JSON.parse(row.environment) as Record<string, string> // see above
}

/** The mounts of a server; they were parsed by the contract when they were written. */
export function mountsOfServer({ mounts }: Pick<ServerRow, 'mounts'>): readonly ServerMount[] {
  return mounts === '[]' ? NO_MOUNTS : (JSON.parse(mounts) as ServerMount[]) // see above
}

const NO_MOUNTS = frozen<ServerMount[]>([])

/** Who looks, with what they may do with the servers that they look at. */
export interface Viewer {
  readonly caller: Holder
  readonly permissions: (server: Rooted) => Permission[]
}

/** The caller as the viewer of these servers. */
export async function viewerOf(at: At, caller: Holder, servers: readonly Rooted[]): Promise<Viewer> {
  return { caller, permissions: await permissionsOnServers(at, caller, servers) }
}

/** A server as the API answers it to this viewer; values of secret variables are masked. */
export function toServer(stored: ServerRow, { caller, permissions }: Viewer, facts: ViewFacts): z.input<typeof Server> {
  const template = facts.templates.of(stored, caller)
  const effectivePermissions = permissions(stored)
  return Object.assign(fieldsOf(stored, template, facts), { template: template.shown, effectivePermissions })
}

const NO_SETTINGS = Object.fromEntries(Object.keys(SERVER_SETTINGS).map((name) => [name, undefined]))

/** The parts that the rows of a list are asked to have. */
export type Included = readonly (typeof SERVER_PARTS)[number][] | undefined

/** The same as a row of a list. */
export function toListed(
  stored: ServerRow,
  { caller, permissions }: Viewer,
  { facts, include }: { facts: ViewFacts; include: Included },
): z.input<typeof ListedServer> {
  const template = facts.templates.of(stored, caller)
  const shown = include?.includes('template') === true ? template.shown : template.brief
  const settings = include?.includes('settings') === true ? {} : NO_SETTINGS
  const listed = Object.assign(fieldsOf(stored, template, facts), { template: shown, ...settings })
  if (include?.includes('effectivePermissions') !== true) return listed
  return Object.assign(listed, { effectivePermissions: permissions(stored) })
}

function fieldsOf(
  stored: ServerRow,
  template: TemplateView,
  facts: ViewFacts,
): Omit<z.input<typeof Server>, 'template' | 'effectivePermissions'> {
  const row = facts.observed(stored)
  const known = facts.usage(row.id)
  const usage = usageOf(row, { usage: () => known })
  const ports = shownPorts(row, template)
  return {
    id: row.id,
    uuid: row.uuid,
    name: row.name,
    description: row.description,
    templateId: row.templateId,
    nodeId: row.nodeId,
    locationId: row.locationId,
    ownerId: row.ownerId,
    status: statusOf(row),
    powerState: row.power,
    desired: row.desired,
    generation: row.generation,
    observedAt: row.observedAt,
    lastKnownStatus: row.power === 'unknown' && row.lastKnownPower !== null ? statusOf(row, row.lastKnownPower) : null,
    reason: row.reason === null ? null : agentText(row.reason, MOST_REASON),
    installed: row.installed === 1,
    startedAt: row.startedAt,
    pid: row.pid,
    suspendedAt: row.suspendedAt,
    suspendedByUserId: row.suspendedByUserId,
    suspensionReason: row.suspensionReason,
    allocatedMemoryMb: row.memoryMb,
    allocatedCpuCores: row.cpuCores,
    allocatedDiskMb: row.diskMb,
    allocatedSwapMb: row.swapMb,
    databaseAllocation: row.databaseAllocation,
    cpuSet: row.cpuSet,
    ioWeight: row.ioWeight,
    image: row.image,
    runtime: row.runtime,
    allocationId: row.allocationId,
    primaryPort: row.port,
    primaryIp: row.ip,
    ports,
    networkMode: row.networkName ?? 'host',
    environment: shownEnvironment(environmentOf(row), template.masked),
    startupCommand: row.startupCommand,
    startupName: row.startupName,
    pinnedAt: row.pinnedAt,
    templateChanged: row.templateDefinition !== row.currentDefinition,
    restartPolicy: row.restartPolicy,
    crashCount: row.crashCount,
    maxCrashCount: row.maxCrashCount,
    lastCrashAt: row.lastCrashAt,
    lastExitCode: row.lastExitCode,
    lastExitSignal: row.lastExitSignal,
    lastExitCause: row.lastExitCause,
    lastExitReason: row.lastExitReason,
    nextRestartAt: row.nextRestartAt,
    bootPolicy: row.bootPolicy,
    startOrder: row.startOrder,
    stopTimeoutSeconds: row.stopTimeoutSeconds,
    timeZone: row.timeZone,
    eula: shownEula(row),
    node: {
      id: row.nodeId,
      name: row.nodeName,
      hostname: row.nodeHostname,
      publicAddress: row.nodePublicAddress,
      isOnline: facts.isOnline(row.nodeId),
    },
    location: { id: row.locationId, name: row.locationName },
    connection: { host: ports[0].host, port: row.port },
    cpuPercent: usage.cpuPercent,
    memoryUsageMb: usage.memoryUsageMb,
    diskUsageMb: usage.diskUsageMb,
    diskEnforced: known?.diskEnforced ?? null,
    mounts: mountsOfServer(row) as ServerMount[], // nothing changes an answer
    playersOnline: usage.playersOnline,
    playersMax: usage.playersMax,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  }
}

type ShownPort = z.input<typeof ServerPort>

/** All ports of a server, the primary one first. */
export function shownPorts(
  row: ServerRow,
  template: Pick<TemplateView, 'ports' | 'listens'>,
): [ShownPort, ...ShownPort[]] {
  const { ip, port } = row
  const { listens } = template
  const protocol = listens === 'tcp' || listens === 'udp' ? listens : 'both'
  const primary = {
    name: PRIMARY_PORT,
    role: 'game',
    protocol,
    ip,
    port,
    host: publicHost(row),
    isPrimary: true,
    variable: 'SERVER_PORT',
  } as const
  const further = furtherPortsOf(row)
  if (further.length === 0) return [primary]
  const others = further.map((one) => ({
    name: one.name,
    role: one.role,
    protocol: one.protocol,
    ip: one.ip,
    port: one.port,
    host: publicHost(row, one.ip),
    isPrimary: false,
    variable: template.ports.get(one.name)?.variable ?? null,
  }))
  return [primary, ...others]
}

/** Where players find it: the address of the node is known to the outside by the node's public one (it may be behind a router). */
function publicHost(row: Pick<ServerRow, 'ip' | 'nodeDefaultIp' | 'nodePublicAddress'>, ip = row.ip): string {
  return ip === row.nodeDefaultIp && !isLoopbackHost(ip) ? row.nodePublicAddress : ip
}

/** What a caller's own values are when they send back what they were shown: masks of masked variables are left out. */
export function withoutMasks(
  given: Readonly<Record<string, string>>,
  variables: NewTemplate['variables'],
): Record<string, string> {
  const maskable = new Set(
    variables.flatMap(({ name, secret, userViewable }) => (secret || !userViewable ? [name] : [])),
  )
  return Object.fromEntries(
    Object.entries(given).filter(([name, value]) => value !== SECRET_MASK || !maskable.has(name)),
  )
}

function shownEnvironment(environment: Record<string, string>, masked: ReadonlySet<string>): Record<string, string> {
  for (const name of masked) if (environment[name]) environment[name] = SECRET_MASK
  return environment
}

/** What a server uses now. Without a process it has nothing but its files: the last usage of the one before is left out. */
export function usageOf(row: ServerRow, facts: Pick<ViewFacts, 'usage'>) {
  const usage = facts.usage(row.id)
  const alive = row.power === 'running' || row.power === 'starting' || row.power === 'stopping'
  const installing = row.activity === 'installing'
  if (usage !== undefined && (alive || installing)) return usage
  return {
    cpuPercent: null,
    cpuCores: null,
    memoryUsageMb: null,
    memoryTotalMb: row.memoryMb,
    diskUsageMb: usage?.diskUsageMb ?? null,
    diskTotalMb: row.diskMb,
    diskIoMb: null,
    networkRxBytes: null,
    networkTxBytes: null,
    processes: null,
    uptimeMs: null,
    playersOnline: null,
    playersMax: null,
    playerNames: [],
    timestamp: usage?.timestamp ?? null,
  }
}
