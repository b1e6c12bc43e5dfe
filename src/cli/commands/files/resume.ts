import { type ErrorCode, PanelError } from '../../../shared/kernel/errors.ts'
import { CliFailure, NoConnection } from '../../kit/failure.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import type { Run } from '../../kit/run.ts'

const MOST = 6
const WAIT_MS = 500
const MOST_WAIT_S = 120

/** Failures of a moment: of the connection, or of the node's. */
const PASSING: readonly ErrorCode[] = ['AGENT_TIMEOUT', 'AGENT_ERROR', 'NODE_OFFLINE', 'SHUTTING_DOWN', 'RATE_LIMITED']

/** The connection has ended before all bytes had come, without saying so. */
export class Incomplete extends CliFailure {
  constructor() {
    super('UNREACHABLE', 'the connection ended before all bytes had come', { hint: 'run it again' })
  }
}

/** Waits for the next attempt; throws the failure itself when it is none of a moment, or after enough without any progress. */
export async function beforeNext(
  run: Run,
  error: unknown,
  { attempt, at, passing = [] }: { attempt: number; at: number; passing?: readonly ErrorCode[] },
): Promise<void> {
  if (run.signal.aborted || attempt >= MOST || !isPassing(error, passing)) throw error
  const reason = error instanceof PanelError ? error.message : 'connection lost'
  run.notice(`${reason}; resuming at ${byteSize(at)}`)
  await run.clock.sleep(Math.max(WAIT_MS * 2 ** Math.min(attempt, 4), retryAfterMs(error)), run.signal)
}

/** A request that was one too many says when the next one is not. */
function retryAfterMs(error: unknown): number {
  const seconds = error instanceof PanelError ? error.meta['retryAfterSeconds'] : undefined
  return typeof seconds === 'number' ? Math.min(seconds, MOST_WAIT_S) * 1000 : 0
}

/** Makes a request that a limit of requests lets through, at once or after a while. */
export async function patiently<T>(run: Run, ask: () => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await ask()
    } catch (error) {
      const isLimited = error instanceof PanelError && error.code === 'RATE_LIMITED'
      if (!isLimited || attempt >= MOST || run.signal.aborted) throw error
      await run.clock.sleep(Math.max(WAIT_MS, retryAfterMs(error)), run.signal)
    }
  }
}

function isPassing(error: unknown, passing: readonly ErrorCode[]): boolean {
  if (error instanceof PanelError) return PASSING.includes(error.code) || passing.includes(error.code)
  if (error instanceof Incomplete || error instanceof NoConnection) return true
  return error instanceof TypeError && error.message === 'terminated'
}
