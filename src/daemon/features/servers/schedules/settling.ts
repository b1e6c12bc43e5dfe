import type { Clock } from '../../../../shared/kernel/time.ts'

/** Nodes may need so long to come back after a start of the daemon. */
const SETTLING_MS = 60_000
/** How often is looked meanwhile. */
export const SETTLING_LOOK_MS = 1000

/** Whether the daemon, which starts now, has started so recently that a node that is away may be on its way back. */
export function settlingSince(clock: Pick<Clock, 'monotonicMs'>): () => boolean {
  const startedMs = clock.monotonicMs()
  return () => clock.monotonicMs() - startedMs < SETTLING_MS
}
