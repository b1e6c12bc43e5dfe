import type { ConsoleLine, LogBounds } from '../shared/frames.ts'

/** The reading side of a server's console log, as the agent uses it. Numbers run without a hole within the bounds. */
export interface ConsoleLog {
  bounds(): Promise<LogBounds>
  /** Lines after `seq`, oldest first, as many as fit; at least one when there is one. */
  after(seq: number, max: { readonly lines: number; readonly bytes: number }): Promise<readonly ConsoleLine[]>
  /** The newest lines before `seq` that fit, oldest first. */
  before(seq: number, max: { readonly lines: number; readonly bytes: number }): Promise<readonly ConsoleLine[]>
  /** Resolves when there is a line after `seq`, or when `signal` aborts. */
  waitAfter(seq: number, signal: AbortSignal): Promise<void>
}
