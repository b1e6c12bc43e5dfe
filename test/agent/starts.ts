import type { AgentFrame } from '../../src/shared/protocol/frames.ts'
import type { ServerReport } from '../../src/shared/protocol/server.ts'

function reportsIn(frames: readonly AgentFrame[]): ServerReport[] {
  return frames.flatMap((frame) =>
    frame.type === 'event' && frame.event.type === 'server.state' ? [frame.event.report] : [],
  )
}

/** A start has begun when nothing is waited for any more. */
function isStarting({ power, reason }: ServerReport): boolean {
  return power === 'starting' && reason === null
}

/** How many servers were starting at the same time, at most. */
export function mostStartingAtOnce(frames: readonly AgentFrame[]): number {
  const starting = new Set<string>()
  let most = 0
  for (const report of reportsIn(frames)) {
    if (isStarting(report)) starting.add(report.serverId)
    else starting.delete(report.serverId)
    most = Math.max(most, starting.size)
  }
  return most
}

/** The servers in the order in which their starts began. */
export function orderOfStarts(frames: readonly AgentFrame[]): string[] {
  return [...new Set(reportsIn(frames).flatMap((report) => (isStarting(report) ? [report.serverId] : [])))]
}

/** The processes that a server had. */
export function pidsOf(frames: readonly AgentFrame[], id: string): number[] {
  const pids = reportsIn(frames).flatMap(({ serverId, pid }) => (serverId === id && pid !== null ? [pid] : []))
  return [...new Set(pids)]
}
