import { parseDuration } from '../../shared/kernel/clock.ts'
import { usage } from './failure.ts'
import type { Run } from './run.ts'

/** The instant that `--since` and the like name, as ISO-8601: an instant, or a duration before now such as `10m`. */
export function instantOf(run: Pick<Run, 'args' | 'clock'>, option: string): string | undefined {
  const text = run.args.text(option)
  if (text === undefined) return undefined
  const before = parseDuration(text)
  if (before !== undefined) return new Date(run.clock.nowMs() - before).toISOString()
  const at = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(at))
    throw usage(`--${option} must be a time such as 2026-01-31T12:00:00Z or a duration such as 10m, not '${text}'`)
  return new Date(at).toISOString()
}

/** The instant that `--expires` and the like name, as ISO-8601: an instant, or a duration from now such as `7d`. */
export function endOf(run: Pick<Run, 'args' | 'clock'>, option: string): string | undefined {
  const text = run.args.text(option)
  if (text === undefined) return undefined
  const after = parseDuration(text)
  if (after !== undefined) return new Date(run.clock.nowMs() + after).toISOString()
  const at = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(at))
    throw usage(`--${option} must be a time such as 2026-01-31T12:00:00Z or a duration such as 7d, not '${text}'`)
  return new Date(at).toISOString()
}
