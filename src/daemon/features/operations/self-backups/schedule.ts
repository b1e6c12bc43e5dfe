import { z } from 'zod'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { nextTime as cronTime } from '../../../core/cron.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import { findByRef, type StoreRow } from '../stores/rows.ts'
import { defaultStore } from '../stores/store-for.ts'
import { addBackup } from './create-job.ts'
import type { SelfBackupDeps } from './deps.ts'
import { lastScheduled } from './rows.ts'
import { fingerprintOf, type SealedKey } from './sealed-key.ts'

/** Adds a backup at each time of the cron line. One that was missed while the daemon did not run is made at its next start, once. */
const SCHEDULE = defineJob({
  kind: 'self_backups.schedule',
  input: z.object({}),
  state: z.object({}),
  first: () => ({}),
  title: () => 'Schedule of self-backups',
  pool: { name: 'system', size: 4 },
  lane: () => 'self-backup-schedule',
  ordered: false,
  background: true,
  plan: () => [{ step: 'due', name: 'due' }],
})

/** The next time of the schedule after then; `null` where there is none. */
export function nextTime(settings: Pick<Settings, 'get'>, afterMs: number): IsoTime | null {
  const cron = settings.get('selfBackup.cron')
  if (cron === null) return null
  return cronTime({ cron, timeZone: settings.get('panel.timezone') }, afterMs)
}

/** The store of scheduled backups, and of those that name none. Fails with BACKUP_STORE_NOT_FOUND. */
export async function scheduledStore({ db, settings }: Pick<SelfBackupDeps, 'db' | 'settings'>): Promise<StoreRow> {
  const named = settings.get('selfBackup.store')
  const store = named === null ? undefined : await findByRef(db.read, named)
  return store ?? defaultStore(db.read, settings)
}

/** Gives the engine the schedule, and follows the time zone, which others change. */
export function registerSchedule(jobs: SelfBackupDeps['jobs'], deps: SelfBackupDeps): () => void {
  const { clock, settings, log, systemErrors, credentialKey } = deps
  jobs.register(SCHEDULE, {
    steps: {
      due: {
        attempts: Number.POSITIVE_INFINITY,
        run: async () => {
          if (nextTime(settings, clock.nowMs()) === null) return undefined
          // As the settings are when the run is committed: a change before that finds the job running and leaves its time alone.
          const again = () => {
            const next = nextTime(settings, clock.nowMs())
            return next === null ? {} : { after: { kind: 'again' as const, atMs: Date.parse(next) } }
          }
          try {
            const store = await scheduledStore(deps)
            const key = sealedFor(settings, credentialKey)
            const keep = settings.get('selfBackup.keep')
            return async (tx) => {
              await addBackup(tx, deps, { store, cause: 'schedule', key, keep })
              return again()
            }
          } catch (error) {
            log.error({ err: error }, 'scheduled self-backup cannot begin')
            systemErrors.capture(error, { component: 'self-backup' })
            return async () => again()
          }
        },
      },
    },
  })
  return settings.onChange((key) => {
    if (key !== 'panel.timezone') return
    // Times count from the change on, however long the writer is busy before it comes to this.
    const changedMs = clock.nowMs()
    deps.db
      .write((tx) => reschedule(tx, deps, changedMs))
      .catch((err: unknown) => log.error({ err }, 'cannot move schedule of self-backups'))
  })
}

/**
 * Begins with it at a start of the daemon: from the last backup that it has made, so that a missed one is made now. One that a clock
 * has dated which was ahead holds none up.
 */
export async function beginSchedule(tx: Tx, deps: SelfBackupDeps): Promise<void> {
  const nowMs = deps.clock.nowMs()
  const last = await lastScheduled(tx.q)
  await reschedule(tx, deps, last === undefined ? nowMs : Math.min(Date.parse(last.createdAt), nowMs))
}

/** Moves the schedule to its first time after then, by the settings as this transaction sees them. */
export async function reschedule(tx: Tx, { jobs, settings }: SelfBackupDeps, afterMs: number): Promise<void> {
  const [cron, timeZone] = [await settings.read(tx, 'selfBackup.cron'), await settings.read(tx, 'panel.timezone')]
  const next = cron === null ? null : cronTime({ cron, timeZone }, afterMs)
  if (next === null) await jobs.queue.forget(tx, SCHEDULE.kind)
  else {
    const at = next < tx.now ? tx.now : next
    await jobs.queue.schedule(tx, SCHEDULE, { input: {}, cause: 'settings', key: SCHEDULE.kind, at })
  }
}

/** The sealed key that goes into the schedule's backups. One of another credential key would restore nothing. */
function sealedFor(settings: Pick<Settings, 'get'>, credentialKey: string | undefined): SealedKey | undefined {
  const stored = settings.get('install.selfBackupKey')
  if (stored === null) return undefined
  const { key, fingerprint } = stored
  if (credentialKey !== undefined && fingerprintOf(credentialKey) === fingerprint) return key
  throw new Error(
    'The credential key has changed since the passphrase of scheduled self-backups was set: set it again with panel self-backup schedule --passphrase-stdin',
  )
}
