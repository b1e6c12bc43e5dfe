import { z } from 'zod'
import { type Clock, isoTime } from '../../../../shared/kernel/time.ts'
import { trimAudit } from '../../../access/audit-chain.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Log } from '../../../core/log.ts'
import type { Settings } from '../../../core/settings.ts'
import type { SystemErrors } from '../../../core/system-errors.ts'
import type { Db, Tx } from '../../../db/db.ts'
import type { Idempotency } from '../../../http/idempotency.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { pruneJobs } from '../../../jobs/rows.ts'
import { pruneAlerts } from '../../signals/alerts/alert-rows.ts'
import { pruneErrors } from '../../signals/system-errors/rows.ts'
import { pruneDeliveries } from '../../signals/webhooks/delivery-rows.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** An error that has not happened for so long is forgotten, resolved or not. */
const ERROR_DAYS = 30
/** What was resolved, sent or given up so long ago is forgotten. */
const ALERT_DAYS = 90
const DELIVERY_DAYS = 30
const EVENTS_KEPT = 50_000
const EVENT_DAYS_MS = 24 * HOUR
const COMMANDS_KEPT_MS = 7 * 24 * HOUR

/** Jobs that have ended are shown so long, and so many of them. */
const JOB_DAYS = 30
const JOBS_KEPT = 10_000

/** What the hourly upkeep works on. */
interface UpkeepDeps {
  readonly db: Db
  readonly bus: Bus
  readonly clock: Clock
  readonly log: Log
  readonly idempotency: Idempotency
  readonly settings: Settings
  readonly systemErrors: SystemErrors
}

/** Forgets, once an hour, what has served its time: events, answers, sessions, tokens, ended orders and jobs, old records. */
export const UPKEEP = defineJob({
  kind: 'system.upkeep',
  input: z.object({}),
  state: z.object({}),
  first: () => ({}),
  title: () => 'Upkeep',
  pool: { name: 'system', size: 4 },
  lane: () => 'upkeep',
  ordered: false,
  background: true,
  plan: () => [{ step: 'prune', name: 'prune' }],
})

/** Has the engine do the upkeep. */
export function registerUpkeep(jobs: Jobs, deps: UpkeepDeps): void {
  const { clock, log, systemErrors } = deps
  jobs.register(UPKEEP, {
    steps: {
      prune: {
        attempts: Number.POSITIVE_INFINITY,
        timeoutMs: HOUR / 2,
        run: async () => {
          try {
            await once(deps)
          } catch (err) {
            log.error({ err }, 'upkeep failed, retrying in an hour')
            systemErrors.capture(err, { component: 'upkeep' })
          }
          const atMs = clock.nowMs() + HOUR
          return async () => ({ after: { kind: 'again', atMs } })
        },
      },
    },
  })
}

/** Begins with it now, at a start of the daemon. */
export async function beginUpkeep(tx: Tx, { queue }: Jobs): Promise<void> {
  await queue.schedule(tx, UPKEEP, { input: {}, cause: 'upkeep', key: UPKEEP.kind, at: tx.now })
}

async function once({ db, bus, clock, idempotency, settings, log }: UpkeepDeps): Promise<void> {
  const nowMs = clock.nowMs()
  await bus.prune(isoTime(nowMs - EVENT_DAYS_MS), EVENTS_KEPT)
  await idempotency.prune()
  await pruneErrors(db, isoTime(nowMs - ERROR_DAYS * DAY))
  await pruneDeliveries(db, isoTime(nowMs - DELIVERY_DAYS * DAY))
  await pruneJobs(db, isoTime(nowMs - JOB_DAYS * DAY), JOBS_KEPT)
  await pruneAlerts(db, isoTime(nowMs - ALERT_DAYS * DAY))
  const removed = await trimAudit(db, isoTime(nowMs - settings.get('audit.retentionDays') * DAY))
  if (removed > 0) log.info({ removed }, 'removed old audit log rows')
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
