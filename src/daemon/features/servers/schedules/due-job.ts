import { z } from 'zod'
import type { TaskRunCause } from '../../../../shared/kernel/schedule.ts'
import { type Clock, type IsoTime, isoTime, now } from '../../../../shared/kernel/time.ts'
import { nextTime } from '../../../core/cron.ts'
import type { Log } from '../../../core/log.ts'
import type { SystemErrors } from '../../../core/system-errors.ts'
import type { Db, Tx } from '../../../db/db.ts'
import { isStorageFailure } from '../../../db/sqlite/failures.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { findServerRow, type ServerRow } from '../servers/rows.ts'
import { statusOf } from '../servers/view.ts'
import * as rows from './rows.ts'
import { beginRun, leaveOut, ownerOf, type RunDeps, runUnderWay } from './runs.ts'
import { SETTLING_LOOK_MS, settlingSince } from './settling.ts'

/** Looks which schedules are due. Their times stand in their rows: this job only knows when to look. */
export const DUE = defineJob({
  kind: 'schedules.due',
  input: z.object({}),
  state: z.object({}),
  first: () => ({}),
  title: () => 'Schedules that are due',
  pool: { name: 'schedules.due', size: 1 },
  lane: () => 'due',
  ordered: false,
  background: true,
  plan: () => [{ step: 'look', name: 'look' }],
})

/** What looking needs. */
export interface DueDeps extends RunDeps {
  readonly db: Db
  readonly clock: Clock
  readonly log: Log
  readonly systemErrors: Pick<SystemErrors, 'capture'>
  isOnline(nodeId: string): boolean
}

/** A run that begins so long after its time is on time. */
const LATE_MS = 60_000
/** It is looked at least so often, because the wall clock may be set meanwhile; a change of a schedule comes before that. */
const LONGEST_WAIT_MS = 300_000
const AT_ONCE = 10_000
/** A time that was counted by a clock so much further ahead is counted anew. */
const SET_BACK_MS = 5000
const PAGE = 200

/** Has the engine look. */
export function registerDue(jobs: Pick<Jobs, 'register'>, deps: DueDeps): void {
  const { clock } = deps
  const isSettling = settlingSince(clock)
  let isFirst = true
  jobs.register(DUE, {
    steps: {
      look: {
        attempts: Number.POSITIVE_INFINITY,
        timeoutMs: 3_600_000,
        run: async ({ signal }) => {
          if (isFirst) await timeAnew(deps, signal)
          isFirst = false
          await followClock(deps, signal)
          const waiting = await runAllDue(deps, { isSettling: isSettling(), signal })
          return async (tx) => {
            // Within the transaction: a change that comes after it has this job look again.
            const first = await rows.firstDue(tx.q)
            const nowMs = clock.nowMs()
            const waitMs = waiting ? SETTLING_LOOK_MS : LONGEST_WAIT_MS
            const nextMs = first === undefined || waiting ? Number.POSITIVE_INFINITY : Date.parse(first)
            return { after: { kind: 'again', atMs: Math.min(nextMs, nowMs + waitMs) } }
          }
        },
      },
    },
  })
}

/** Runs what is due, one after the other; whether some wait for a node that may be on its way back. */
async function runAllDue(
  deps: DueDeps,
  { isSettling, signal }: { readonly isSettling: boolean; readonly signal: AbortSignal },
): Promise<boolean> {
  const { db, clock, log, systemErrors } = deps
  let waiting = false
  for (const { id, nextRunAt, nodeId } of await rows.dueSchedules(db.read, now(clock), AT_ONCE)) {
    if (signal.aborted || nextRunAt === null) break
    if (isSettling && !deps.isOnline(nodeId)) {
      waiting = true
      continue
    }
    try {
      await db.write((tx) => runDue(tx, deps, { id, dueAt: nextRunAt }))
    } catch (err) {
      if (isStorageFailure(err)) throw err
      // One that cannot be begun holds up no other.
      log.error({ err, scheduleId: id }, 'cannot run schedule, it is due no more until it is saved again')
      systemErrors.capture(err, { component: 'schedules', metadata: { scheduleId: id } })
      await db.write((tx) => giveUp(tx, id))
    }
  }
  return waiting
}

/** Has it looked now which schedules are due next: after each change of one, and at a start. */
export async function lookForDue(tx: Tx, { queue }: Pick<Jobs, 'queue'>): Promise<void> {
  await queue.schedule(tx, DUE, { input: {}, cause: 'schedules', key: DUE.kind, at: tx.now })
}

/** When a schedule is due next after this moment, by its row; `null`: never. Throws where its cron text cannot be read. */
export function nextRunOf(
  { cron, timezone }: Pick<rows.ScheduleRow, 'cron' | 'timezone'>,
  afterMs: number,
): IsoTime | null {
  return nextTime({ cron, timeZone: timezone }, afterMs)
}

/** The same; one that cannot be read any more keeps its time, comes to it, and is given up there by itself. */
export function nextRunOrKept(
  row: Pick<rows.ScheduleRow, 'cron' | 'timezone' | 'nextRunAt'>,
  afterMs: number,
): IsoTime | null {
  try {
    return nextRunOf(row, afterMs) ?? row.nextRunAt
  } catch {
    return row.nextRunAt
  }
}

/** Counts times anew that a wall clock has given which was ahead and has been set back since. */
async function followClock({ db, clock, log }: DueDeps, signal: AbortSignal): Promise<void> {
  let [changed, isDone] = [0, false]
  while (!isDone && !signal.aborted) {
    const nowMs = clock.nowMs()
    const page = await rows.timedAfter(db.read, isoTime(nowMs + SET_BACK_MS), PAGE)
    if (page.length > 0) {
      await db.write(async (tx) => {
        for (const row of page)
          await rows.timeSchedule(tx, row.id, row.nextRunAt === null ? null : nextRunOrKept(row, nowMs))
      })
    }
    changed += page.length
    isDone = page.length < PAGE
  }
  if (changed > 0) log.warn({ schedules: changed }, 'clock was set back, rescheduled schedules')
}

/** Counts times that are ahead anew at a start: this runtime may know other changes of a zone's clocks than the one before. */
async function timeAnew({ db, clock, log }: DueDeps, signal: AbortSignal): Promise<void> {
  const at = now(clock)
  let [after, changed] = ['', 0]
  for (let isDone = false; !isDone && !signal.aborted; ) {
    const page = await rows.aheadSchedules(db.read, { at, after }, PAGE)
    const wrong = page.filter((row) => nextRunOrKept(row, Date.parse(at)) !== row.nextRunAt)
    if (wrong.length > 0) {
      await db.write(async (tx) => {
        for (const row of wrong) await rows.moveTime(tx, row, nextRunOrKept(row, Date.parse(at)))
      })
    }
    changed += wrong.length
    after = page.at(-1)?.id ?? after
    isDone = page.length < PAGE
  }
  if (changed > 0) log.info({ schedules: changed }, 'times of schedules were counted anew')
}

/** Begins what is due or says why not, and moves the schedule to its next time, in one transaction: no time counts twice. */
async function runDue(
  tx: Tx,
  deps: DueDeps,
  { id, dueAt }: { readonly id: string; readonly dueAt: IsoTime },
): Promise<void> {
  const found = tx.q.selectFrom('schedule').selectAll().where('id', '=', id).where('nextRunAt', '=', dueAt)
  const schedule = await found.executeTakeFirst()
  if (schedule === undefined) return // changed or gone since it was read
  const server = await findServerRow(tx.q, schedule.serverId)
  if (server === undefined) throw new Error(`the schedule ${id} has no server`)
  const nowMs = Date.parse(tx.now)
  const isMissed = nowMs - Date.parse(dueAt) > LATE_MS
  const cause: TaskRunCause = isMissed ? 'missed' : 'schedule'
  const start = { schedule, cause, dueAt }
  const skipped = await reasonToSkip(tx, deps, { schedule, server, isMissed, dueAt })
  await rows.timeSchedule(tx, id, nextRunOf(schedule, nowMs))
  const onBehalfOf = ownerOf(schedule)
  if (skipped !== undefined) await leaveOut(tx, deps, start, { status: 'skipped', ...skipped })
  else if (onBehalfOf === undefined) await leaveOut(tx, deps, start, { status: 'failed', ...OWNER_GONE })
  else await beginRun(tx, deps, { ...start, nodeId: server.nodeId, onBehalfOf })
}

const OWNER_GONE = {
  reason: 'PERMISSION_DENIED',
  error: 'The account that it ran for is gone; whoever changes its steps takes it over',
}

/** Why nothing runs at this time, as a word for programs and a sentence for people. */
async function reasonToSkip(
  tx: Tx,
  deps: DueDeps,
  of: {
    readonly schedule: rows.ScheduleRow
    readonly server: ServerRow
    readonly isMissed: boolean
    readonly dueAt: IsoTime
  },
): Promise<{ readonly reason: string; readonly error: string } | undefined> {
  const { schedule, server, isMissed, dueAt } = of
  if (server.suspendedAt !== null) return { reason: 'SERVER_SUSPENDED', error: 'The server is suspended' }
  const status = statusOf(server)
  if (status === 'deleting' || status === 'archived')
    return { reason: 'SERVER_INVALID_STATE', error: `The server is ${status}` }
  if (isMissed && schedule.missed === 'skip') {
    return { reason: 'MISSED', error: `It was due at ${dueAt}, when the daemon could not run it` }
  }
  if ((await runUnderWay(tx, deps, schedule.id)) !== undefined)
    return { reason: 'STILL_RUNNING', error: 'The run before it had not ended' }
  if (!deps.isOnline(server.nodeId))
    return { reason: 'NODE_OFFLINE', error: `The node ${server.nodeName} is not connected` }
  if (schedule.onlyWhenOnline === 1 && status !== 'running' && status !== 'starting')
    return { reason: 'SERVER_NOT_RUNNING', error: `The server is ${status}, and this runs only while it is online` }
  return undefined
}

/** A schedule that cannot even be begun is due no more; its row says why. */
async function giveUp(tx: Tx, id: string): Promise<void> {
  const lastError = 'It could not be run because of an error of the panel, and is due no more until it is saved again'
  await rows.updateSchedule(tx, id, { nextRunAt: null, lastStatus: 'failed', lastError })
}
