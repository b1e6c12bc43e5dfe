import { isDeeperThan } from '../../shared/kernel/json-depth.ts'
import { AgentEvent, AgentFrame } from '../../shared/protocol/frames.ts'
import { asConsoleFrame } from './console-frame.ts'
import { inRange } from './ranges.ts'

const MOST_DEPTH = 16

/** What a text frame turned out to be. `skipped`: of a newer version, to be passed over (an event still has its number). */
export type Incoming =
  | { readonly kind: 'frame'; readonly frame: AgentFrame }
  | { readonly kind: 'skipped'; readonly type: string; readonly eventSeq: number | undefined }
  | { readonly kind: 'broken'; readonly problem: string }

/** Made for the first frame that does not fit. */
let known: { readonly frames: ReadonlySet<unknown>; readonly events: ReadonlySet<unknown> } | undefined

/** Reads a text frame: JSON of bounded depth that fits its type. Unknown types and fields are passed over. */
export function readFrame(text: string): Incoming {
  if (isDeeperThan(text, MOST_DEPTH)) return { kind: 'broken', problem: `the JSON is deeper than ${MOST_DEPTH}` }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { kind: 'broken', problem: 'a frame is no JSON text' } // the parser's own words would quote the frame
  }
  const lines = asConsoleFrame(value)
  if (lines !== undefined) return { kind: 'frame', frame: lines }
  const parsed = AgentFrame.safeParse(value)
  if (parsed.success) return { kind: 'frame', frame: inRange(parsed.data) }
  const newer = fromNewerVersion(value)
  if (newer !== undefined) return newer
  const issue = parsed.error.issues[0]
  return { kind: 'broken', problem: `${issue?.path.map(String).join('.') ?? ''}: ${issue?.message ?? 'unfit'}` }
}

function fromNewerVersion(value: unknown): Incoming | undefined {
  if (typeof value !== 'object' || value === null || !('type' in value) || typeof value.type !== 'string')
    return undefined
  known ??= {
    frames: new Set(AgentFrame.options.map((option) => option.shape.type.value)),
    events: new Set(AgentEvent.options.map((option) => option.shape.type.value)),
  }
  if (!known.frames.has(value.type)) return { kind: 'skipped', type: value.type, eventSeq: undefined }
  if (value.type !== 'event' || !('event' in value) || !('seq' in value)) return undefined
  const { event, seq } = value
  if (typeof event !== 'object' || event === null || !('type' in event) || typeof event.type !== 'string')
    return undefined
  if (known.events.has(event.type) || typeof seq !== 'number' || !Number.isSafeInteger(seq) || seq < 1) return undefined
  return { kind: 'skipped', type: event.type, eventSeq: seq }
}
