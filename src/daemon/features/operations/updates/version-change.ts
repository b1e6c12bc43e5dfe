import { type IsoTime, now } from '../../../../shared/kernel/time.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Db } from '../../../db/db.ts'
import type { FinishedUpdate } from './updates.ts'

/** The versions of the database's schema before and after this start. */
export interface SchemaChange {
  readonly from: number
  readonly to: number
  /** The copy that was made before. */
  readonly snapshot: string | undefined
}

/** What a start is compared by. */
interface Start {
  readonly db: Db
  readonly bus: Bus
  readonly settings: Settings
  readonly clock: Parameters<typeof now>[0]
  readonly version: string
  readonly startedAt: IsoTime
  readonly schema: SchemaChange
}

/**
 * Writes down which version runs now, and announces it when another one ran before. `undefined`: the same one did, or this
 * is a new installation.
 */
export async function noteVersion(start: Start): Promise<FinishedUpdate | undefined> {
  const { db, bus, settings, clock, version, startedAt, schema } = start
  const from = settings.get('install.version')
  if (from === version) return undefined
  await db.write(async (tx) => {
    await settings.set(tx, 'install.version', version)
    if (from === '') return
    await bus.append(tx, {
      type: 'update_state_changed',
      data: { state: 'completed', previousVersion: from, targetVersion: version },
    })
  })
  if (from === '') return undefined
  return { from, startedAt, finishedAt: now(clock), log: [`${from} → ${version}`, ...schemaLines(schema)] }
}

function schemaLines({ from, to, snapshot }: SchemaChange): string[] {
  if (from === to) return []
  const copy = snapshot === undefined ? [] : [`the database as it was: ${snapshot}`]
  return [`database schema ${from} → ${to}`, ...copy]
}
