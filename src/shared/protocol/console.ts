import { z } from 'zod'
import { AgentId as Id } from '../kernel/agent-text.ts'
import { defineRequest } from './define.ts'

/** Where a console line came from: the game's two outputs, what was typed, and the panel's own remarks. */
export const LineStream = z.enum(['stdout', 'stderr', 'stdin', 'system'])
export type LineStream = z.infer<typeof LineStream>

/** Bits of a line's flags: the text had no end of line yet, or was longer than 16 KiB and cut. */
export const LINE_PARTIAL = 1
export const LINE_TRUNCATED = 2

/** One console line: number, milliseconds since the epoch (the node's clock), origin, text without its end, flags. */
export const ConsoleLine = z.tuple([z.int().min(1), z.number(), LineStream, z.string(), z.int().min(0)])
export type ConsoleLine = z.infer<typeof ConsoleLine>

/**
 * What a server's log holds: numbers run without a hole from `first` to `last`; `last` = `first` - 1 when it is empty.
 * `epochs` are those of the lines that it holds, oldest first, each with its first line: a log that may have lost its end
 * goes on under another epoch, whose numbers may have been given before.
 */
export const LogBounds = z.object({
  epoch: Id,
  first: z.int().min(1),
  last: z.int().min(0),
  epochs: z
    .array(z.object({ epoch: Id, first: z.int().min(1) }))
    .max(64)
    .optional(),
})
export type LogBounds = z.infer<typeof LogBounds>

/** Typed lines; answered when the game has them. Cancelled, those that still wait for the game do not reach it. */
export const typeConsoleLines = defineRequest({
  op: 'console.input',
  capability: 'console@1',
  cancels: true,
  input: { serverId: z.string(), lines: z.array(z.string().max(4096)).min(1).max(20) },
})

/** Lines after `after` (of `epoch`) from now on, or the last `tail` ones and all that follow. */
export const subscribeConsole = defineRequest({
  op: 'console.subscribe',
  capability: 'console@1',
  input: {
    serverId: z.string(),
    epoch: z.string().optional(),
    after: z.int().min(0).optional(),
    tail: z.int().min(0).max(5000).optional(),
  },
  result: LogBounds,
})

/** No lines of this server any more. */
export const unsubscribeConsole = defineRequest({
  op: 'console.unsubscribe',
  capability: 'console@1',
  input: { serverId: z.string() },
})

/** Answer of `console.fetch`. */
export const FetchResult = LogBounds.extend({ lines: z.array(ConsoleLine) })
export type FetchResult = z.infer<typeof FetchResult>

/** At most `max` lines and 512 KiB after `after` (oldest first) or before `before` (the newest of those, oldest first). */
export const fetchConsole = defineRequest({
  op: 'console.fetch',
  capability: 'console@1',
  input: {
    serverId: z.string(),
    after: z.int().min(0).optional(),
    before: z.int().min(1).optional(),
    max: z.int().min(1).max(5000),
  },
  result: FetchResult,
})
