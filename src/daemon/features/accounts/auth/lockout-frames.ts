import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Bus } from '../../../core/bus.ts'
import type { OpenStreams } from '../../../http/streams.ts'

/** Notifies an account's open streams of a lockout; they stay open. The returned function ends that. */
export function reportLockouts(deps: { bus: Bus; clock: Clock }, streams: OpenStreams): () => void {
  return deps.bus.listen(({ type, data }) => {
    if (type !== 'auth_lockout_created') return
    const { userId, lockedUntil } = data
    if (typeof userId !== 'string' || typeof lockedUntil !== 'string') return // an address as a whole
    const leftMs = Date.parse(lockedUntil) - deps.clock.nowMs()
    const retryAfterSeconds = Math.max(1, Math.ceil(leftMs / 1000))
    const message = `Too many failed sign-ins to your account: those from one address are refused for ${retryAfterSeconds} s`
    streams.report(userId, 'auth_lockout', { code: 'ACCOUNT_LOCKED', message, retryAfterSeconds })
  })
}
