import { systemClock } from '../../shared/kernel/time.ts'
import type { LogOutput } from '../../shared/platform/log-output.ts'
import type { Log } from './log.ts'
import type { SystemErrors } from './system-errors.ts'

/** How long the writing of a last error may take. */
const LAST_WORDS_MS = 1500

/**
 * What nobody has caught. A promise that failed unheard is written down and the daemon goes on: other work has no part in it.
 * After an uncaught exception the state is unknown: it is written down, and the process ends with 1 for its supervisor.
 */
export function watchBugs(log: Log, output: LogOutput): { recordIn(systemErrors: SystemErrors): void } {
  let recorder: SystemErrors | undefined
  process.on('unhandledRejection', (err) => {
    log.error({ err }, 'unhandled promise rejection')
    recorder?.capture(err, { component: 'process' })
  })
  process.on('uncaughtException', (err) => {
    log.fatal({ err }, 'uncaught exception, daemon exits')
    recorder?.capture(err, { component: 'process', level: 'critical' })
    const written = Promise.all([recorder?.written(), output.flush()])
    void Promise.race([written, systemClock.sleep(LAST_WORDS_MS)]).finally(() => process.exit(1))
  })
  return {
    recordIn: (systemErrors) => {
      recorder = systemErrors
    },
  }
}
