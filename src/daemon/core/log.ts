import { type DestinationStream, type Logger, pino } from 'pino'
import pretty from 'pino-pretty'

/** Structured logging with the field names of style.md §4.5; `msg` is a constant sentence, values are fields. */
export type Log = Logger

/** `json`: one object per line; `pretty`: for a person at a terminal. */
export type LogFormat = 'json' | 'pretty'

const SECRETS = [
  'authorization', 'cookie', 'password', 'newPassword', 'currentPassword', 'token', 'apiKey', 'key', 'secret',
  'secretHash', 'deploymentToken', 'setupToken', 'nodeKey',
] // biome-ignore format: a list

/** A logger to `destination` (standard output). Fields that carry secrets are masked, two levels deep. */
export function createLog(options: { level: string; format: LogFormat; destination?: DestinationStream }): Log {
  const destination =
    options.destination ?? (options.format === 'pretty' ? pretty({ sync: true }) : pino.destination(1))
  return pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
      redact: { paths: SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '[masked]' },
    },
    destination,
  )
}
