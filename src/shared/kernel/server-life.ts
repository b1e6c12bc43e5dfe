import { z } from 'zod'
import type { Permission } from './permissions.ts'

/** What a server's process does, as its agent observed it last. `unknown`: the node is away and it was not at rest. */
export const PowerState = z.enum(['offline', 'starting', 'running', 'stopping', 'unknown'])
export type PowerState = z.infer<typeof PowerState>

/** What is wanted of a server: the intent of the last accepted order. */
export const DesiredState = z.enum(['running', 'stopped'])
export type DesiredState = z.infer<typeof DesiredState>

/** Work on a server's files that stands in the way of running it. */
export const ServerActivity = z.enum(['installing', 'restoring', 'transferring'])
export type ServerActivity = z.infer<typeof ServerActivity>

export const SERVER_STATUSES = [
  'stopped',
  'installing',
  'starting',
  'running',
  'stopping',
  'crashed',
  'error',
  'suspended',
  'archived',
  'transferring',
  'restoring',
  'deleting',
  'unknown',
] as const

/** The one word that answers show. */
export const ServerStatus = z.enum(SERVER_STATUSES)
export type ServerStatus = z.infer<typeof ServerStatus>

export const POWER_ACTIONS = ['start', 'stop', 'restart', 'kill'] as const

/** The four power orders. */
export const PowerAction = z.enum(POWER_ACTIONS)
export type PowerAction = z.infer<typeof PowerAction>

/**
 * What a node does with a server when the node itself starts: `unless-stopped` starts what was wanted before, `always` also
 * what was stopped, `never` nothing.
 */
export const BootPolicy = z.enum(['always', 'unless-stopped', 'never'])
export type BootPolicy = z.infer<typeof BootPolicy>

/** When a server that ended by itself is started again. */
export const RestartPolicy = z.enum(['always', 'on-failure', 'never'])
export type RestartPolicy = z.infer<typeof RestartPolicy>

/**
 * Why a server's last process ended. By an order: `stopped` by its stop rule, `stop-sigterm` and `stop-sigkill` when that did
 * not end it in time, `killed`; `stop-command`: the stop command was typed into its console. By the panel: `disk-limit`,
 * and `out-of-memory` (also by the kernel). By itself: `finished` with exit code 0, `exit-code` with another one, `signal` by one
 * that the panel did not send, `background` when it left processes that could not be followed. `machine-restart` and `lost`
 * leave no exit code, and `unknown` is one that nobody could read.
 */
export const ExitCause = z.enum([
  'stopped', 'stop-sigterm', 'stop-sigkill', 'killed', 'stop-command', 'disk-limit', 'out-of-memory',
  'finished', 'exit-code', 'signal', 'background', 'machine-restart', 'engine-restart', 'lost', 'unknown',
]) // biome-ignore format: by whom
export type ExitCause = z.infer<typeof ExitCause>

/** The stored facts that a status is derived from. */
export interface LifeFacts {
  readonly deletingAt: string | null
  readonly archivedAt: string | null
  readonly suspendedAt: string | null
  readonly activity: ServerActivity | null
  readonly power: PowerState
  /** The last exit was neither ordered nor clean by policy, and nothing has run since. */
  readonly crashed: boolean
  /** The last install or restore failed. */
  readonly failed: boolean
}

/** The status of a server: the first that applies. */
export function serverStatus(facts: LifeFacts): ServerStatus {
  if (facts.deletingAt !== null) return 'deleting'
  if (facts.archivedAt !== null) return 'archived'
  if (facts.suspendedAt !== null) return 'suspended'
  if (facts.activity !== null) return facts.activity
  if (facts.power === 'unknown') return 'unknown'
  if (facts.power === 'offline' && facts.crashed) return 'crashed'
  if (facts.power === 'offline' && facts.failed) return 'error'
  return facts.power === 'offline' ? 'stopped' : facts.power
}

/** From which statuses an order is accepted; anything else is SERVER_INVALID_STATE with this list in `meta.allowed`. */
export const ACTION_GATES = {
  start: ['stopped', 'crashed', 'error'],
  stop: ['starting', 'running', 'crashed', 'error'],
  restart: ['running', 'starting', 'stopped', 'crashed', 'error'],
  kill: ['starting', 'running', 'stopping', 'crashed', 'error'],
  install: ['stopped', 'crashed', 'error'],
  reinstall: ['stopped', 'crashed', 'error'],
  rebuild: ['stopped', 'crashed', 'error'],
  delete: ['stopped', 'crashed', 'error', 'installing', 'deleting'],
  command: ['starting', 'running', 'stopping'],
} as const satisfies Record<string, readonly ServerStatus[]>

/** The permissions that a power order needs on its server; a restart needs both. */
export const POWER_PERMISSIONS = {
  start: ['server.start'],
  stop: ['server.stop'],
  restart: ['server.start', 'server.stop'],
  kill: ['server.stop'],
} as const satisfies Record<PowerAction, readonly Permission[]>
