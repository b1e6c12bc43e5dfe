import type { Clock } from '../../../shared/kernel/time.ts'
import type { LogLevel } from '../../../shared/protocol/plugin-frames.ts'
import type { Log } from '../../core/log.ts'
import { MASKED, maskSecrets, maskText } from '../../core/masking.ts'

/** Lines that a plugin may log within a second; those beyond are counted. */
const MOST_LINES_PER_SECOND = 100
const MOST_FIELDS_BYTES = 8 * 1024
/** Shorter texts stand in too many other words. */
const SHORTEST_SECRET = 6

/** Writes the lines of one plugin into the daemon's log: bounded, and without the secrets of its configuration. */
export class PluginLog {
  readonly #log: Log
  readonly #clock: Clock
  #secrets: readonly string[] = []
  #window = { sinceMs: 0, lines: 0 }

  constructor(log: Log, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** The values that are masked from now on wherever they stand. */
  hide(secrets: readonly string[]): void {
    this.#secrets = secrets.filter(({ length }) => length >= SHORTEST_SECRET)
  }

  /** The text without secrets. */
  clean(text: string): string {
    return maskText(this.#secrets.reduce((masked, secret) => masked.replaceAll(secret, MASKED), text))
  }

  write(level: LogLevel, text: string, fields?: unknown): void {
    if (!this.#mayWrite()) return
    const about = fields === undefined ? {} : { fields: this.#cleanFields(fields) }
    this.#log[level](about, this.clean(text))
  }

  #cleanFields(fields: unknown): unknown {
    const text = JSON.stringify(maskSecrets(fields)) ?? 'null'
    return text.length > MOST_FIELDS_BYTES ? 'too large' : this.clean(text)
  }

  #mayWrite(): boolean {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#window.sinceMs >= 1000) {
      const lost = this.#window.lines - MOST_LINES_PER_SECOND
      this.#window = { sinceMs: nowMs, lines: 0 }
      if (lost > 0) this.#log.warn({ lost }, 'plugin logs too much, lines dropped')
    }
    this.#window.lines += 1
    return this.#window.lines <= MOST_LINES_PER_SECOND
  }
}
