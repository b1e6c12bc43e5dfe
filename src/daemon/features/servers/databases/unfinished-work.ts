import { rotateServerDatabase } from '../../../../shared/api/databases.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import { PANEL, type Principal, recordChange, userIdOf } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import type { StepEnd } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { type DatabaseRow, findRow, forget, move } from './database-rows.ts'
import { type DatabaseWork, FINISH_DATABASE } from './database-work.ts'
import type { DatabaseDeps } from './deps.ts'
import type { Dialect } from './dialect.ts'
import { withHost } from './host-connection.ts'
import { HostFailure } from './host-failure.ts'
import { findHostRow } from './host-rows.ts'
import { addressOf, databasePlace, opened } from './secrets.ts'

/** For whom something is finished. */
export interface Finishing {
  readonly principal: Principal
  readonly signal?: AbortSignal
  /** How long the host may take, where nobody waits for an answer: a large database is not dropped in seconds. */
  readonly withinMs?: number
}

/** What finishing needs. */
export type FinishDeps = DatabaseDeps & { readonly work: Pick<DatabaseWork, 'finishAt' | 'finished'> }

const FIRST_PAUSE_MS = 15_000
const LONGEST_PAUSE_MS = 3_600_000
/** How long a job waits for a host. */
const PATIENCE_MS = 300_000

/**
 * Brings a row that is not `ready` to its end: undoes a creation, removes a database, sets a password. Every step may be done
 * again. When the host fails, the row waits for its job, it is shown in the system errors, and the failure is thrown.
 */
export async function finish(deps: FinishDeps, id: string, how: Finishing = { principal: PANEL }): Promise<void> {
  const { db, clock, work } = deps
  const row = await findRow(db.read, id)
  if (row === undefined || row.state === 'ready') return
  const failure = await attempt(deps, row, how)
  if (failure === undefined) {
    await db.write(async (tx) => {
      await settled(deps, tx, row, how)
      const now = await findRow(tx.q, id)
      if (now === undefined || now.state === 'ready') await work.finished(tx, id)
    })
    return
  }
  await db.write(async (tx) => {
    await noteFailure(tx, row, failure)
    await work.finishAt(tx, id, isoTime(clock.nowMs() + FIRST_PAUSE_MS))
  })
  report(deps, row, { failure, attempts: 1, pauseMs: FIRST_PAUSE_MS })
  throw failure
}

/** Has the engine finish what no request has finished, with growing pauses while the host fails. */
export function registerDatabaseWork(jobs: Jobs, deps: DatabaseDeps): void {
  const { db } = deps
  jobs.register(FINISH_DATABASE, {
    steps: {
      finish: {
        attempts: Number.POSITIVE_INFINITY,
        timeoutMs: 2 * PATIENCE_MS,
        run: async ({ job, signal }) => {
          const row = await findRow(db.read, job.input.databaseId)
          if (row === undefined || row.state === 'ready') return (tx) => onward(tx, job.input.databaseId)
          const { id: jobId } = job
          const principal = { kind: 'job', jobId, onBehalfOf: row.requestedBy, cause: 'database' } as const
          const how = { principal, signal, withinMs: PATIENCE_MS }
          const failure = await attempt(deps, row, how)
          const afterMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(job.attempt - 1, 20))
          if (failure !== undefined) report(deps, row, { failure, attempts: job.attempt, pauseMs: afterMs })
          return async (tx) => {
            if (failure !== undefined) {
              await noteFailure(tx, row, failure)
              return { after: { kind: 'retry', error: failure.message, code: failure.reason, afterMs } }
            }
            await settled(deps, tx, row, how)
            // Its server may have been deleted meanwhile, and there is something new to finish.
            return onward(tx, row.id)
          }
        },
      },
    },
  })
}

/** Whether there is something to finish now that nobody had seen before. */
async function onward(tx: Tx, id: string): Promise<StepEnd<object> | undefined> {
  const now = await findRow(tx.q, id)
  return now === undefined || now.state === 'ready' ? undefined : { after: { kind: 'again', atMs: undefined } }
}

/** Asks the host once; a failure of the host is answered, any other is thrown. */
async function attempt(deps: DatabaseDeps, row: DatabaseRow, how: Finishing): Promise<HostFailure | undefined> {
  if (row.state === 'planned' || isLeftAlone(row)) return undefined // the host has not heard of it, or must not
  try {
    await onHost(deps, row, how)
    return undefined
  } catch (error) {
    const failure = asFailure(error)
    if (failure === undefined || how.signal?.aborted === true) throw error
    return failure
  }
}

/** What the panel does not manage is never removed from its host. */
function isLeftAlone({ managed, state }: DatabaseRow): boolean {
  return managed === 0 && state !== 'rotating'
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
async function settled(deps: DatabaseDeps, tx: Tx, row: DatabaseRow, { principal }: Finishing): Promise<void> {
  if (row.state === 'planned') return void (await forget(tx, row.id, ['planned']))
  const by = { deps, principal, endpoint: rotateServerDatabase }
  const who = userIdOf(principal)
  const named = { databaseId: row.id, databaseName: row.name }
  const server = row.serverId === null ? {} : { serverId: row.serverId }
  if (row.state === 'rotating') {
    const password = row.pendingPassword ?? row.password
    const done = { state: 'ready', password, pendingPassword: null, lastError: null } as const
    if (!(await move(tx, row.id, ['rotating'], done))) return
    return recordChange(tx, by, {
      audit: { resourceId: row.id, details: { serverId: row.serverId, name: row.name } },
      events: [{ type: 'database_password_rotated', ...server, data: { ...named, rotatedBy: who } }],
    })
  }
  if (!(await forget(tx, row.id, ['creating', 'undoing', 'deleting']))) return
  if (row.state === 'deleting') {
    // The audit row of the deletion was written when it was requested.
    const data = { ...named, deletedBy: who, dropped: !isLeftAlone(row) }
    await recordChange(tx, by, { events: [{ type: 'database_deleted', ...server, data }] })
  }
}

async function noteFailure(tx: Tx, row: DatabaseRow, failure: HostFailure): Promise<void> {
  await tx.q
    .updateTable('serverDatabase')
    .set({ lastError: failure.message })
    .where('id', '=', row.id)
    .where('state', '=', row.state)
    .execute()
}

function report(
  { log, systemErrors }: DatabaseDeps,
  row: DatabaseRow,
  {
    failure,
    attempts,
    pauseMs,
  }: { readonly failure: HostFailure; readonly attempts: number; readonly pauseMs: number },
): void {
  const facts = { databaseId: row.id, hostId: row.hostId, name: row.name, state: row.state, attempts }
  log.warn({ ...facts, reason: failure.reason, error: failure.message }, 'cannot query database host')
  const sentence = `${SENTENCES[row.state]}: ${failure.message}`
  systemErrors.capture(new Error(sentence), {
    component: 'databases',
    level: 'warn',
    metadata: { ...facts, reason: failure.reason, nextAttemptInSeconds: Math.round(pauseMs / 1000) },
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
