import type { ConsoleLine, LogBounds } from '../../shared/protocol/console.ts'

/** The reading side of a server's console log, as the agent uses it. Numbers run without a hole within the bounds. */
export interface ConsoleLog {
  bounds(): Promise<LogBounds>
  /** The newest line when the log was last looked at. */
  readonly newest: number
  /** The epoch of a line that was just read. */
  epochOf(seq: number): string
  /** Lines of one epoch after `seq`, oldest first, as many as fit; at least one when there is one. */
  after(seq: number, max: { readonly lines: number; readonly bytes: number }): Promise<readonly ConsoleLine[]>
  /** The newest lines before `seq` that fit, oldest first. */
  before(seq: number, max: { readonly lines: number; readonly bytes: number }): Promise<readonly ConsoleLine[]>
  /** Resolves when there is a line after `seq`, when the log has another epoch than this, or when `signal` aborts. */
  waitAfter(seq: number, epoch: string | undefined, signal: AbortSignal): Promise<void>
}
