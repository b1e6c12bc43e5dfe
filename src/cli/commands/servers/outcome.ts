import type { Server } from '../../../shared/api/servers.ts'
import type { EventData } from '../../../shared/kernel/events.ts'
import { CliFailure } from '../../kit/failure.ts'

/** The part of a server that outcomes are read from. */
export type Seen = Pick<
  Server,
  | 'name'
  | 'status'
  | 'generation'
  | 'desired'
  | 'startedAt'
  | 'lastCrashAt'
  | 'reason'
  | 'lastExitReason'
  | 'installed'
  | 'nextRestartAt'
> &
  Partial<Pick<Server, 'eula'>>

/** An order whose outcome is awaited. */
export interface Order {
  readonly action: 'start' | 'stop' | 'restart' | 'kill' | 'install' | 'reinstall' | 'rebuild'
  readonly generation: number
  readonly commandId: string
  /** After an installation: wait until it runs. */
  readonly start: boolean
}

/** What is known of an order beside the server itself. */
export interface Evidence {
  /** The server before the order. */
  readonly before: Seen
  readonly done: EventData<'server_command_done'> | undefined
  /** It was seen starting, running anew or installing since the order. */
  readonly moved: boolean
}

/**
 * Whether the order has reached its goal. `false`: not yet. Throws OPERATION_FAILED when it never will: the agent refused it,
 * the server crashed or ended, or a later order wants the opposite.
 */
export function isReached(order: Order, server: Seen, evidence: Evidence): boolean {
  const { done, before } = evidence
  if (done !== undefined && !done.ok) throw failed(server, done.error ?? done.code ?? 'the agent could not do it')
  // Nothing of the server shows that it was rebuilt, but the end of the order.
  if (order.action === 'rebuild' && done === undefined) return false
  const wanted = goalOf(order)
  if (server.generation > order.generation && server.desired !== wanted.desired) {
    throw failed(server, `a later order wants it ${server.desired}`)
  }
  if (wanted.installed && !isInstalled(server, evidence)) return false
  if (wanted.desired === undefined) return true
  if (wanted.desired === 'stopped') {
    // Stopped it may also be in the middle of an earlier restart: what counts is the end of this very order, where there is one.
    const isOver = order.commandId === '' || done !== undefined
    return isOver && (server.status === 'stopped' || server.status === 'error')
  }
  if (server.lastCrashAt !== before.lastCrashAt && server.status === 'crashed') {
    throw failed(server, server.reason ?? 'it crashed')
  }
  if (server.status === 'error') {
    if (done !== undefined || evidence.moved) throw failed(server, server.reason ?? 'it failed')
    return false
  }
  const isDown = server.status === 'stopped' && server.nextRestartAt === null
  if (isDown && evidence.moved && done !== undefined && server.installed) {
    throw failed(server, server.reason ?? server.lastExitReason ?? 'it ended again')
  }
  if (server.status !== 'running') return false
  // The state of a restart stays `running` until the agent acts: only a new start counts.
  return order.action !== 'restart' || server.startedAt !== before.startedAt
}

/** Whether what is seen shows that the order is being carried out. */
export function isMoving(server: Seen, before: Seen): boolean {
  const active = server.status === 'starting' || server.status === 'installing'
  return active || (server.status === 'running' && server.startedAt !== before.startedAt)
}

function goalOf(order: Order): { desired: 'running' | 'stopped' | undefined; installed: boolean } {
  switch (order.action) {
    case 'start':
    case 'restart':
      return { desired: 'running', installed: false }
    case 'stop':
    case 'kill':
      return { desired: 'stopped', installed: false }
    case 'rebuild':
      return { desired: order.start ? 'running' : undefined, installed: false }
    default:
      return { desired: order.start ? 'running' : undefined, installed: true }
  }
}

function isInstalled(server: Seen, { done, moved }: Evidence): boolean {
  if (server.status === 'installing') return false
  if (server.status === 'error' && (done !== undefined || moved))
    throw failed(server, server.reason ?? 'the installation failed')
  return server.installed && (done !== undefined || moved)
}

/** The failure of an order, with the next place to look: the agreement that the game asks for, or else its console. */
export function failed(server: Pick<Seen, 'name' | 'eula'>, reason: string): CliFailure {
  const asks = server.eula != null
  return new CliFailure('OPERATION_FAILED', `${server.name}: ${reason}`, {
    hint: asks ? `panel servers eula accept ${server.name}` : `panel console logs ${server.name} --tail 50`,
  })
}

/** What people do about a game that asks for an agreement. */
export function askedText(name: string): string {
  return `the game of ${name} asks for an agreement before it runs; read and accept it: panel servers eula accept ${name}`
}
