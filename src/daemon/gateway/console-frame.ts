import { AGENT_ID } from '../../shared/kernel/agent-text.ts'
import type { ConsoleLine } from '../../shared/protocol/console.ts'
import { LineStream } from '../../shared/protocol/console.ts'
import type { AgentFrame } from '../../shared/protocol/frames.ts'

const MOST_LINES = 5000
const STREAMS: ReadonlySet<unknown> = new Set(LineStream.options)

/**
 * What the schema of frames makes of one that carries console lines, at a tenth of its price for a line: a flood has 50,000 of them
 * a second. `undefined` where the frame is another one, or is not as it should be; then the schema says what it is.
 */
export function asConsoleFrame(value: unknown): Extract<AgentFrame, { type: 'console' }> | undefined {
  if (typeof value !== 'object' || value === null || !('type' in value) || value.type !== 'console') return undefined
  const { type } = value
  if (!('serverId' in value && isId(value.serverId) && 'epoch' in value && isId(value.epoch))) return undefined
  if (!('lines' in value && Array.isArray(value.lines) && value.lines.length <= MOST_LINES)) return undefined
  const { serverId, epoch, lines } = value
  if (!lines.every(isLine)) return undefined
  if (!('last' in value) || value.last === undefined) return { type, serverId, epoch, lines }
  return isWhole(value.last, 1) ? { type, serverId, epoch, lines, last: value.last } : undefined
}

function isLine(line: unknown): line is ConsoleLine {
  if (!Array.isArray(line) || line.length !== 5) return false
  const [seq, ms, stream, text, flags]: unknown[] = line
  return isWhole(seq, 1) && Number.isFinite(ms) && STREAMS.has(stream) && typeof text === 'string' && isWhole(flags, 0)
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && AGENT_ID.test(value)
}

function isWhole(value: unknown, least: number): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= least
}
