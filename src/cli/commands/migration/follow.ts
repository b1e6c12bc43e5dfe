import { streamAdminEvents } from '../../../shared/api/admin.ts'
import type { MigrationJob, MigrationStep } from '../../../shared/api/migration.ts'
import { EVENTS } from '../../../shared/kernel/events.ts'
import type { MigrationId } from '../../../shared/kernel/ids.ts'
import type { Run } from '../../kit/run.ts'
import { isPassing, readJob, stepsIn } from './job.ts'
import { isEnd, type MigrationEvent } from './progress.ts'

/** What is seen of a migration while it is followed. */
export type Seen =
  /** As it is now: at the beginning, after each cut, and every few seconds, in case an event has not arrived. */
  | {
      readonly kind: 'job'
      readonly job: MigrationJob
      readonly running: readonly MigrationStep[]
      readonly anew: boolean
    }
  | { readonly kind: 'event'; readonly event: MigrationEvent }
  | { readonly kind: 'cut'; readonly reason: string }
  /** Time has passed. */
  | { readonly kind: 'tick' }

const TICK_MS = 1000
const LOOK_MS = 15_000
const RETRY_MS = 1000
const MOST_RUNNING = 50

/**
 * Follows a migration until it has ended, over cut connections and restarts of the panel; the last that is seen is the ended
 * migration. Ends early, without a word, when `signal` aborts. Throws what the panel refuses for good.
 */
export async function* follow(
  run: Run,
  jobId: MigrationId,
  signal: AbortSignal,
): AsyncGenerator<Seen, void, undefined> {
  const types = Object.keys(EVENTS).filter((type) => type.startsWith('migration_'))
  const stop = new AbortController()
  const open = await run.streams()
  const items = open(
    streamAdminEvents,
    { query: { types: types.join(',') } },
    { signal: AbortSignal.any([signal, stop.signal]) },
  )
  try {
    let next = items.next()
    let lookAtMs = 0
    for (;;) {
      const tick = new AbortController()
      const arrived = await Promise.race([next, run.clock.sleep(TICK_MS, AbortSignal.any([tick.signal, signal]))])
      tick.abort()
      if (signal.aborted || arrived?.done === true) return
      const item = arrived?.value
      if (item !== undefined) next = items.next()
      if (item?.kind === 'retrying') yield { kind: 'cut', reason: item.reason }
      const isOpened = item?.kind === 'open'
      const event = item?.kind === 'frame' ? eventOf(item, jobId) : undefined
      if (event !== undefined) yield { kind: 'event', event }
      if (item === undefined) yield { kind: 'tick' }
      const hasEnded = event?.type === 'migration_status' && isEnd(String(event.data['to']))
      if (!isOpened && !hasEnded && run.clock.monotonicMs() < lookAtMs) continue
      const found = await look(run, jobId, signal)
      if (found === undefined) return
      lookAtMs = run.clock.monotonicMs() + LOOK_MS
      yield { kind: 'job', ...found, anew: isOpened }
      if (isEnd(found.job.status)) return
    }
  } finally {
    stop.abort()
    await items.return()
  }
}

function eventOf(
  { id, event, data: text }: { readonly id: string; readonly event: string; readonly data: string },
  jobId: MigrationId,
): MigrationEvent | undefined {
  if (!event.startsWith('migration_')) return undefined
  const data: unknown = JSON.parse(text)
  if (typeof data !== 'object' || data === null) return undefined
  const fields: Record<string, unknown> = { ...data }
  return fields['jobId'] === jobId ? { id, type: event, data: fields } : undefined
}

/** The migration as it is now, with the steps under way; asked again as long as the panel is away. */
async function look(
  run: Run,
  jobId: MigrationId,
  signal: AbortSignal,
): Promise<{ readonly job: MigrationJob; readonly running: readonly MigrationStep[] } | undefined> {
  while (!signal.aborted) {
    try {
      const job = await readJob(run, jobId)
      return {
        job,
        running: isEnd(job.status) ? [] : await stepsIn(run, jobId, { status: 'running', most: MOST_RUNNING }),
      }
    } catch (error) {
      if (signal.aborted) return undefined
      if (!isPassing(error)) throw error
      await run.clock.sleep(RETRY_MS, signal)
    }
  }
  return undefined
}
