import { Cron } from 'croner'
import { z } from 'zod'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import { findByRef, type StoreRow } from '../stores/rows.ts'
import { defaultStore } from '../stores/store-for.ts'
import { addBackup } from './create-job.ts'
import type { SelfBackupDeps } from './deps.ts'
import { lastScheduled } from './rows.ts'
import { fingerprintOf, type SealedKey } from './sealed-key.ts'

const SETTINGS_OF_IT = new Set(['selfBackup.cron', 'panel.timezone'])

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

/** Fails with VALIDATION_ERROR for what is no cron line of five fields. */
export function checkCron(cron: string): void {
  const isFive = cron.trim().split(/\s+/).length === 5
  try {
    if (isFive && new Cron(cron, { paused: true }).nextRun() !== null) return
  } catch {
    // not a pattern at all: the refusal below says what one looks like
  }
  throw fieldError('body.cron', 'must be five fields of cron that some time fits, such as 30 3 * * *')
}

/** The next time of the schedule after then; `null` where there is none. */
export function nextTime(settings: Pick<Settings, 'get'>, afterMs: number): IsoTime | null {
  const cron = settings.get('selfBackup.cron')
  if (cron === null) return null
  const timezone = settings.get('panel.timezone')
  const next = new Cron(cron, { paused: true, timezone }).nextRun(new Date(afterMs))
  return next === null ? null : isoTime(next.getTime())
}

/** The store of scheduled backups, and of those that name none. Fails with BACKUP_STORE_NOT_FOUND. */
export async function scheduledStore({ db, settings }: Pick<SelfBackupDeps, 'db' | 'settings'>): Promise<StoreRow> {
  const named = settings.get('selfBackup.store')
  const store = named === null ? undefined : await findByRef(db.read, named)
  return store ?? defaultStore(db.read, settings)
}

/** Gives the engine the schedule, and follows changes of it. */
export function registerSchedule(jobs: SelfBackupDeps['jobs'], deps: SelfBackupDeps): () => void {
  const { clock, settings, log, systemErrors, credentialKey } = deps
  jobs.register(SCHEDULE, {
    steps: {
      due: {
        attempts: Number.POSITIVE_INFINITY,
        run: async () => {
          const next = nextTime(settings, clock.nowMs())
          if (next === null) return undefined
          const again = { after: { kind: 'again' as const, atMs: Date.parse(next) } }
          try {
            const store = await scheduledStore(deps)
            const key = sealedFor(settings, credentialKey)
            const keep = settings.get('selfBackup.keep')
            return async (tx) => {
              await addBackup(tx, deps, { store, cause: 'schedule', key, keep })
              return again
            }
          } catch (error) {
            log.error({ err: error }, 'scheduled self-backup cannot begin')
            systemErrors.capture(error, { component: 'self-backup' })
            return async () => again
          }
        },
      },
    },
  })
  return settings.onChange((key) => {
    if (!SETTINGS_OF_IT.has(key)) return
    deps.db
      .write((tx) => reschedule(tx, deps, clock.nowMs()))
      .catch((err: unknown) => log.error({ err }, 'cannot move schedule of self-backups'))
  })
}

/** Begins with it at a start of the daemon: from the last backup that it has made, so that a missed one is made now. */
export async function beginSchedule(tx: Tx, deps: SelfBackupDeps): Promise<void> {
  const last = await lastScheduled(tx.q)
  await reschedule(tx, deps, last === undefined ? deps.clock.nowMs() : Date.parse(last.createdAt))
}

async function reschedule(tx: Tx, { jobs, settings }: SelfBackupDeps, afterMs: number): Promise<void> {
  const next = nextTime(settings, afterMs)
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
