import type { Endpoint } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { type Clock, type IsoTime, now } from '../../../../shared/kernel/time.ts'
import { type DaemonFrame, GATEWAY_LIMITS } from '../../../../shared/protocol/frames.ts'
import type { CommandOrder } from '../../../../shared/protocol/server.ts'
import { type OperationDeps, type Principal, recordChange } from '../../../access/operation.ts'
import type { Log } from '../../../core/log.ts'
import type { Tx } from '../../../db/db.ts'
import { isStorageFailure } from '../../../db/sqlite/failures.ts'
import type { LiveStates } from './live-states.ts'
import { type Accepted, type Order, refuseByStatus } from './orders.ts'
import { findServerRow, type ServerRow } from './rows.ts'
import { statusOf } from './view.ts'

/** What goes straight to a node. */
export type CommandFrame = Extract<DaemonFrame, { type: 'command' }>

interface UnstoredDeps extends OperationDeps {
  readonly clock: Clock
  readonly log: Log
  readonly live: LiveStates
  readonly isOnline: (nodeId: string) => boolean
  /** Sends a command over the connection of a node; throws NODE_OFFLINE without one. */
  readonly send: (nodeId: string, frame: CommandFrame) => void
}

/** An order that a node has, or is about to have, and the database has not. */
interface Given {
  readonly id: string
  readonly nodeId: string
  readonly serverId: string
  readonly generation: number
  readonly command: Extract<CommandOrder, { op: 'stop' | 'kill' }>
  /** What was called, and by whom: for the audit row. */
  readonly endpoint: Endpoint
  readonly principal: Principal
  readonly at: IsoTime
  /** When the node wrote it into its journal; `undefined` until then. */
  acceptedAt: IsoTime | undefined
}

/** Who waits for the journal of a node. */
interface Waiting {
  readonly nodeId: string
  readonly accepted: () => void
  readonly failed: (error: Error) => void
}

/**
 * Stop and kill while nothing can be written: ending games is what people need most then. The order goes to the agent
 * directly, counts when the agent has it in its journal, and is written down with the first transaction that is stored
 * again, before anything else raises the generation of its server.
 */
export class UnstoredOrders {
  readonly #deps: UnstoredDeps
  readonly #given = new Map<string, Given>()
  readonly #waiting = new Map<string, Waiting>()

  constructor(deps: UnstoredDeps) {
    this.#deps = deps
    deps.db.catchUp((tx) => this.#store(tx))
  }

  /** Whether an order may go past the database that has just refused it. */
  mayGive(order: Order, failure: unknown): order is Order & { action: 'stop' | 'kill' } {
    return isStorageFailure(failure) && (order.action === 'stop' || order.action === 'kill')
  }

  /** Gives the order to the node, and resolves when it is in the journal there. */
  async give(order: Order & { action: 'stop' | 'kill' }, by: Pick<Given, 'endpoint' | 'principal'>): Promise<Accepted> {
    const { db, clock, log, live, isOnline } = this.#deps
    const stored = await findServerRow(db.read, order.serverId)
    if (stored === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
    const row = this.overlay(live.overlay(stored))
    refuseByStatus(row, order.action, isOnline(row.nodeId))
    const command: Given['command'] =
      order.action === 'stop' ? { op: 'stop', args: order.args } : { op: 'kill', args: {} }
    const given: Given = {
      id: newId('cmd', clock),
      nodeId: row.nodeId,
      serverId: row.id,
      generation: Math.max(row.generation, live.generation(row)) + 1,
      ...{ command, ...by },
      at: now(clock),
      acceptedAt: undefined,
    }
    this.#given.set(given.id, given)
    try {
      await this.#send(given)
    } catch (error) {
      this.#given.delete(given.id)
      throw error
    }
    const { id: commandId, generation } = given
    log.warn({ serverId: row.id, commandId, op: command.op }, 'cannot store order, sending it unstored')
    if (db.health().status === 'ok') await this.#storeNow()
    return { action: order.action, status: statusOf(row), desired: 'stopped', generation, commandId, stored: false }
  }

  /** An agent has written a command into its journal. */
  accepted(nodeId: string, commandId: string): void {
    const given = this.#given.get(commandId)
    if (given === undefined || given.nodeId !== nodeId) return
    given.acceptedAt ??= now(this.#deps.clock)
    this.#waiting.get(commandId)?.accepted()
  }

  /** The connection of a node has ended: what it was to take is not known to be there. */
  disconnected(nodeId: string): void {
    const message = 'The node went away before it had taken the order; look at the server, and order again'
    for (const waiting of [...this.#waiting.values()]) {
      if (waiting.nodeId === nodeId) waiting.failed(new PanelError('NODE_OFFLINE', message))
    }
  }

  /** The row with the intent of orders that are not in it yet. */
  overlay(row: ServerRow): ServerRow {
    const newest = this.#of(row.id).at(-1)
    if (newest === undefined || newest.generation <= row.generation) return row
    return { ...row, desired: 'stopped', generation: newest.generation }
  }

  /** Whether there may be an order for this server that is not in its row. */
  isGiven(serverId: string): boolean {
    for (const given of this.#given.values()) if (given.serverId === serverId) return true
    return false
  }

  #of(serverId: string): Given[] {
    const accepted = [...this.#given.values()].filter(
      (one) => one.serverId === serverId && one.acceptedAt !== undefined,
    )
    return accepted.sort((a, b) => a.generation - b.generation)
  }

  async #send({ id, nodeId, serverId, generation, command: { op, args } }: Given): Promise<void> {
    const { clock, send } = this.#deps
    const over = new AbortController()
    const command = { op, ...args }
    try {
      await new Promise<void>((resolve, reject) => {
        this.#waiting.set(id, { nodeId, accepted: resolve, failed: reject })
        send(nodeId, { type: 'command', id, serverId, generation, command })
        void clock.sleep(GATEWAY_LIMITS.acceptMs, over.signal).then(() => {
          const message = 'The node did not answer in time; it may still have done what was asked'
          if (!over.signal.aborted) reject(new PanelError('AGENT_TIMEOUT', message))
        })
      })
    } finally {
      over.abort()
      this.#waiting.delete(id)
    }
  }

  async #storeNow(): Promise<void> {
    const { db, log } = this.#deps
    // What fails now is written down with the first transaction after that failure.
    await db.write((tx) => this.#store(tx)).catch((err: unknown) => log.warn({ err }, 'order is still not stored'))
  }

  async #store(tx: Tx): Promise<void> {
    const accepted = [...this.#given.values()].filter(({ acceptedAt }) => acceptedAt !== undefined)
    for (const given of accepted.sort((a, b) => a.generation - b.generation)) {
      try {
        await this.#storeOne(tx, given)
      } catch (err) {
        if (isStorageFailure(err)) throw err
        this.#deps.log.error({ err, commandId: given.id }, 'cannot store completed order')
      }
      tx.onCommit(() => this.#given.delete(given.id))
    }
  }

  async #storeOne(tx: Tx, given: Given): Promise<void> {
    const { id, nodeId, serverId, generation, acceptedAt } = given
    const { op, args } = given.command
    const known = await tx.q.selectFrom('command').select('id').where('id', '=', id).executeTakeFirst()
    const row = await findServerRow(tx.q, serverId)
    if (known !== undefined || row === undefined) return
    await tx.q
      .updateTable('server')
      .set({ desired: 'stopped', generation, updatedAt: tx.now })
      .where('id', '=', serverId)
      .where('generation', '<', generation)
      .execute()
    const times = { createdAt: given.at, acceptedAt: acceptedAt ?? given.at, endedAt: null }
    const command = { id, nodeId, serverId, generation, op, args: JSON.stringify(args), state: 'accepted' as const }
    await tx.q
      .insertInto('command')
      .values({ ...command, ...times, error: null, noop: 0 })
      .execute()
    const { endpoint, principal } = given
    const details = { action: op, generation, commandId: id, ...args, givenAt: given.at, storedLater: true }
    await recordChange(tx, { deps: this.#deps, principal, endpoint }, { audit: { resourceId: serverId, details } })
  }
}
