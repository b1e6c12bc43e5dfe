import { type DestinationStream, type Logger, pino } from 'pino'
import { terminalText } from '../../shared/kernel/terminal-text.ts'

/** Structured logging: `msg` is always the same sentence, values are fields. */
export type Log = Logger

/** `json`: one object per line; `pretty`: for a person at a terminal. */
export type LogFormat = 'json' | 'pretty'

const SECRETS = [
  'authorization', 'cookie', 'password', 'newPassword', 'currentPassword', 'token', 'apiKey', 'key', 'secret',
  'secretHash', 'deploymentToken', 'setupToken', 'nodeKey',
] // biome-ignore format: a list

/** A logger to standard output in this format. */
export async function openLog({ level, format }: { level: string; format: LogFormat }): Promise<Log> {
  if (format === 'json') return createLog({ level })
  // Loaded here: a daemon without a terminal never needs it.
  const { prettyFactory } = await import('pino-pretty')
  const line = prettyFactory({ colorize: process.stdout.isTTY === true })
  // What stands in a log comes from plugins, nodes and other machines as well.
  const write = (json: string): void => void process.stdout.write(terminalText(line(json), { colours: true }))
  return createLog({ level, destination: { write } })
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
