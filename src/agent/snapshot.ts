import { type AgentFrame, GATEWAY_LIMITS, type ServerReport } from '../shared/frames.ts'

type SnapshotFrame = Extract<AgentFrame, { type: 'snapshot' }>

/** All that an agent has, as it stands in one or several frames. */
export interface SnapshotContent {
  readonly servers: readonly ServerReport[]
  readonly commands: readonly string[]
  readonly orphans: readonly string[]
}

/** A frame has room for this much; the rest of its limit is for the frame itself. */
const PART_BYTES = GATEWAY_LIMITS.maxFrameBytes / 2

/** The snapshot in as few frames as fit the limit of the protocol, in their order; all but the last have `more`. */
export function snapshotFrames({ servers, commands, orphans }: SnapshotContent): SnapshotFrame[] {
  const parts: SnapshotFrame[] = []
  let part = emptyPart()
  let bytes = 0
  const add = (size: number, put: (part: SnapshotFrame) => void): void => {
    if (bytes > 0 && bytes + size > PART_BYTES) {
      parts.push({ ...part, more: true })
      part = emptyPart()
      bytes = 0
    }
    put(part)
    bytes += size
  }
  for (const report of servers) add(sizeOf(report), (into) => into.servers.push(report))
  for (const id of commands) add(sizeOf(id), (into) => into.commands.push(id))
  for (const name of orphans) add(sizeOf(name), (into) => into.orphans.push(name))
  return [...parts, part]
}

function emptyPart(): SnapshotFrame {
  return { type: 'snapshot', servers: [], commands: [], orphans: [] }
}

/** As it stands in a list, with the comma behind it. */
function sizeOf(item: ServerReport | string): number {
  return Buffer.byteLength(JSON.stringify(item)) + 1
}
