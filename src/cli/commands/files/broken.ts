import { PanelError } from '../../../shared/kernel/errors.ts'
import { NoConnection } from '../../kit/failure.ts'
import type { Run } from '../../kit/run.ts'

const MOST = 6
const WAIT_MS = 500

/** Failures of a moment: of the connection, or of the node's. */
const PASSING: ReadonlySet<string> = new Set([
  'AGENT_TIMEOUT',
  'AGENT_ERROR',
  'NODE_OFFLINE',
  'SHUTTING_DOWN',
  'RATE_LIMITED',
])

/** Whether a transfer that failed is worth another attempt. */
export function isBroken(error: unknown): boolean {
  if (error instanceof PanelError) return PASSING.has(error.code)
  return error instanceof NoConnection || (error instanceof TypeError && error.message === 'terminated')
}

/** Waits for the next attempt; throws the failure itself when there were enough without any progress. */
export async function beforeNext(run: Run, attempt: number, error: unknown): Promise<void> {
  if (run.signal.aborted || attempt >= MOST || !isBroken(error)) throw error
  run.notice('the connection broke, going on where it was')
  await run.clock.sleep(WAIT_MS * 2 ** Math.min(attempt, 4), run.signal)
}
