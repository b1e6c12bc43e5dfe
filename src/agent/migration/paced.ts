import type { Clock } from '../../shared/kernel/time.ts'

/** What was not used while the other end had nothing is made up for by no more than this. */
const MOST_BEHIND_MS = 1000

/** The same bytes, and no more of them in a second than that; whoever sends them waits. Ends with the signal. */
export async function* paced(
  content: AsyncIterable<Uint8Array>,
  {
    bytesPerSecond,
    clock,
    signal,
  }: { readonly bytesPerSecond: number; readonly clock: Clock; readonly signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  let dueMs = clock.monotonicMs()
  for await (const piece of content) {
    dueMs = Math.max(dueMs, clock.monotonicMs() - MOST_BEHIND_MS) + (piece.length * 1000) / bytesPerSecond
    const waitMs = dueMs - clock.monotonicMs()
    if (waitMs > 0) await clock.sleep(waitMs, signal)
    signal.throwIfAborted()
    yield piece
  }
}
