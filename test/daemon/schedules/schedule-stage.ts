import {
  createTask,
  executeTask,
  getTask,
  getTaskRun,
  listTaskRuns,
  type Task,
} from '../../../src/shared/api/schedules.ts'
import type { Server } from '../../../src/shared/api/servers.ts'
import type { Client } from '../../../src/shared/client.ts'
import { type AgentPeer, report } from '../agent-peer.ts'
import { Stage, type StageNode, until } from '../servers/stage.ts'
import { type QuickClock, quickClock } from '../webhooks/receiver.ts'

/** What a test changes of a schedule: any JSON, also wrong one. */
export type TaskBody = Readonly<Record<string, unknown>>

/** How the peer's games behave. */
export interface GameRules {
  /** What an order ends with; without an answer it goes on. */
  readonly answer?: (op: string, serverId: string) => 'ok' | 'failed' | 'none'
}

/** A daemon whose wall clock tests put forward, with one node that a peer plays. */
export class ScheduleStage {
  readonly stage: Stage
  readonly clock: QuickClock
  readonly node: StageNode
  readonly template: { readonly id: string }
  peer: AgentPeer
  #answered = 0
  rules: GameRules = {}

  /** With `before`, that stage's node and servers again, by the data folder that both use. */
  static async open(
    { dataDir, aheadMs = 0 }: { readonly dataDir?: string; readonly aheadMs?: number } = {},
    before?: { readonly node: StageNode; readonly template: { readonly id: string }; readonly server: Server },
  ): Promise<ScheduleStage> {
    const clock = quickClock()
    clock.advance(aheadMs)
    const stage = await Stage.open({ clock, ...(dataDir === undefined ? {} : { dataDir }) })
    const node = before?.node ?? (await stage.node())
    const template = before?.template ?? (await stage.template())
    const servers = before === undefined ? [] : [report(before.server.id, { generation: 1000 })]
    const of = { stage, clock, node, template, peer: await stage.peer(node, { servers }) }
    if (before !== undefined) of.peer.log(before.server.id)
    return new ScheduleStage(of)
  }

  private constructor(of: Pick<ScheduleStage, 'stage' | 'clock' | 'node' | 'template' | 'peer'>) {
    this.stage = of.stage
    this.clock = of.clock
    this.node = of.node
    this.template = of.template
    this.peer = of.peer
    this.#play(this.peer)
  }

  close(): Promise<void> {
    return this.stage.close()
  }

  /** A server on the node, in this state of its process. */
  async server(power: 'running' | 'offline' = 'running'): Promise<Server> {
    const server = await this.stage.serverIn(this.template, this.node, {})
    this.peer.log(server.id)
    this.say(server.id, power)
    return this.stage.status(server.id, power === 'running' ? 'running' : 'stopped')
  }

  /** Has the node report what a server's process does. */
  say(serverId: string, power: 'running' | 'offline' | 'starting', pid = 4242): void {
    const about = power === 'offline' ? { power, pid: null, uptimeMs: null } : { power, pid, uptimeMs: 0 }
    this.peer.event({
      type: 'server.state',
      report: report(serverId, { ...about, generation: 1000 }),
      previous: 'offline',
      commandId: null,
    })
  }

  /** A schedule of every full hour, as long as `body` does not say otherwise. */
  create(server: { id: string }, body: TaskBody, client: Client = this.stage.admin): Promise<Task> {
    const fields = { name: `nightly ${this.stage.next()}`, schedule: '0 * * * *', timezone: 'UTC', ...body }
    return client.call(createTask, { params: { serverId: server.id as never }, body: fields as never })
  }

  get({ serverId, id }: Pick<Task, 'id' | 'serverId'>): Promise<Task> {
    return this.stage.admin.call(getTask, { params: { serverId, taskId: id } })
  }

  execute({ serverId, id }: Pick<Task, 'id' | 'serverId'>, client: Client = this.stage.admin) {
    return client.call(executeTask, { params: { serverId, taskId: id } })
  }

  /** Puts the clock to just after the time at which a schedule is due next. */
  async due(task: Pick<Task, 'id' | 'serverId'>, lateMs = 500): Promise<void> {
    const { nextRunAt } = await this.get(task)
    if (nextRunAt === null) throw new Error('the schedule is never due')
    this.clock.advance(Date.parse(nextRunAt) + lateMs - this.clock.nowMs())
  }

  /** The runs of a schedule, newest first. */
  runs({ serverId, id }: Pick<Task, 'id' | 'serverId'>) {
    return this.stage.admin.call(listTaskRuns, { params: { serverId, taskId: id }, query: { limit: 100 } })
  }

  /** The newest run with all its steps, once so many have ended. */
  async ended(task: Pick<Task, 'id' | 'serverId'>, count = 1) {
    const { serverId, id: taskId } = task
    const run = await until(`${count} runs of ${taskId} to end`, async () => {
      const runs = await this.runs(task)
      return runs.length >= count && runs.every(({ endedAt }) => endedAt !== null) ? runs[0] : undefined
    })
    return this.stage.admin.call(getTaskRun, { params: { serverId, taskId, taskRunId: run.id } })
  }

  /** Answers orders as the rules say. */
  #play(peer: AgentPeer): void {
    peer.socket.on('message', () => {
      const orders = peer.of('command')
      for (const order of orders.slice(this.#answered)) {
        this.#answered += 1
        const { id, serverId } = order
        const { op } = order.command
        const how = this.rules.answer?.(op, serverId) ?? 'ok'
        if (how === 'none') continue
        peer.send({ type: 'command.accepted', id })
        const error = how === 'ok' ? null : { code: 'INTERNAL' as const, message: 'no such program' }
        peer.event({ type: 'command.done', commandId: id, serverId, ok: how === 'ok', noop: false, error })
        if (how !== 'ok') continue
        if (op === 'start' || op === 'restart') this.say(serverId, 'running', 5000 + this.#answered)
        if (op === 'stop' || op === 'kill') this.say(serverId, 'offline')
      }
    })
  }
}
