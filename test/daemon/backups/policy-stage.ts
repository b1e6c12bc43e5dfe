import type { z } from 'zod'
import * as api from '../../../src/shared/api/backup-policies.ts'
import type { AgentRequest } from '../../protocol/wire.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { report } from '../agent-peer.ts'
import { Stage, type StageNode, until } from '../servers/stage.ts'
import { type QuickClock, quickClock } from '../webhooks/receiver.ts'

const HOUR_MS = 3_600_000

type Create = Extract<AgentRequest, { op: 'backups.create' }>
type Body = z.input<typeof api.createBackupPolicy.body>

/** A node with servers, and an agent that packs nothing but says that it did. */
export class BackupNode {
  readonly node: StageNode
  readonly servers: readonly string[]
  /** The backups that it was asked for, in order, as the servers they are of. */
  readonly made: string[] = []
  readonly asked: Create[] = []
  /** How many it had under way at the same time at most. */
  most = 0
  /** What it answers; `undefined`: nothing, until it is let go on. */
  answer: (request: Create) => { readonly error: string } | { readonly storedBytes: number } | undefined = () => ({
    storedBytes: 1000,
  })
  #open = new Map<string, Create>()
  #peer: AgentPeer | undefined
  readonly #stage: Stage

  constructor(stage: Stage, node: StageNode, servers: readonly string[]) {
    this.#stage = stage
    this.node = node
    this.servers = servers
  }

  async connect(capabilities = ['backups@1']): Promise<void> {
    const servers = this.servers.map((id) => report(id, { power: 'offline', pid: null, uptimeMs: null }))
    this.#open.clear()
    this.#peer = await this.#stage.peer(this.node, { capabilities, servers })
    for (const op of ['backups.create', 'backups.delete']) this.#peer.silent.add(op)
    const { socket } = this.#peer
    socket.on('message', (data) => {
      const frame = JSON.parse(String(data)) as { type: string; id: string; request?: AgentRequest } // of the daemon
      if (frame.type !== 'request' || frame.request === undefined) return
      const { id, request } = frame
      if (request.op === 'backups.create') this.#take(id, request)
      if (request.op === 'backups.delete') this.#answer(id, { freedBytes: 0 })
    })
  }

  /** Its connection breaks. */
  async cut(): Promise<void> {
    this.#peer?.socket.terminate()
    await until(`${this.node.id} to be away`, async () =>
      this.#stage.panel.app.core.db.read
        .selectFrom('node')
        .select('id')
        .where('id', '=', this.node.id)
        .where('isOnline', '=', 0)
        .executeTakeFirst(),
    )
  }

  /** Answers what it has kept waiting. */
  goOn(): void {
    for (const [id, request] of this.#open) this.#reply(id, request)
  }

  #take(id: string, request: Create): void {
    this.asked.push(request)
    this.#open.set(id, request)
    this.most = Math.max(this.most, this.#open.size)
    // What is asked for side by side comes before the first answer.
    setTimeout(() => this.#reply(id, request), 20)
  }

  #reply(id: string, request: Create): void {
    const said = this.answer(request)
    if (said === undefined || !this.#open.delete(id)) return
    if ('error' in said) {
      this.#peer?.sendRaw({ type: 'reply', id, result: null, error: { code: 'NO_SPACE', message: said.error } })
      return
    }
    this.made.push(request.serverId)
    const facts = { entries: 1, bytes: 1000, storedBytes: said.storedBytes, sha256: 'ab'.repeat(32) }
    this.#answer(id, { ...facts, problems: [], problemCount: 0 })
  }

  #answer(id: string, result: object): void {
    this.#peer?.sendRaw({ type: 'reply', id, error: null, result })
  }
}

/** A daemon whose time tests move, and nodes with servers. */
export class PolicyStage {
  readonly stage: Stage
  readonly clock: QuickClock

  static async open(): Promise<PolicyStage> {
    const clock = quickClock()
    return new PolicyStage(await Stage.open({ clock }), clock)
  }

  private constructor(stage: Stage, clock: QuickClock) {
    this.stage = stage
    this.clock = clock
  }

  close(): Promise<void> {
    return this.stage.close()
  }

  async node(count: number): Promise<BackupNode> {
    const node = await this.stage.node()
    const template = await this.stage.template()
    const ids: string[] = []
    for (let index = 0; index < count; index++) ids.push((await this.stage.serverIn(template, node, {})).id)
    return new BackupNode(this.stage, node, ids)
  }

  /** A policy of the servers of these nodes that runs at four o'clock each day. */
  create(nodes: readonly BackupNode[], body: Partial<Body> = {}): Promise<api.BackupPolicy> {
    const serverIds = nodes.flatMap(({ servers }) => servers) as Body['serverIds'] // ids of rows that the stage has made
    const name = `policy ${this.stage.next()}`
    const times = { cron: '0 4 * * *', timeZone: 'UTC' }
    return this.stage.admin.call(api.createBackupPolicy, {
      body: { name, ...times, target: 'servers', serverIds, ...body },
    })
  }

  async get({ id }: Pick<api.BackupPolicy, 'id'>): Promise<api.BackupPolicy> {
    return await this.stage.admin.call(api.getBackupPolicy, { params: { policyId: id } })
  }

  run({ id }: Pick<api.BackupPolicy, 'id'>): Promise<api.PolicyRun> {
    return this.stage.admin.call(api.runBackupPolicy, { params: { policyId: id } })
  }

  runs({ id }: Pick<api.BackupPolicy, 'id'>): Promise<api.PolicyRun[]> {
    return this.stage.admin.call(api.listPolicyRuns, { params: { policyId: id } })
  }

  results(run: Pick<api.PolicyRun, 'id' | 'policyId'>, state?: api.PolicyResult['state']): Promise<api.PolicyResult[]> {
    const params = { policyId: run.policyId, runId: run.id }
    const query = { limit: 100, ...(state === undefined ? {} : { state }) }
    return this.stage.admin.call(api.listPolicyResults, { params, query })
  }

  standings({ id }: Pick<api.BackupPolicy, 'id'>): Promise<api.PolicyServer[]> {
    return this.stage.admin.call(api.listPolicyServers, { params: { policyId: id }, query: { limit: 100 } })
  }

  /** Waits until the newest run of a policy is so. */
  newest(
    policy: Pick<api.BackupPolicy, 'id'>,
    what: string,
    is: (run: api.PolicyRun) => boolean,
    ms?: number,
  ): Promise<api.PolicyRun> {
    return until(
      `a run that is ${what}`,
      async () => {
        const [run] = await this.runs(policy)
        return run !== undefined && is(run) ? run : undefined
      },
      ms,
    )
  }

  /** Puts the clock forward to the next time of a policy, and waits until the run has begun. */
  async reach(policy: Pick<api.BackupPolicy, 'id'>): Promise<api.PolicyRun> {
    const { nextRunAt } = await this.get(policy)
    this.clock.advance(Date.parse(nextRunAt ?? '') - this.clock.nowMs() + 1000)
    return await this.newest(policy, 'of that time', ({ dueAt }) => dueAt === nextRunAt)
  }

  /** Puts the clock forward by hours. */
  pass(hours: number): void {
    this.clock.advance(hours * HOUR_MS)
  }
}
