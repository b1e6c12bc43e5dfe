import type { AlertConditions } from '../../../../shared/api/alert-rules.ts'
import type { AlertMetric, AlertSeverity } from '../../../../shared/kernel/alert.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import type { HealthReport } from '../../fleet/nodes/stats.ts'
import type { CurrentUsage } from '../../servers/servers/usage.ts'
import type { Finding, Subject } from './raise.ts'

/** What one rule sees of one thing now. */
export interface Observation {
  readonly subject: Subject
  readonly metric: AlertMetric | ''
  /** `null`: nobody knows; an open alert stays open and none is raised. */
  readonly bad: boolean | null
  readonly finding: () => Finding
}

/** A server as far as rules look at it. */
export interface SeenServer {
  readonly id: string
  readonly name: string
  readonly alive: boolean
  /** Its node is connected. */
  readonly online: boolean
  /** Its node is in maintenance. */
  readonly maintenance: boolean
  readonly usage: CurrentUsage | undefined
}

/** A node as far as rules look at it. */
export interface SeenNode {
  readonly id: string
  readonly name: string
  readonly maintenance: boolean
  readonly online: boolean
  /** Since when it has been away, in milliseconds since the epoch; `null`: it was never there. */
  readonly awaySinceMs: number | null
  readonly health: HealthReport | undefined
}

/** Usage comes every 15 s; older reports say nothing about now. */
const FRESH_MS = 60_000
const OFFLINE_MINUTES = 5
const WORDS: Readonly<Record<AlertMetric, string>> = { cpu: 'CPU', memory: 'memory', disk: 'disk space' }

/** What the thresholds say of a server. Without a process it uses no CPU and no memory; in maintenance they say nothing. */
export function serverThresholds(server: SeenServer, conditions: AlertConditions, nowMs: number): Observation[] {
  const { usage, alive, online } = server
  const fresh = online && !server.maintenance && usage !== undefined && nowMs - Date.parse(usage.timestamp) < FRESH_MS
  const isDown = online && !alive && !server.maintenance
  const resting = (value: number | null): number | null => (isDown ? 0 : value)
  const subject: Subject = { kind: 'server', id: server.id, name: server.name }
  const about = { subject, severity: 'warning' as const, conditions }
  const known = fresh ? usage : undefined
  return thresholds(about, {
    cpu: resting(known?.cpuPercent ?? null),
    memory: resting(share(known?.memoryUsageMb, known?.memoryTotalMb)),
    disk: share(known?.diskUsageMb, known?.diskTotalMb),
  })
}

/** What the thresholds say of a node. */
export function nodeThresholds(node: SeenNode, conditions: AlertConditions, nowMs: number): Observation[] {
  const { health: report, online } = node
  const health =
    online && !node.maintenance && report !== undefined && nowMs - report.atMs < FRESH_MS ? report.health : undefined
  const subject: Subject = { kind: 'node', id: node.id, name: node.name }
  const about = { subject, severity: 'critical' as const, conditions }
  return thresholds(about, {
    cpu: health?.cpuPercent ?? null,
    memory: share(health?.memoryUsageMb, health?.memoryTotalMb),
    disk: share(health?.diskUsageMb, health?.diskTotalMb),
  })
}

/** Whether a node has been away for too long. One in maintenance may be. */
export function nodeAway(node: SeenNode, conditions: AlertConditions, nowMs: number): Observation {
  const minutes = conditions.offlineThreshold ?? OFFLINE_MINUTES
  const subject: Subject = { kind: 'node', id: node.id, name: node.name }
  const awayMs = node.online || node.maintenance || node.awaySinceMs === null ? 0 : nowMs - node.awaySinceMs
  const since = node.awaySinceMs === null ? null : isoTime(node.awaySinceMs)
  return {
    subject,
    metric: '',
    // Away, but not for so long yet: an open alert stays open.
    bad: awayMs >= minutes * 60_000 ? true : awayMs > 0 ? null : false,
    finding: () => ({
      subject,
      metric: '',
      severity: 'critical',
      title: `The node ${node.name} is offline`,
      message: `The node ${node.name} has been away for more than ${minutes} min; nobody knows what its servers do.`,
      metadata: { offlineThreshold: minutes, since },
    }),
  }
}

interface About {
  readonly subject: Subject
  readonly severity: AlertSeverity
  readonly conditions: AlertConditions
}

function thresholds(about: About, values: Readonly<Record<AlertMetric, number | null>>): Observation[] {
  const { cpuThreshold, memoryThreshold, diskThreshold } = about.conditions
  const wanted: readonly (readonly [AlertMetric, number | undefined])[] = [
    ['cpu', cpuThreshold],
    ['memory', memoryThreshold],
    ['disk', diskThreshold],
  ]
  return wanted.flatMap(([metric, threshold]) =>
    threshold === undefined ? [] : [observe(about, { metric, threshold, value: values[metric] })],
  )
}

function observe(
  { subject, severity, conditions }: About,
  { metric, threshold, value }: { metric: AlertMetric; threshold: number; value: number | null },
): Observation {
  const shown = value === null ? 0 : Math.round(value * 10) / 10
  const seconds = conditions.durationSeconds ?? 0
  const lasting = seconds === 0 ? '' : ` for ${seconds} s`
  const what = `The ${subject.kind} ${subject.name} uses ${shown} % of its ${WORDS[metric]}`
  return {
    subject,
    metric,
    bad: value === null ? null : value >= threshold,
    finding: () => ({
      subject,
      metric,
      severity,
      title: `${subject.name}: ${WORDS[metric]} at ${shown} %`,
      message: `${what}; it has been at ${threshold} % or more${lasting}.`,
      metadata: { metric, value: shown, threshold, durationSeconds: seconds },
    }),
  }
}

function share(used: number | null | undefined, total: number | undefined): number | null {
  return used === null || used === undefined || total === undefined || total <= 0 ? null : (used / total) * 100
}
