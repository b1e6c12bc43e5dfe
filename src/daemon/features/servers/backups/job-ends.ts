import { createHash } from 'node:crypto'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Tx } from '../../../db/db.ts'
import type { After } from '../../../jobs/job-type.ts'
import { isFinal } from '../files/long-work.ts'
import type { BackupDeps } from './deps.ts'

/** A node that comes back wakes what waits for it; this is for when nobody has noticed. */
const LOOK_AGAIN_MS = 5 * 60_000
export const DAY_MS = 24 * 3600_000

/** Names what an attempt leaves on a node, the same for each attempt of a job. */
export function keyOf(jobId: string): string {
  return createHash('sha256').update(jobId).digest('hex').slice(0, 32)
}

/**
 * What becomes of a failed attempt: `undefined` to have it thrown (it is tried again after a while), to wait for a node that is away, or
 * the end.
 */
export function afterFailure(deps: Pick<BackupDeps, 'clock'>, error: unknown, signal: AbortSignal): After | undefined {
  if (signal.aborted) return undefined
  if (error instanceof PanelError && error.code === 'NODE_OFFLINE') {
    return { kind: 'again', atMs: deps.clock.nowMs() + LOOK_AGAIN_MS }
  }
  if (!isFinal(error)) return undefined
  return { kind: 'fail', error: error.message, code: error.code }
}

/** Why a job has ended without success, for people; called while it ends. */
export async function reasonOf(tx: Tx, jobId: string, status: 'failed' | 'cancelled'): Promise<string> {
  if (status === 'cancelled') return 'It was cancelled'
  const step = await tx.q
    .selectFrom('jobStep')
    .select('error')
    .where('jobId', '=', jobId)
    .where('status', '=', 'failed')
    .orderBy('number', 'desc')
    .executeTakeFirst()
  return step?.error ?? 'It has failed'
}
