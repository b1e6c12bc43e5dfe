import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Clock } from '../../shared/kernel/time.ts'
import { GATEWAY_LIMITS } from '../../shared/protocol/frames.ts'

const STALL_MS = 5000

/**
 * Pings every 10 s and ends a connection on which no byte has come for 30 s. When this process itself was held up for more
 * than 5 s, what came meanwhile may still lie unread: then it looks once more before it decides.
 */
export async function watchLiveness(
  socket: WebSocket,
  stream: Duplex,
  watch: {
    readonly clock: Clock
    readonly signal: AbortSignal
    readonly onByte: () => void
    readonly onDead: () => void
    /** The daemon does not read the connection now, so silence says nothing. */
    readonly isPaused: () => boolean
  },
): Promise<void> {
  const { clock, signal } = watch
  let heardAt = clock.monotonicMs()
  let pingAt = heardAt + GATEWAY_LIMITS.pingMs
  // Bytes and not frames: a large frame on a slow line is a sign of life long before it is whole.
  stream.on('data', () => {
    heardAt = clock.monotonicMs()
    watch.onByte()
  })
  let stalled = false
  while (!signal.aborted && socket.readyState !== socket.CLOSED) {
    const now = clock.monotonicMs()
    if (watch.isPaused()) heardAt = now
    const deadline = heardAt + GATEWAY_LIMITS.deadMs
    if (now >= deadline && !stalled) {
      watch.onDead()
      socket.terminate()
      return
    }
    if (now >= pingAt && socket.readyState === socket.OPEN) {
      socket.ping(undefined, undefined, () => {}) // a failed ping shows as silence or as a close
      pingAt = now + GATEWAY_LIMITS.pingMs
    }
    const pauseMs: number = stalled ? STALL_MS / 5 : Math.max(1, Math.min(Math.max(pingAt, now + 1), deadline) - now)
    await clock.sleep(pauseMs, signal)
    stalled = clock.monotonicMs() - now > pauseMs + STALL_MS
  }
}
