import type { AgentFrame } from '../../src/shared/protocol/frames.ts'
import type { ServerReport } from '../../src/shared/protocol/server.ts'
import type { AgentStage } from './agent-stage.ts'

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

/** A game that is not up before it is typed at, so that others start at the same time wherever they may. */
export const STARTS_WHEN_TYPED = 'read -r line; echo ready; read -r line'

/**
 * Types at games of {@link STARTS_WHEN_TYPED} as they start, each once it starts with another process than `before` says, and not before
 * `together` of them do; resolves when all of them run.
 */
export async function upByTyping(
  { peer }: AgentStage,
  servers: readonly { readonly id: string; readonly pid: number | null }[],
  together: number,
): Promise<void> {
  const left = new Map(servers.map(({ id, pid }) => [id, pid]))
  while (left.size > 0) {
    const wanted = Math.min(together, left.size)
    const begun = await peer.until(`${wanted} of ${left.size} to start`, () => {
      const ids = [...left].flatMap(([id, before]) =>
        peer.reports(id).some(({ power, pid }) => power === 'starting' && pid !== null && pid !== before) ? [id] : [],
      )
      return ids.length >= wanted ? ids : undefined
    })
    for (const id of begun) {
      const before = left.get(id)
      left.delete(id)
      await peer.request({ op: 'console.input', serverId: id, lines: ['go'] })
      await peer.report(id, `${id} up`, ({ power, pid }) => power === 'running' && pid !== before)
    }
  }
}
