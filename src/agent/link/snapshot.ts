import { type AgentFrame, GATEWAY_LIMITS } from '../../shared/protocol/frames.ts'
import type { ServerReport } from '../../shared/protocol/server.ts'

type SnapshotFrame = Extract<AgentFrame, { type: 'snapshot' }>

/** All that an agent has, as it stands in one or several frames. */
export interface SnapshotContent {
  readonly servers: readonly ServerReport[]
  readonly commands: readonly string[]
  readonly orphans: readonly string[]
  readonly gone: readonly { readonly serverId: string; readonly generation: number }[]
  /** The number of the last event before it was taken. */
  readonly asOf: number
}

/** A frame has room for this much; the rest of its limit is for the frame itself. */
const PART_BYTES = GATEWAY_LIMITS.maxFrameBytes / 2

/** The snapshot in as few frames as fit the limit of the protocol, in their order; all but the last have `more`. */
export function snapshotFrames(content: SnapshotContent): SnapshotFrame[] {
  const parts: Part[] = []
  let part = emptyPart()
  let bytes = 0
  const add = (size: number, put: (part: Part) => void): void => {
    if (bytes > 0 && bytes + size > PART_BYTES) {
      parts.push(part)
      part = emptyPart()
      bytes = 0
    }
    put(part)
    bytes += size
  }
  for (const report of content.servers) add(sizeOf(report), (into) => into.servers.push(report))
  for (const id of content.commands) add(sizeOf(id), (into) => into.commands.push(id))
  for (const name of content.orphans) add(sizeOf(name), (into) => into.orphans.push(name))
  for (const server of content.gone) add(sizeOf(server), (into) => into.gone.push({ ...server }))
  const whole = parts.map((before) => ({ ...before, more: true as const }))
  return [...whole, { ...part, asOf: content.asOf }]
}

type Part = SnapshotFrame & { gone: { serverId: string; generation: number }[] }

function emptyPart(): Part {
  return { type: 'snapshot', servers: [], commands: [], orphans: [], gone: [] }
}

/** As it stands in a list, with the comma behind it. */
function sizeOf(item: unknown): number {
  return Buffer.byteLength(JSON.stringify(item)) + 1
}
