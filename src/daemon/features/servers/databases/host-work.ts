import { PanelError } from '../../../../shared/kernel/errors.ts'
import { now } from '../../../../shared/kernel/time.ts'
import type { Tx } from '../../../db/db.ts'
import { dueRows, nextDue } from './database-rows.ts'
import type { DatabaseDeps } from './deps.ts'
import { HostFailure } from './host-failure.ts'
import { finish } from './unfinished-work.ts'

/** A wait at most so long, because the wall clock may be set meanwhile. */
const LONGEST_WAIT_MS = 60_000
const AFTER_BUG_MS = 60_000
/** How long the loop waits for a host. */
const PATIENCE_MS = 300_000
const AT_ONCE = 4
const BATCH = 50

/**
 * Who works on which database at this moment, and the loop that finishes what no request has finished: creations that have
 * failed or were cut off by a crash, deletions and new passwords that a host did not hear of, databases of servers that are gone.
 */
export class HostWork {
  readonly #deps: DatabaseDeps
  readonly #held = new Set<string>()
  readonly #ending = new AbortController()
  #waiting = new AbortController()
  #loop: Promise<void> | undefined

  constructor(deps: DatabaseDeps) {
    this.#deps = deps
  }

  /** Works on one database, nobody else at the same time; refuses with CONFLICT while somebody does. */
  async hold<T>(id: string, work: () => Promise<T>): Promise<T> {
    if (this.#held.has(id)) {
      throw new PanelError('CONFLICT', 'This database is being changed at this moment; try again when that is done')
    }
    this.#held.add(id)
    try {
      return await work()
    } finally {
      this.#held.delete(id)
      this.wake()
    }
  }

  /** Looks for unfinished work now. */
  wake(): void {
    this.#waiting.abort()
  }

  /**
   * A server is about to be gone: its databases are marked for removal. Called in the transaction that deletes its row; one
   * that is being made is undone as soon as whoever makes it lets go.
   */
  async beforeServerDelete(tx: Tx, serverId: string): Promise<void> {
    const due = { serverId: null, attempts: 0, nextAttemptAt: tx.now, updatedAt: tx.now }
    const ofServer = tx.q.updateTable('serverDatabase').where('serverId', '=', serverId)
    await ofServer
      .set({ ...due, state: 'undoing' })
      .where('state', 'in', ['creating', 'undoing'])
      .execute()
    await ofServer
      .set({ ...due, state: 'deleting' })
      .where('state', 'in', ['ready', 'rotating', 'deleting'])
      .execute()
    await tx.q.deleteFrom('serverDatabase').where('serverId', '=', serverId).where('state', '=', 'planned').execute()
    tx.onCommit(() => this.wake())
  }

  /** Begins the loop. What an earlier run of the daemon has left unfinished is due at once. */
  start(): void {
    this.#loop ??= this.#run()
  }

  /** Ends the loop; work on a host is broken off and taken up at the next start. */
  async close(): Promise<void> {
    this.#ending.abort()
    this.wake()
    await this.#loop
  }

  async #run(): Promise<void> {
    const { clock, log, systemErrors } = this.#deps
    const { signal } = this.#ending
    let begun = false
    while (!signal.aborted) {
      this.#waiting = new AbortController()
      let wait = AFTER_BUG_MS
      try {
        if (!begun) await this.#takeUp()
        begun = true
        wait = await this.#round()
      } catch (err) {
        if (signal.aborted) return
        log.error({ err }, 'unfinished databases could not be looked at; it is tried again')
        systemErrors.capture(err, { component: 'databases' })
      }
      if (wait > 0) await clock.sleep(wait, AbortSignal.any([signal, this.#waiting.signal]))
    }
  }

  async #takeUp(): Promise<void> {
    const held = [...this.#held]
    await this.#deps.db.write(async (tx) => {
      let unfinished = tx.q.updateTable('serverDatabase').set({ nextAttemptAt: tx.now }).where('state', '!=', 'ready')
      if (held.length > 0) unfinished = unfinished.where('id', 'not in', held)
      await unfinished.execute()
    })
  }

  /** Works on what is due; answers how long there is nothing to do. */
  async #round(): Promise<number> {
    const { db, clock } = this.#deps
    const due = (await dueRows(db.read, now(clock), BATCH)).filter(({ id }) => !this.#held.has(id))
    const queue = due.values()
    const worker = async (): Promise<void> => {
      for (const { id } of queue) await this.#one(id)
    }
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, due.length) }, worker))
    if (due.length > 0) return 0
    const next = await nextDue(db.read)
    // What is due and held is looked at again when whoever holds it lets go.
    const pause = next === undefined ? LONGEST_WAIT_MS : Date.parse(next) - clock.nowMs()
    return pause <= 0 ? LONGEST_WAIT_MS : Math.min(LONGEST_WAIT_MS, pause)
  }

  async #one(id: string): Promise<void> {
    const { signal } = this.#ending
    if (signal.aborted || this.#held.has(id)) return
    this.#held.add(id)
    try {
      await finish(this.#deps, id, { signal, withinMs: PATIENCE_MS })
    } catch (error) {
      // A failure of the host is written down with the row, and the row waits.
      if (!(error instanceof HostFailure)) throw error
    } finally {
      this.#held.delete(id)
    }
  }
}
