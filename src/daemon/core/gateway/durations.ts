import type { AgentFrame, ServerReport } from '../../../shared/frames.ts'

/** A hundred years. Nothing that an agent reports is older, and no wait is longer. */
const LONGEST_MS = 100 * 365 * 24 * 3600 * 1000

/**
 * Brings ages and waits of a frame into range, so that each can be subtracted from the present instant: one server of which an
 * agent says something impossible must not keep the reports of its other servers from being stored.
 */
export function inRange(frame: AgentFrame): AgentFrame {
  if (frame.type === 'snapshot') return { ...frame, servers: frame.servers.map(reportInRange) }
  if (frame.type !== 'event') return frame
  const { event } = frame
  const ageMs = bounded(frame.ageMs)
  if (event.type !== 'server.state') return { ...frame, ageMs }
  return { ...frame, ageMs, event: { ...event, report: reportInRange(event.report) } }
}

function reportInRange(report: ServerReport): ServerReport {
  const { uptimeMs, crash } = report
  const nextRestartMs = crash.nextRestartMs === null ? null : bounded(crash.nextRestartMs)
  return { ...report, uptimeMs: uptimeMs === null ? null : bounded(uptimeMs), crash: { ...crash, nextRestartMs } }
}

function bounded(ms: number): number {
  return Math.min(LONGEST_MS, Math.max(0, ms))
}
