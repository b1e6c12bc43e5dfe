import { z } from 'zod'
import { isDeeperThan } from '../../../shared/kernel/json-depth.ts'
import type { FromPlugin } from '../../../shared/protocol/plugin-frames.ts'

const Id = z.int().min(0)
/** Of what a plugin answers or logs: what writes it out calls itself for each level. */
const MOST_DEPTH = 64
const Text = z.string().max(16_000)

const Frame = z.discriminatedUnion('t', [
  z.object({ t: z.literal('ready') }),
  z.object({ t: z.literal('failed'), message: Text, stack: Text }),
  z.object({ t: z.literal('pong'), n: Id }),
  z.object({
    t: z.literal('log'),
    level: z.enum(['debug', 'info', 'warn', 'error']),
    text: Text,
    fields: z.unknown().optional(),
  }),
  z.object({ t: z.literal('request'), id: Id, op: z.string().max(50), input: z.unknown() }),
  z.object({ t: z.literal('result'), id: Id, value: z.unknown() }),
  z.object({ t: z.literal('error'), id: Id, message: Text, stack: Text, code: z.string().max(50).optional() }),
])

/** A frame of a plugin's process, `undefined` when the line is none: plugins can write into their pipe what they like. */
export function parseFrame(line: string): FromPlugin | undefined {
  if (isDeeperThan(line, MOST_DEPTH)) return undefined
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined // not JSON: the caller ends the plugin for it
  }
  const parsed = Frame.safeParse(value)
  if (!parsed.success) return undefined
  const frame = parsed.data
  if (frame.t !== 'error') return frame
  const { code, ...rest } = frame
  return code === undefined ? rest : { ...rest, code }
}
