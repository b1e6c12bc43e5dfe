import { PanelError } from '../../../../shared/kernel/errors.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import type { Actor } from '../../../access/audit.ts'
import type { Tx } from '../../../db/db.ts'
import { type DatabaseRow, findRow, forget, move } from './database-rows.ts'
import type { DatabaseDeps } from './deps.ts'
import type { Dialect } from './dialect.ts'
import { withHost } from './host-connection.ts'
import { HostFailure } from './host-failure.ts'
import { findHostRow } from './host-rows.ts'
import { addressOf, databasePlace, opened } from './secrets.ts'

/** For whom something is finished; without `actor` the daemon does it for who asked for it. */
export interface Finishing {
  readonly actor?: Actor
  readonly signal?: AbortSignal
  /** How long the host may take, where nobody waits for an answer: a large database is not dropped in seconds. */
  readonly withinMs?: number
}

const FIRST_PAUSE_MS = 15_000
const LONGEST_PAUSE_MS = 3_600_000

/**
 * Brings a row that is not `ready` to its end: undoes a creation, removes a database, sets a password. Every step may be done
 * again. When the host fails, the row waits for a later attempt, longer each time, it is told in the system errors, and the
 * failure is thrown.
 */
export async function finish(deps: DatabaseDeps, id: string, how: Finishing = {}): Promise<void> {
  const { db } = deps
  const row = await findRow(db.read, id)
  if (row === undefined || row.state === 'ready') return
  if (row.state === 'planned') {
    await db.write((tx) => forget(tx, id, ['planned']))
    return
  }
  try {
    await onHost(deps, row, how)
    await db.write((tx) => settled(deps, tx, row, how))
  } catch (error) {
    const failure = asFailure(error)
    if (failure === undefined) throw error
    await postpone(deps, row, failure)
    throw failure
  }
}

/** A host's failure, and a key that is missing, which only an operator can help; `undefined` for anything else. */
function asFailure(error: unknown): HostFailure | undefined {
  if (error instanceof HostFailure) return error
  const noKey = error instanceof PanelError && error.code === 'CREDENTIAL_ENCRYPTION_KEY_MISSING'
  return noKey ? new HostFailure('key', error.message, { undone: true }) : undefined
}

async function onHost({ db, clock, vault }: DatabaseDeps, row: DatabaseRow, how: Finishing): Promise<void> {
  const host = await findHostRow(db.read, row.hostId)
  if (host === undefined) return // the host was deleted by force, and the row with it
  const address = addressOf(vault, host)
  const { signal, withinMs } = how
  const limits = { ...(signal === undefined ? {} : { signal }), ...(withinMs === undefined ? {} : { withinMs }) }
  await withHost({ clock, address, ...limits }, (dialect) => carryOut(dialect, row, vault))
}

async function carryOut(dialect: Dialect, row: DatabaseRow, vault: DatabaseDeps['vault']): Promise<void> {
  if (row.state !== 'rotating') return dialect.remove(row, row.state === 'deleting')
  const sealed = row.pendingPassword ?? row.password
  return dialect.setPassword(row, opened(vault, databasePlace(row.id), sealed))
}

/** Writes what the host has done. A row that has moved on meanwhile, because its server was deleted, is left to its next turn. */
async function settled(deps: DatabaseDeps, tx: Tx, row: DatabaseRow, { actor }: Finishing): Promise<void> {
  const { bus, audit } = deps
  const by = actor ?? {
    caller: undefined,
    origin: null,
    ...(row.requestedBy === null ? {} : { userId: row.requestedBy }),
  }
  const who = by.caller?.userId ?? by.userId ?? null
  const named = { databaseId: row.id, databaseName: row.name }
  const server = row.serverId === null ? {} : { serverId: row.serverId }
  if (row.state === 'rotating') {
    const password = row.pendingPassword ?? row.password
    const done = { state: 'ready', password, pendingPassword: null, attempts: 0, lastError: null } as const
    if (!(await move(tx, row.id, ['rotating'], done))) return
    await audit.record(tx, by, {
      action: 'database.rotate',
      resource: 'database',
      resourceId: row.id,
      details: { serverId: row.serverId, name: row.name },
    })
    return bus.append(tx, { type: 'database_password_rotated', ...server, data: { ...named, rotatedBy: who } })
  }
  if (!(await forget(tx, row.id, ['creating', 'undoing', 'deleting']))) return
  if (row.state === 'deleting') {
    await bus.append(tx, { type: 'database_deleted', ...server, data: { ...named, deletedBy: who } })
  }
}

async function postpone(deps: DatabaseDeps, row: DatabaseRow, failure: HostFailure): Promise<void> {
  const { db, clock, log, systemErrors } = deps
  const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** row.attempts)
  const attempts = row.attempts + 1
  await db.write(async (tx) => {
    await tx.q
      .updateTable('serverDatabase')
      .set({ attempts, lastError: failure.message, nextAttemptAt: isoTime(clock.nowMs() + pause) })
      .where('id', '=', row.id)
      .where('state', '=', row.state)
      .execute()
  })
  const facts = { databaseId: row.id, hostId: row.hostId, name: row.name, state: row.state, attempts }
  log.warn({ ...facts, reason: failure.reason, error: failure.message }, 'a database host could not be asked')
  const sentence = `${SENTENCES[row.state]}: ${failure.message}`
  systemErrors.capture(new Error(sentence), {
    component: 'databases',
    level: 'warn',
    metadata: { ...facts, reason: failure.reason, nextAttemptInSeconds: Math.round(pause / 1000) },
  })
}

const SENTENCES: Readonly<Record<DatabaseRow['state'], string>> = {
  planned: 'A database could not be made',
  creating: 'What is left of a database whose creation failed could not be removed',
  ready: 'A database could not be changed',
  rotating: 'The password of a database could not be set',
  undoing: 'What is left of a database whose creation failed could not be removed',
  deleting: 'A deleted database could not be removed',
}
