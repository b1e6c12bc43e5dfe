import { Alert, type AlertSeverity } from '../../../../shared/kernel/alert.ts'
import type { Payload } from './payload.ts'

/** A payload in words. */
export interface Notice {
  readonly title: string
  readonly text: string
  /** `good`: something is over. */
  readonly tone: AlertSeverity | 'good'
}

/** How each event reads; NAME is what it is about. */
const SENTENCES: Readonly<Record<string, readonly [sentence: string, tone: Notice['tone']]>> = {
  'auth.locked_out': ['Sign-in was locked after too many failures', 'warning'],
  'backup.completed': ['A backup of NAME is complete', 'good'],
  'backup.failed': ['A backup of NAME has failed', 'critical'],
  'backup_policy.completed': ['A run of the backup policy NAME is complete', 'good'],
  'backup_policy.failed': ['A run of the backup policy NAME has failed for some servers', 'critical'],
  'node.created': ['The node NAME was added', 'info'],
  'node.deleted': ['The node NAME was deleted', 'info'],
  'node.offline': ['The node NAME has lost its connection', 'warning'],
  'node.online': ['The node NAME is connected', 'good'],
  'server.crashed': ['The server NAME has crashed', 'critical'],
  'server.created': ['The server NAME was created', 'info'],
  'server.deleted': ['The server NAME was deleted', 'info'],
  'server.started': ['The server NAME is running', 'good'],
  'server.stopped': ['The server NAME has stopped', 'info'],
  'server.suspended': ['The server NAME was suspended', 'warning'],
  'server.unsuspended': ['The suspension of the server NAME was lifted', 'good'],
  'server.updated': ['The server NAME was changed', 'info'],
  'system.error': ['Something went wrong inside the panel', 'warning'],
  'user.created': ['The account NAME was created', 'info'],
  'user.deleted': ['The account NAME was deleted', 'info'],
  'webhook.test': ['This is a test of the webhook', 'info'],
}

/** The payload as people read it, in one line and some more. */
export function noticeOf(payload: Payload): Notice {
  const alert = Alert.safeParse(payload.data['alert'])
  if (alert.success) {
    const { title, message, severity, resolved } = alert.data
    return resolved
      ? { title: `Resolved: ${title}`, text: message, tone: 'good' }
      : { title, text: message, tone: severity }
  }
  const [sentence, tone] = SENTENCES[payload.event] ?? [payload.event, 'info']
  // By a function: `$&` and the like in a name stand for themselves.
  return { title: sentence.replace('NAME', () => nameIn(payload)), text: reasonIn(payload), tone }
}

function nameIn({ serverName, serverId, data }: Payload): string {
  const user = data['user']
  const inside = typeof user === 'object' && user !== null && 'username' in user ? user.username : undefined
  const named = [serverName, data['nodeName'], data['policyName'], data['username'], inside, serverId]
  return named.find((name) => typeof name === 'string') ?? ''
}

function reasonIn({ data }: Payload): string {
  const error = data['error']
  if (typeof error === 'object' && error !== null && 'message' in error) return String(error.message)
  if (typeof data['lockedUntil'] === 'string')
    return `${String(data['email'])} from ${String(data['ipAddress'])}, until ${data['lockedUntil']}`
  const said = [data['reason'], error, data['change']].find((text) => typeof text === 'string')
  return said ?? ''
}
