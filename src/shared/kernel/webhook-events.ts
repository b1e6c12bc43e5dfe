import type { Permission } from './permissions.ts'

/**
 * What webhooks can subscribe to, with the permission that somebody must hold to subscribe to it: a webhook shows
 * nothing that its maker may not read. New names may be added.
 */
export const WEBHOOK_EVENTS = {
  'alert.created': 'alert.read',
  'alert.resolved': 'alert.read',
  'auth.locked_out': 'admin.read',
  'backup.completed': 'backup.read',
  'backup.failed': 'backup.read',
  'backup_policy.completed': 'admin.read',
  'backup_policy.failed': 'admin.read',
  'node.created': 'node.read',
  'node.deleted': 'node.read',
  'node.offline': 'node.read',
  'node.online': 'node.read',
  'server.crashed': 'server.read',
  'server.created': 'server.read',
  'server.deleted': 'server.read',
  'server.started': 'server.read',
  'server.stopped': 'server.read',
  'server.suspended': 'server.read',
  'server.unsuspended': 'server.read',
  'server.updated': 'server.read',
  'system.error': 'admin.read',
  'user.created': 'user.read',
  'user.deleted': 'user.read',
} as const satisfies Record<string, Permission>

/** A key of {@link WEBHOOK_EVENTS}. */
export type WebhookEvent = keyof typeof WEBHOOK_EVENTS

/** Every name, in the order of the table. */
export const WEBHOOK_EVENT_NAMES = Object.keys(WEBHOOK_EVENTS) as WebhookEvent[] // the keys of a literal

/** Whether the subscription `pattern` (a name, `server.*` or `*`) means the event. */
export function subscribes(pattern: string, event: string): boolean {
  if (pattern === '*' || pattern === event) return true
  return pattern.endsWith('.*') && event.startsWith(pattern.slice(0, -1))
}

/** The events that the patterns mean together. */
export function subscribedEvents(patterns: readonly string[]): WebhookEvent[] {
  return WEBHOOK_EVENT_NAMES.filter((event) => patterns.some((pattern) => subscribes(pattern, event)))
}
