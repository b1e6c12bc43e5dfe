import { type Clock, isoTime } from '../../shared/time.ts'
import type { Bus } from '../core/bus.ts'
import type { Db } from '../core/db.ts'
import type { Idempotency } from '../core/idempotency.ts'
import type { Log } from '../core/log.ts'

const HOUR = 3_600_000
const EVENTS_KEPT = 50_000
const EVENT_DAYS_MS = 24 * HOUR
const COMMANDS_KEPT_MS = 7 * 24 * HOUR

/** What the hourly upkeep works on. */
interface UpkeepDeps {
  readonly db: Db
  readonly bus: Bus
  readonly clock: Clock
  readonly log: Log
  readonly idempotency: Idempotency
}

/** Forgets, once an hour, what has served its time: events, answers, sessions, tokens, ended orders. */
export function startUpkeep(deps: UpkeepDeps, signal: AbortSignal): void {
  void loop(deps, signal)
}

async function loop(deps: UpkeepDeps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await once(deps)
    } catch (err) {
      deps.log.error({ err }, 'upkeep failed; it is tried again in an hour')
    }
    await deps.clock.sleep(HOUR, signal)
  }
}

async function once({ db, bus, clock, idempotency }: UpkeepDeps): Promise<void> {
  const nowMs = clock.nowMs()
  await bus.prune(isoTime(nowMs - EVENT_DAYS_MS), EVENTS_KEPT)
  await idempotency.prune()
  await db.write(async (tx) => {
    await tx.q.deleteFrom('session').where('expiresAt', '<', tx.now).execute()
    await tx.q.deleteFrom('loginChallenge').where('expiresAt', '<', tx.now).execute()
    await tx.q.deleteFrom('mailedToken').where('expiresAt', '<', tx.now).execute()
    await tx.q
      .deleteFrom('deploymentToken')
      .where('expiresAt', '<', isoTime(nowMs - EVENT_DAYS_MS))
      .execute()
    await tx.q
      .deleteFrom('command')
      .where('endedAt', '<', isoTime(nowMs - COMMANDS_KEPT_MS))
      .execute()
  })
}
