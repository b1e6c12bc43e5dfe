import { newIdSuffix } from '../shared/kernel/ids.ts'
import type { Clock } from '../shared/kernel/time.ts'
import { createAudit } from './access/audit.ts'
import { chainOldRows } from './access/audit-chain.ts'
import type { Config } from './config/config.ts'
import { createBus } from './core/bus.ts'
import type { Cleanup } from './core/cleanup.ts'
import type { Log } from './core/log.ts'
import { createMetrics } from './core/metrics.ts'
import { createVault } from './core/secrets.ts'
import { openSettings, type Settings } from './core/settings.ts'
import { ShortReads } from './core/short-reads.ts'
import { createSystemErrors } from './core/system-errors.ts'
import type { Db } from './db/db.ts'
import { createCredentials } from './features/accounts/auth/credentials.ts'
import { createDeliveries } from './features/accounts/auth/deliveries.ts'
import { createPasswords } from './features/accounts/auth/passwords.ts'
import { createSmtpMailer } from './features/signals/mail/smtp-mailer.ts'
import { createIdempotency } from './http/idempotency.ts'

/** What the core is made of. */
export interface CoreOptions {
  readonly config: Config
  readonly db: Db
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  readonly cleanup: Cleanup
}

/** What every slice works with. */
export type Core = CoreWiring['core']

/** The parts that all slices stand on, in the order in which they need each other. */
export type CoreWiring = Awaited<ReturnType<typeof wireCore>>

/** Makes them; what must be closed is handed to `cleanup`. */
export async function wireCore({ config, db, clock, log, version, cleanup }: CoreOptions) {
  const settings = await openSettings(db, config.fixed)
  await nameInstallation(db, settings, clock)
  const bus = createBus(db)
  await chainOldRows(db, log)
  const systemErrors = createSystemErrors({ db, bus, clock, log })
  cleanup.add(() => systemErrors.close())
  const audit = createAudit(bus, clock)
  const credentials = createCredentials({ db, clock, log })
  cleanup.add(() => credentials.close())
  const ended = new AbortController()
  cleanup.add(() => ended.abort())
  const metrics = createMetrics(version, ended.signal)
  const idempotency = createIdempotency(db, clock)
  const passwords = createPasswords()
  const vault = createVault(config.credentialKey)
  const mailer = createSmtpMailer({ settings, vault, log: log.child({ component: 'mail' }), ca: config.mailCa })
  cleanup.add(() => mailer.close())
  const deliveries = createDeliveries(log.child({ component: 'mail' }))
  cleanup.add(() => deliveries.close())
  const core = { db, bus, audit, clock, settings, credentials, log, vault, mailer, systemErrors }
  return { core, metrics, idempotency, passwords, deliveries, reads: new ShortReads() }
}

/** Gives a new installation its name, which event ids carry. */
async function nameInstallation(db: Db, settings: Settings, clock: Clock): Promise<void> {
  if (settings.get('install.epoch') === '')
    await db.write((tx) => settings.set(tx, 'install.epoch', newIdSuffix(clock)))
}
