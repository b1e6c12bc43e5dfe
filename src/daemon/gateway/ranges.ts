import type { AgentFrame } from '../../shared/protocol/frames.ts'
import type { NodeHealth } from '../../shared/protocol/node.ts'
import type { ServerReport, ServerUsage } from '../../shared/protocol/server.ts'

/** A hundred years. Nothing that an agent reports is older, and no wait is longer. */
const LONGEST_MS = 100 * 365 * 24 * 3600 * 1000

/** More than any machine has of anything that is measured: cores, MiB, percent. It bears a multiplication. */
const MOST = 1e12

/**
 * Brings ages, waits and usage numbers of a frame into range, so that each can be subtracted from the present instant and be
 * reckoned with: one server of which an agent says something impossible must not keep the reports of its other servers from
 * being stored, nor anybody's lists from being shown.
 */
export function inRange(frame: AgentFrame): AgentFrame {
  if (frame.type === 'stats') return { ...frame, servers: frame.servers.map(usageInRange) }
  if (frame.type === 'health') return { ...frame, health: healthInRange(frame.health) }
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

function usageInRange(usage: ServerUsage): ServerUsage {
  const { cpuCores, memoryMb, diskMb, processes, uptimeMs } = usage
  const { ioReadBytes, ioWriteBytes, networkRxBytes, networkTxBytes } = usage
  return {
    serverId: usage.serverId,
    cpuCores: measured(cpuCores),
    memoryMb: measured(memoryMb),
    diskMb: measured(diskMb),
    ioReadBytes: counter(ioReadBytes),
    ioWriteBytes: counter(ioWriteBytes),
    networkRxBytes: counter(networkRxBytes),
    networkTxBytes: counter(networkTxBytes),
    processes: measured(processes),
    uptimeMs: uptimeMs === null ? null : bounded(uptimeMs),
    ...(usage.diskEnforced === undefined ? {} : { diskEnforced: usage.diskEnforced }),
    // Its own schema bounds it.
    players: usage.players ?? null,
  }
}

function healthInRange(health: NodeHealth): NodeHealth {
  const { networkRxBytes, networkTxBytes, ...numbers } = health
  return {
    cpuPercent: bounded(numbers.cpuPercent, MOST),
    load1: bounded(numbers.load1, MOST),
    memoryUsageMb: bounded(numbers.memoryUsageMb, MOST),
    memoryTotalMb: bounded(numbers.memoryTotalMb, MOST),
    diskUsageMb: bounded(numbers.diskUsageMb, MOST),
    diskTotalMb: bounded(numbers.diskTotalMb, MOST),
    uptimeSeconds: bounded(numbers.uptimeSeconds, MOST),
    runningServers: bounded(numbers.runningServers, MOST),
    networkRxBytes: counter(networkRxBytes) ?? '0',
    networkTxBytes: counter(networkTxBytes) ?? '0',
  }
}

function measured(value: number | null): number | null {
  return value === null ? null : bounded(value, MOST)
}

/** A count of bytes as decimal text; what is none is not known. */
function counter(text: string | null): string | null {
  return text !== null && /^\d{1,20}$/.test(text) ? text : null
}

function bounded(value: number, most = LONGEST_MS): number {
  return Math.min(most, Math.max(0, value))
}
