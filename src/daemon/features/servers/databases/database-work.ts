import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Db, Tx } from '../../../db/db.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'

/**
 * Finishes what no request has finished: a creation that has failed or was cut off by a crash, a deletion or a new password
 * that a host has not taken, a database of a server that is gone.
 */
export const FINISH_DATABASE = defineJob({
  kind: 'databases.finish',
  input: z.object({ databaseId: z.string() }),
  state: z.object({}),
  first: () => ({}),
  title: ({ databaseId }) => `Finish the database ${databaseId}`,
  pool: { name: 'databases', size: 4 },
  lane: ({ databaseId }) => databaseId,
  ordered: false,
  background: true,
  plan: () => [{ step: 'finish', name: 'finish' }],
})

/**
 * Work on the databases of hosts: who works on which at this moment, and the job that each row has as long as it is not as it
 * should be. The job is added in the transaction that makes the row so.
 */
export class DatabaseWork {
  readonly #jobs: Pick<Jobs, 'queue' | 'hold'>

  constructor(jobs: Pick<Jobs, 'queue' | 'hold'>) {
    this.#jobs = jobs
  }

  /** Works on one database, nobody else at the same time; refuses with CONFLICT while somebody does. */
  hold<T>(id: string, work: () => Promise<T>): Promise<T> {
    const held = this.#jobs.hold({ pool: FINISH_DATABASE.pool.name, lane: id }, work)
    if (held !== undefined) return held
    throw new PanelError('CONFLICT', 'This database is being changed at this moment; try again when that is done')
  }

  /** Has a row finished at this time, if nobody has until then. */
  async finishAt(tx: Tx, databaseId: string, at: IsoTime): Promise<void> {
    const job = { input: { databaseId }, cause: 'database', key: keyOf(databaseId), at }
    await this.#jobs.queue.schedule(tx, FINISH_DATABASE, job)
  }

  /** A row is as it should be, or gone: nothing is left to finish. */
  async finished(tx: Tx, databaseId: string): Promise<void> {
    await this.#jobs.queue.forget(tx, keyOf(databaseId))
  }

  /**
   * A server is about to be gone: its databases are marked for removal, and those that the panel does not manage are forgotten. Called in the
   * transaction that deletes its row; one that is being made is undone as soon as whoever makes it lets go.
   */
  async beforeServerDelete(tx: Tx, serverId: string): Promise<void> {
    const unmanaged = tx.q.deleteFrom('serverDatabase').where('serverId', '=', serverId).where('managed', '=', 0)
    for (const { id } of await unmanaged.returning('id').execute()) await this.finished(tx, id)
    const ofServer = tx.q.updateTable('serverDatabase').where('serverId', '=', serverId)
    const undone = await ofServer
      .set({ serverId: null, updatedAt: tx.now, state: 'undoing' })
      .where('state', 'in', ['creating', 'undoing'])
      .returning('id')
      .execute()
    const deleted = await ofServer
      .set({ serverId: null, updatedAt: tx.now, state: 'deleting' })
      .where('state', 'in', ['ready', 'rotating', 'deleting'])
      .returning('id')
      .execute()
    for (const { id } of [...undone, ...deleted]) await this.finishAt(tx, id, tx.now)
    await tx.q.deleteFrom('serverDatabase').where('serverId', '=', serverId).where('state', '=', 'planned').execute()
  }

  /** Has all that is unfinished looked at again now: of a host that was mended, or of all hosts at a start. */
  async finishNow(tx: Tx, hostId?: string): Promise<void> {
    let unfinished = tx.q.selectFrom('serverDatabase').select('id').where('state', '!=', 'ready')
    if (hostId !== undefined) unfinished = unfinished.where('hostId', '=', hostId)
    for (const { id } of await unfinished.execute()) await this.finishAt(tx, id, tx.now)
  }

  /** At a start of the daemon: nobody knows how long a host that was away is back. */
  async begin(db: Db): Promise<void> {
    await db.write((tx) => this.finishNow(tx))
  }
}

function keyOf(databaseId: string): string {
  return `${FINISH_DATABASE.kind} ${databaseId}`
}
