import { type DestinationStream, type Logger, pino } from 'pino'
import { terminalText } from '../../shared/kernel/terminal-text.ts'
import { systemClock } from '../../shared/kernel/time.ts'
import { type LogOutput, openLogOutput } from '../../shared/platform/log-output.ts'

/** Structured logging: `msg` is always the same sentence, values are fields. */
export type Log = Logger

/** `json`: one object per line; `pretty`: for a person at a terminal. */
export type LogFormat = 'json' | 'pretty'

const SECRETS = [
  'authorization', 'cookie', 'password', 'newPassword', 'currentPassword', 'token', 'apiKey', 'key', 'secret',
  'secretHash', 'deploymentToken', 'setupToken', 'nodeKey',
] // biome-ignore format: a list

/** A logger to standard output in this format, and that output: whoever ends the process flushes it first. */
export async function openLog({
  level,
  format,
}: {
  level: string
  format: LogFormat
}): Promise<{ log: Log; output: LogOutput }> {
  const shown = format === 'json' ? (json: string) => json : await prettyLine()
  const output = openLogOutput({
    clock: systemClock,
    onLost: (lines) => log.error({ lines }, 'log lines are lost, the log could not be written'),
  })
  const destination = { write: (json: string) => output.write(shown(json)), flushSync: () => output.flushSync() }
  const log = createLog({ level, destination })
  return { log, output }
}

/** Loaded here: a daemon without a terminal never needs it. */
async function prettyLine(): Promise<(json: string) => string> {
  const { prettyFactory } = await import('pino-pretty')
  const line = prettyFactory({ colorize: process.stdout.isTTY === true })
  // What stands in a log comes from plugins, nodes and other machines as well.
  return (json) => terminalText(line(json), { colours: true })
}

/** A logger of JSON lines to `destination` (standard output). Fields that carry secrets are masked, two levels deep. */
export function createLog(options: { level: string; destination?: DestinationStream }): Log {
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
      redact: { paths: SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '[masked]' },
    },
    options.destination ?? pino.destination(1),
  )
}
