import { jsonText, terminalText } from '../shared/kernel/terminal-text.ts'
import { systemClock } from '../shared/kernel/time.ts'
import { type LogOutput, openLogOutput } from '../shared/platform/log-output.ts'
import type { AgentConfig } from './config.ts'
import { type AgentLog, errorText } from './logger.ts'

const ORDER = ['debug', 'info', 'warn', 'error']

/** The log of `panel agent run` on standard output, in the field names and the look of the daemon's; whoever ends the process flushes it first. */
export async function openAgentLog({
  logLevel,
  logFormat,
}: Pick<AgentConfig, 'logLevel' | 'logFormat'>): Promise<{ log: AgentLog; output: LogOutput }> {
  const format = logFormat === 'pretty' ? await prettyLine() : (entry: object) => `${jsonText(entry)}\n`
  const write =
    (level: 'info' | 'warn' | 'error') =>
    (fields: Readonly<Record<string, unknown>>, msg: string): void => {
      if (ORDER.indexOf(level) < ORDER.indexOf(logLevel)) return
      const shown = Object.fromEntries(
        Object.entries(fields).map(([name, value]) => [name, value instanceof Error ? errorText(value) : value]),
      )
      const time = new Date(systemClock.nowMs()).toISOString()
      output.write(terminalText(format({ level, time, component: 'agent', ...shown, msg }), { colours: true }))
    }
  const log = { info: write('info'), warn: write('warn'), error: write('error') }
  const output = openLogOutput({
    clock: systemClock,
    onLost: (lines) => log.error({ lines }, 'log lines are lost, the log could not be written'),
  })
  return { log, output }
}

/** Loaded here: an agent without a terminal never needs it. */
async function prettyLine(): Promise<(entry: object) => string> {
  const { prettyFactory } = await import('pino-pretty')
  return prettyFactory({})
}
