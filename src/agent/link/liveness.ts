import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Clock } from '../../shared/kernel/time.ts'
import { GATEWAY_LIMITS } from '../../shared/protocol/frames.ts'

const STALL_MS = 5000

/**
 * Pings every 10 s and ends a connection on which no byte has come for 30 s. When the agent's own timer was more than 5 s
 * late, what came meanwhile may still lie unread: then it looks once more before it decides.
 */
export async function watchLiveness(
  socket: WebSocket,
  stream: Duplex,
  watch: { readonly clock: Clock; readonly signal: AbortSignal; readonly onDead: () => void },
): Promise<void> {
  const { clock, signal, onDead } = watch
  let heardAt = clock.monotonicMs()
  let pingAt = heardAt + GATEWAY_LIMITS.pingMs
  // Bytes and not frames: a large frame on a slow line is a sign of life long before it is whole.
  stream.on('data', () => {
    heardAt = clock.monotonicMs()
  })
  let stalled = false
  while (!signal.aborted && socket.readyState === socket.OPEN) {
    const now = clock.monotonicMs()
    const deadline = heardAt + GATEWAY_LIMITS.deadMs
    if (now >= deadline && !stalled) {
      onDead()
      socket.terminate()
      return
    }
    if (now >= pingAt) {
      socket.ping(undefined, undefined, () => {}) // a failed ping shows as silence or as a close
      pingAt = now + GATEWAY_LIMITS.pingMs
    }
    const pauseMs: number = stalled ? STALL_MS / 5 : Math.max(1, Math.min(pingAt, deadline) - now)
    await clock.sleep(pauseMs, signal)
    stalled = clock.monotonicMs() - now > pauseMs + STALL_MS
  }
}
