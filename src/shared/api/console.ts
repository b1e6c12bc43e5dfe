import { z } from 'zod'
import { defineEndpoint, defineStream } from '../kernel/contract.ts'
import { ServerId } from '../kernel/ids.ts'
import { IsoTime } from '../kernel/time.ts'
import { LineStream } from '../protocol/console.ts'

/** The place of a line in a server's log, `<epoch>-<seq>`: the `id:` of console frames, cursor files, resume markers. */
export const LineId = z.string().regex(/^[0-9a-z]{1,40}-\d{1,15}$/, 'must be a line id, <epoch>-<number>')

/** One line of a console. `partial`: it has no end of line yet (a prompt); the rest follows under the next number. */
export const ConsoleFrame = z.object({
  type: z.literal('console'),
  serverId: z.string(),
  line: z.string(),
  stream: LineStream,
  seq: z.int(),
  timestamp: IsoTime,
  partial: z.literal(true).optional(),
  truncated: z.literal(true).optional(),
})
export type ConsoleFrame = z.infer<typeof ConsoleFrame>

/**
 * The first frame. Its id, left out by a resume and while the log is empty, is the place before the first line that follows: who is
 * cut off before that line resumes there. `lastSeq`: the newest line that the panel has passed on; left out while the node has not
 * said yet. `lagLines`: so many lines wait before the newest one comes, as more is said than may be passed on, or a resume begins far
 * back; left out when none does. A stream that lags for longer than a second also says so, in a comment every second:
 * `: lagging by 1234 lines`, and at the end of it `: no longer lagging`.
 */
export const ConsoleConnectedFrame = z.object({
  type: z.literal('connected'),
  serverId: z.string(),
  lastSeq: z.int().optional(),
  lagLines: z.int().min(1).optional(),
  timestamp: IsoTime,
})

/**
 * What a resume found: lines `from`..`to` are gone for ever when `missed` > 0, and why. `damaged`: the node
 * lost an end of the log that nobody can count, and went on under another epoch; a line of the system says where.
 */
export const ResumeFrame = z.object({
  type: z.literal('resume_console'),
  serverId: z.string(),
  from: z.int(),
  to: z.int(),
  missed: z.int(),
  reason: z.enum(['trimmed', 'epoch', 'unknown_id', 'damaged']).nullable(),
  timestamp: IsoTime,
})
export type ResumeFrame = z.infer<typeof ResumeFrame>

/** The game waits for an agreement: sent to whoever begins to watch, and each time it is asked for. */
export const EulaFrame = z.object({
  type: z.literal('eula_required'),
  serverId: z.string(),
  serverUuid: z.string(),
  eulaServerUuid: z.string(),
  eulaText: z.string(),
  timestamp: IsoTime,
})
export type EulaFrame = z.infer<typeof EulaFrame>

const params = { serverId: ServerId }

export const streamConsole = defineStream({
  id: 'console.stream',
  tag: 'Servers',
  summary: 'Follow the console of a server; resumes without a loss by Last-Event-ID',
  path: '/api/servers/:serverId/console/stream',
  access: { server: ['console.read'] },
  params,
  query: z.object({
    /** How many lines before the first live one. */
    lines: z.coerce
      .number()
      .int()
      .min(0)
      .default(200)
      .transform((n) => Math.min(n, 2000)),
    /** The last line already seen; the header Last-Event-ID wins. */
    resume_console: LineId.optional(),
  }),
  events: {
    connected: ConsoleConnectedFrame,
    console: ConsoleFrame,
    resume_console: ResumeFrame,
    eula_required: EulaFrame,
  },
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'STREAM_LIMIT_REACHED'],
})

export const sendCommand = defineEndpoint({
  id: 'console.command',
  tag: 'Servers',
  summary: 'Send a command to the console of a server',
  method: 'POST',
  path: '/api/servers/:serverId/console/command',
  access: { server: ['console.write'] },
  params,
  body: z.object({
    command: z
      .string()
      .max(4096)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused
      .regex(/^[^\r\n\u0000]*$/, 'must be one line')
      .refine((text) => text.trim() !== '', 'must not be empty'),
  }),
  response: z.object({ sent: z.literal(true), timestamp: IsoTime }),
  status: 202,
  errors: [
    'SERVER_NOT_FOUND',
    'SERVER_SUSPENDED',
    'SERVER_INVALID_STATE',
    'CONSOLE_NO_INPUT',
    'CONSOLE_UNAVAILABLE',
    'NODE_OFFLINE',
    'AGENT_TIMEOUT',
    'AGENT_ERROR',
    'AGENT_VERSION',
    'RATE_LIMITED',
  ],
  audit: { action: 'server.console_command' },
})

/** A line as log pages carry it. */
export const LogLine = z.object({
  id: LineId,
  seq: z.int(),
  stream: LineStream,
  data: z.string(),
  timestamp: IsoTime,
  partial: z.literal(true).optional(),
})
export type LogLine = z.infer<typeof LogLine>

/** A position in the log: a line id or an instant. */
const Position = z.union([LineId, z.iso.datetime()])

export const getLogs = defineEndpoint({
  id: 'console.logs',
  tag: 'Servers',
  summary: 'Read a page of the log of a server, oldest first',
  method: 'GET',
  path: '/api/servers/:serverId/logs',
  access: { server: ['console.read'] },
  params,
  query: z.object({
    lines: z.coerce
      .number()
      .int()
      .min(1)
      .default(100)
      .transform((n) => Math.min(n, 2000)),
    stream: LineStream.optional(),
    before: Position.optional(),
    after: Position.optional(),
  }),
  response: z.object({
    logs: z.array(LogLine),
    count: z.int(),
    requestedLines: z.int(),
    /** What the whole log holds. */
    epoch: z.string().nullable(),
    firstSeq: z.int(),
    lastSeq: z.int(),
  }),
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'NODE_OFFLINE', 'AGENT_TIMEOUT', 'AGENT_ERROR', 'AGENT_VERSION'],
})
