import type { IncomingMessage } from 'node:http'
import { newIdSuffix } from '../../shared/kernel/ids.ts'
import type { Clock } from '../../shared/kernel/time.ts'

/** Ids that clients give, or fresh ones: random by the daemon's start, then counted, as they name and need not hide. */
export function requestIds(clock: Clock): (request: IncomingMessage) => string {
  const start = newIdSuffix(clock).slice(0, 18)
  let count = 0
  return ({ headers: { 'x-request-id': given } }) => {
    if (typeof given === 'string' && /^[A-Za-z0-9._-]{1,64}$/.test(given)) return given
    return start + (count++).toString(32).padStart(8, '0')
  }
}
