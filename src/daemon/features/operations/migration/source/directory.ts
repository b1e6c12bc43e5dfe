import { createHash } from 'node:crypto'
import { agentText } from '../../../../../shared/kernel/agent-text.ts'
import { PanelError } from '../../../../../shared/kernel/errors.ts'
import type { ResultOf } from '../../../../../shared/protocol/define.ts'
import { listDirectory, MIGRATION_LIMITS } from '../../../../../shared/protocol/migration.ts'
import { agentCodeOf } from '../../../../gateway/agent-errors.ts'
import type { Gateway } from '../../../../gateway/gateway.ts'
import type {
  SourceAllocation,
  SourceBackup,
  SourceDatabase,
  SourceEgg,
  SourceList,
  SourceLocation,
  SourceLoss,
  SourceNest,
  SourceNode,
  SourceSchedule,
  SourceServer,
  SourceSubuser,
  SourceUser,
} from './model.ts'
import { type Source, type SourceDirectory, SourceFailure, type SourceProbe, type SourceUsage } from './source.ts'

/** Servers that a folder may have; each row is in memory. */
const MOST_SERVERS = 10_000
/** What engines give a container by themselves. */
const USUAL_IO_WEIGHT = 500

type Row = ResultOf<typeof listDirectory>['servers'][number]

/** Such a name cannot be kept as it is: several folders would become the same one. */
const NO_TEXT = 'its name is not UTF-8; give it another one'

const NONE = { items: [], unreadable: [] } as const

/**
 * A folder of a node whose sub-folders are servers, each with a `panel-server.yaml`. It is listed and read by the agent, below a root that
 * its own file allows; of what lies in it the daemon sees nothing else. The id of a server is the name of its folder. Templates and owners
 * are such as this panel has: `mustExist`.
 */
export class DirectorySource implements Source {
  readonly flavor = 'directory'
  readonly files = null
  readonly directory: SourceDirectory
  readonly #gateway: Pick<Gateway, 'request'>
  /** Names of folders in the order of the last listing. */
  #known: readonly string[] = []
  #requests = 0

  constructor(directory: SourceDirectory, gateway: Pick<Gateway, 'request'>) {
    this.directory = { nodeId: directory.nodeId, path: normalised(directory.path) }
    this.#gateway = gateway
  }

  get fingerprint(): string {
    const { nodeId, path } = this.directory
    return createHash('sha256').update(`directory ${nodeId} ${path}`).digest('hex').slice(0, 32)
  }

  get usage(): SourceUsage {
    return { requests: this.#requests, retries: 0, throttledMs: 0, perMinute: null }
  }

  async close(): Promise<void> {
    await Promise.resolve()
  }

  async probe(signal: AbortSignal): Promise<SourceProbe> {
    const { items, unreadable } = await this.servers(signal)
    const counts = { server: items.length + unreadable.length }
    return { flavor: this.flavor, version: '1', reads: { server: 'yes' }, clientApi: 'unknown', missing: [], counts }
  }

  async servers(signal: AbortSignal): Promise<SourceList<SourceServer>> {
    const rows = await this.#rows(signal)
    return {
      items: rows.flatMap((row) => this.#serverOf(row) ?? []),
      unreadable: rows.flatMap(({ folder, manifest, problem }) => {
        const isText = folder.isWellFormed()
        if (manifest !== null && isText) return []
        const reason = isText ? agentText(problem ?? 'the node does not say what it is', 1000) : NO_TEXT
        const name = agentText(folder.toWellFormed(), 255)
        return [{ kind: 'server', id: isText ? folder : null, name, reason } as const]
      }),
    }
  }

  /** Asks for the row behind the name before it, so that the sizes of all others are not added up again. */
  async server(id: string, signal: AbortSignal): Promise<SourceServer | undefined> {
    const at = this.#known.indexOf(id)
    if (at !== -1) {
      const { servers } = await this.#page(this.#known[at - 1] ?? null, 1, signal)
      const [row] = servers
      if (row?.folder === id) return this.#serverOf(row)
    }
    // Others have come in between, or it is gone.
    return (await this.servers(signal)).items.find((server) => server.id === id)
  }

  /** The templates that its servers name. */
  async eggs(signal: AbortSignal): Promise<SourceList<SourceEgg>> {
    const names = new Set((await this.servers(signal)).items.map(({ eggId }) => eggId))
    const items = [...names].map((id) => ({ id, uuid: null, nestId: '', name: id, document: {}, mustExist: true }))
    return { items, unreadable: [] }
  }

  /** The owners that its servers name, by their addresses or user names. */
  async users(signal: AbortSignal): Promise<SourceList<SourceUser>> {
    const names = new Set((await this.servers(signal)).items.map(({ ownerId }) => ownerId))
    names.delete('')
    return { items: [...names].map(userOf), unreadable: [] }
  }

  async nodes(): Promise<SourceList<SourceNode>> {
    const { nodeId: id } = this.directory
    const nothing = { uuid: null, description: '', locationId: null, fqdn: '', origin: '' }
    const sizes = { sftpPort: 2022, memoryMb: 0, diskMb: 0, isInMaintenance: false, tags: [] }
    return await Promise.resolve({ items: [{ id, name: id, ...nothing, ...sizes }], unreadable: [] })
  }

  async locations(): Promise<SourceList<SourceLocation>> {
    return await Promise.resolve(NONE)
  }

  async nests(): Promise<SourceList<SourceNest>> {
    return await Promise.resolve(NONE)
  }

  async mounts(): Promise<null> {
    return await Promise.resolve(null)
  }

  async allocations(): Promise<SourceList<SourceAllocation>> {
    return await Promise.resolve(NONE)
  }

  async subusers(): Promise<SourceList<SourceSubuser>> {
    return await Promise.resolve(NONE)
  }

  async databases(): Promise<SourceList<SourceDatabase>> {
    return await Promise.resolve(NONE)
  }

  async schedules(): Promise<SourceList<SourceSchedule>> {
    return await Promise.resolve(NONE)
  }

  async backups(): Promise<SourceList<SourceBackup>> {
    return await Promise.resolve(NONE)
  }

  losses(): readonly SourceLoss[] {
    const why = 'a folder says nothing of them'
    return [{ what: 'sub-users, databases, schedules, backups and mounts', count: null, why }]
  }

  /** `undefined`: it does not say what it is. */
  #serverOf({ folder, manifest, fingerprint }: Row): SourceServer | undefined {
    if (manifest === null || !folder.isWellFormed()) return undefined
    const { name, template, owner = '', description = '', limits, ports, variables } = manifest
    const [primary] = ports
    return {
      id: folder,
      uuid: this.#uuidOf(folder),
      identifier: folder,
      externalId: null,
      name: agentText(name, 191),
      description,
      state: 'ready',
      isSuspended: false,
      ownerId: owner.includes('@') ? owner.toLowerCase() : owner,
      nodeId: this.directory.nodeId,
      nestId: null,
      eggId: template,
      limits: {
        memoryMb: limits.memoryMb,
        swapMb: limits.swapMb ?? 0,
        diskMb: limits.diskMb,
        ioWeight: USUAL_IO_WEIGHT,
        cpuPercent: Math.round((limits.cpu ?? 0) * 100),
        threads: null,
        isOomKillerOff: false,
      },
      featureLimits: { databases: null, allocations: null, backups: null },
      startup: '',
      image: '',
      isInstalled: true,
      environment: Object.fromEntries(Object.entries(variables).map(([key, value]) => [key, String(value)])),
      primaryAllocationId: primary === undefined ? null : String(primary),
      allocations: [...new Set(ports)].map((port) => ({
        id: String(port),
        ip: '0.0.0.0',
        port,
        alias: null,
        notes: null,
        isPrimary: port === primary,
      })),
      subusers: [],
      updatedAt: null,
      filesFingerprint: fingerprint ?? null,
    }
  }

  /** The same for the same folder (version 8 of RFC 9562). */
  #uuidOf(folder: string): string {
    const hex = createHash('sha256').update(`${this.fingerprint}\0${folder}`).digest('hex')
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
  }

  async #rows(signal: AbortSignal): Promise<readonly Row[]> {
    const rows = new Map<string, Row>()
    for (let after: string | null = null; ; ) {
      const { servers, next }: { servers: readonly Row[]; next: string | null } = await this.#page(
        after,
        MIGRATION_LIMITS.rows,
        signal,
      )
      const before = rows.size
      for (const row of servers) rows.set(row.folder, row)
      if (next === null) break
      if (rows.size === before) throw new SourceFailure('broken', 'the node repeats the list of its folders')
      if (rows.size > MOST_SERVERS) {
        throw new SourceFailure(
          'rejected',
          `a folder may have up to ${MOST_SERVERS} servers; move some into another one`,
        )
      }
      after = next
    }
    this.#known = [...rows.keys()]
    return [...rows.values()]
  }

  async #page(after: string | null, limit: number, signal: AbortSignal) {
    const { nodeId, path } = this.directory
    this.#requests++
    try {
      return await this.#gateway.request(nodeId, listDirectory, { path, after, limit }, { signal })
    } catch (error) {
      signal.throwIfAborted()
      throw error instanceof PanelError ? failureOf(error, this.directory) : error
    }
  }
}

function userOf(id: string): SourceUser {
  const nothing = { uuid: null, externalId: null, firstName: null, lastName: null, language: null }
  return { id, ...nothing, username: id, email: id.toLowerCase(), isAdmin: false, hasTwoFactor: false, mustExist: true }
}

/** The same folder has the same fingerprint, however it is written. */
function normalised(path: string): string {
  const names = path.split('/').filter((name) => name !== '' && name !== '.')
  if (!path.startsWith('/') || names.includes('..')) {
    throw new SourceFailure('rejected', 'the folder must be an absolute path of the node without ".."')
  }
  return `/${names.join('/')}`
}

function failureOf(error: PanelError, { nodeId, path }: SourceDirectory): SourceFailure {
  const fail = (problem: SourceFailure['problem'], message: string, isTransient = false): SourceFailure =>
    new SourceFailure(problem, message, { isTransient, cause: error })
  const text = agentText(error.message, 400)
  switch (agentCodeOf(error) ?? error.code) {
    case 'NODE_OFFLINE':
      return fail('unreachable', `the node ${nodeId} is not connected`, true)
    case 'AGENT_TIMEOUT':
    case 'TIMEOUT':
    case 'CANCELLED':
    case 'INTERRUPTED':
      return fail('unreachable', `the node ${nodeId} has not answered: ${text}`, true)
    case 'AGENT_VERSION':
      return fail('not-a-source', `the agent of the node ${nodeId} cannot read folders with servers yet; update it`)
    case 'PATH_INVALID':
    case 'DENIED':
      return fail('denied', text)
    case 'NOT_FOUND':
      return fail('missing', `the node has no folder ${agentText(path, 300)}: ${text}`)
    default:
      return fail('broken', `the node cannot list ${agentText(path, 300)}: ${text}`, true)
  }
}
