import { join } from 'node:path'
import { type Db, openDb } from '../../../src/daemon/db/db.ts'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { createApiKey } from '../../../src/shared/api/api-keys.ts'
import { login } from '../../../src/shared/api/auth.ts'
import { createNode, createNodeKey } from '../../../src/shared/api/nodes.ts'
import { createServer, getServer, type NewServer, type Server } from '../../../src/shared/api/servers.ts'
import { createTemplate, type Template } from '../../../src/shared/api/templates.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import type { Client } from '../../../src/shared/client.ts'
import type { Endpoint } from '../../../src/shared/kernel/contract.ts'
import { newId } from '../../../src/shared/kernel/ids.ts'
import type { ServerStatus } from '../../../src/shared/kernel/server-life.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { betweenLooks } from '../../looks.ts'
import { type PanelOptions, startPanel, type TestPanel } from '../../panel.ts'
import { AgentPeer } from '../agent-peer.ts'
import { ConsoleReader } from '../console-reader.ts'

/** Somebody who calls: his client, and the token for streams. */
export interface Person {
  readonly id: string
  readonly email: string
  readonly client: Client
  readonly token: string
}

/** A node of the stage with the key of its agent. */
export interface StageNode {
  readonly id: string
  readonly locationId: string
  readonly key: string
}

/** Differences of a created server from the stage's usual one. */
export type Differs = { -readonly [K in keyof NewServer]?: NewServer[K] | string | undefined }

/** A time for columns that need one. */
export const STAMP = '2026-01-01T00:00:00.000Z'
/** The columns that make a status. */
export const FACTS: Record<ServerStatus, Record<string, unknown>> = {
  stopped: {},
  installing: { activity: 'installing' },
  starting: { power: 'starting' },
  running: { power: 'running' },
  stopping: { power: 'stopping' },
  crashed: { crashed: 1 },
  error: { failed: 1 },
  suspended: { suspendedAt: STAMP, suspensionReason: 'bill' },
  archived: { archivedAt: STAMP },
  transferring: { activity: 'transferring' },
  restoring: { activity: 'restoring' },
  deleting: { deletingAt: STAMP },
  unknown: { power: 'unknown', lastKnownPower: 'running' },
}

/** A real daemon with what tests of servers need around it. */
export class Stage {
  readonly panel: TestPanel
  /** The daemon's database through a connection of its own, for facts that no request can make. */
  readonly db: Db
  readonly admin: Client
  #count = 0
  #port = 21_000
  readonly #readers: ConsoleReader[] = []
  readonly #peers: AgentPeer[] = []

  static async open(options: PanelOptions = {}): Promise<Stage> {
    const env = { PANEL_LIMITS__STREAMS_PER_SERVER: '1000', PANEL_LIMITS__STREAMS_PER_USER: '1000', ...options.env }
    const panel = await startPanel({ ...options, env })
    return new Stage(panel, await openDb(join(panel.dataDir, 'db', 'panel.db'), systemClock))
  }

  private constructor(panel: TestPanel, db: Db) {
    this.panel = panel
    this.db = db
    this.admin = panel.client
  }

  async close(): Promise<void> {
    this.closeReaders()
    for (const peer of this.#peers) peer.socket.terminate()
    await this.db.close()
    await this.panel.close()
  }

  /** A number that no other object of this stage has. */
  next(): number {
    this.#count += 1
    return this.#count
  }

  port(): number {
    this.#port += 1
    return this.#port
  }

  template(body: Record<string, unknown> = {}): Promise<Template> {
    return this.admin.call(createTemplate, {
      body: { name: `T${this.next()}`, startup: 'sleep 1000', ...body } as never,
    })
  }

  async node(body: Record<string, unknown> = {}): Promise<StageNode> {
    const { locationId } = this.panel
    const fields = { name: `node-${this.next()}`, locationId, maxMemoryMb: 1_000_000, maxCpuCores: 1000, ...body }
    const node = await this.admin.call(createNode, { body: fields as never })
    const { apiKey } = await this.admin.call(createNodeKey, { params: { nodeId: node.id }, body: {} })
    return { id: node.id, locationId: node.locationId, key: apiKey }
  }

  /** The body of a creation on this node. */
  body(template: { id: string }, node: { id: string; locationId: string }, differs: Differs = {}): never {
    const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.1, allocatedDiskMb: 64 }
    const place = { templateId: template.id, nodeId: node.id, locationId: node.locationId }
    const port = 'allocationId' in differs || 'primaryPort' in differs ? {} : { primaryPort: this.port() }
    return { name: `Server ${this.next()}`, ...place, ...sizes, ...port, ...differs } as never // tests send wrong bodies too
  }

  create(
    template: { id: string },
    node: { id: string; locationId: string },
    differs: Differs = {},
    client = this.admin,
  ) {
    return client.call(createServer, { body: this.body(template, node, differs) })
  }

  get(id: string, client = this.admin): Promise<Server> {
    return client.call(getServer, { params: { serverId: id as never } })
  }

  /** The node that the embedded agent runs. */
  get here(): { id: string; locationId: string } {
    return { id: this.panel.nodeId, locationId: this.panel.locationId }
  }

  /** A user with a role of exactly these permissions, signed in. */
  async person(permissions: readonly string[] = []): Promise<Person> {
    const name = `user${this.next()}`
    const roleId = newId('role', systemClock)
    await this.db.write((tx) =>
      tx.q
        .insertInto('role')
        .values({
          id: roleId,
          name,
          description: null,
          permissions: JSON.stringify(permissions),
          protected: 0,
          createdAt: tx.now,
          updatedAt: tx.now,
        })
        .execute(),
    )
    const [email, password] = [`${name}@example.org`, 'Correct-horse-1']
    const user = await this.admin.call(createUser, {
      body: { email, username: name, password, roleIds: [roleId as never] },
    })
    const { token } = await this.panel.as(undefined).call(login, { body: { email, password } })
    return { id: user.id, email, client: this.panel.as(token), token }
  }

  /** A key of that person. */
  async key(owner: Client, permissions: readonly string[]): Promise<Client> {
    const { key } = await owner.call(createApiKey, {
      body: { name: 'key', permissions: [...permissions], rateLimitMax: 10_000, rateLimitTimeWindow: 1000 },
    })
    return this.panel.as(key)
  }

  /** Writes columns of a server as no request can. */
  async set(serverId: string, columns: Record<string, unknown>): Promise<void> {
    if (Object.keys(columns).length === 0) return
    await this.db.write((tx) =>
      tx.q
        .updateTable('server')
        .set(columns as never)
        .where('id', '=', serverId)
        .execute(),
    )
  }

  /** A server whose creation is done with, in this state. */
  async serverIn(template: { id: string }, node: StageNode, facts: Record<string, unknown>): Promise<Server> {
    const server = await this.create(template, node)
    await this.db.write((tx) =>
      tx.q.updateTable('command').set({ state: 'done', endedAt: tx.now }).where('serverId', '=', server.id).execute(),
    )
    await this.set(server.id, facts)
    return server
  }

  commands(serverId: string) {
    return this.db.read
      .selectFrom('command')
      .selectAll()
      .where('serverId', '=', serverId)
      .orderBy('generation')
      .execute()
  }

  async audits(serverId: string, action?: string) {
    const query = { resourceId: serverId, limit: 100, ...(action === undefined ? {} : { action }) }
    const { data } = await this.admin.page(listAuditLogs, { query: query as never })
    return data.filter((row) => row.resourceId === serverId && (action === undefined || row.action === action))
  }

  /** The events of a server that are written down. */
  events(serverId: string) {
    return this.db.read.selectFrom('event').selectAll().where('serverId', '=', serverId).orderBy('id').execute()
  }

  async peer(node: StageNode, about: Parameters<AgentPeer['enter']>[0] = {}): Promise<AgentPeer> {
    const peer = await AgentPeer.connect(this.panel.url, node.id, node.key)
    this.#peers.push(peer)
    await peer.enter(about)
    return peer
  }

  watch(path: string, options: { token?: string; lastEventId?: string | undefined } = {}): ConsoleReader {
    const headers = options.lastEventId === undefined ? {} : { 'last-event-id': options.lastEventId }
    const reader = new ConsoleReader(
      `${this.panel.url}/api/servers/${path}`,
      options.token ?? this.panel.adminToken,
      headers,
    )
    this.#readers.push(reader)
    return reader
  }

  closeReaders(): void {
    for (const reader of this.#readers.splice(0)) reader.close()
  }

  status(id: string, wanted: Server['status'], ms = 20_000): Promise<Server> {
    return until(
      `${id} to be ${wanted}`,
      async () => {
        const server = await this.get(id)
        return server.status === wanted ? server : undefined
      },
      ms,
    )
  }

  /** Waits for the end of an order, and answers its row. */
  ended(commandId: string) {
    return until(`${commandId} to end`, () =>
      this.db.read
        .selectFrom('command')
        .selectAll()
        .where('id', '=', commandId)
        .where('endedAt', 'is not', null)
        .executeTakeFirst(),
    )
  }
}

/** Polls until `look` finds something. */
export async function until<T>(what: string, look: () => Promise<T | undefined>, ms = 20_000): Promise<T> {
  const start = performance.now()
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (performance.now() > start + ms) throw new Error(`Waited in vain for ${what}`)
    await betweenLooks(start)
  }
}

/** Sends a request past the typed client: bodies and queries that it would not let through. */
export async function raw(panel: TestPanel, endpoint: Endpoint, path: string, body?: unknown) {
  const response = await fetch(`${panel.url}${path}`, {
    method: endpoint.method,
    headers: {
      authorization: `Bearer ${panel.adminToken}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const answer = (await response.json()) as { code?: string; details?: { field: string }[]; data?: unknown }
  return {
    status: response.status,
    code: answer.code,
    fields: (answer.details ?? []).map(({ field }) => field),
    data: answer.data,
  }
}
