import { z } from 'zod'
import { PanelError } from '../../shared/kernel/errors.ts'
import { type Clock, isoTime } from '../../shared/kernel/time.ts'
import { macBy, openBy, sealBy, sha256 } from '../core/secrets.ts'
import type { Db, Tx } from '../db/db.ts'
import { parseJson } from '../db/json.ts'
import type { SentCookie } from './context.ts'

/** How long an answer is kept for its repetition. */
const KEPT_MS = 24 * 3_600_000

/** One POST that carries an `Idempotency-Key`. */
export interface Attempt {
  readonly key: string
  /** Who asks for what: a key is good for one caller and one path. */
  readonly scope: string
  readonly body: string
  /** How a refusal goes on the wire. */
  readonly refusal: (error: PanelError) => SentAnswer
}

/** An answer as it goes on the wire. */
export interface SentAnswer {
  readonly status: number
  readonly payload: string | Buffer
  /** What the answer set in the browser; a repetition sets it again. */
  readonly cookies: readonly SentCookie[]
}

/** What is sealed of an answer. */
const Kept = z.object({
  payload: z.string(),
  cookies: z.array(z.object({ name: z.string(), value: z.string().nullable(), maxAge: z.number().nullable() })),
})

/**
 * Carries a POST out at most once per key. The key's row is part of the first transaction of the
 * request, so a crash leaves both the change and the row, or neither. The answer is kept sealed by the key itself, which
 * is not stored, and the body is known again by a MAC under it: both may hold secrets.
 */
export interface Idempotency {
  run(attempt: Attempt, work: () => Promise<SentAnswer>): Promise<SentAnswer & { replayed: boolean }>
  prune(): Promise<void>
}

/** Idempotency over its table; two attempts with one key at a time wait for each other. */
export function createIdempotency(db: Db, clock: Clock): Idempotency {
  const running = new Map<string, Promise<unknown>>()
  return {
    run: async (attempt, work) => {
      const id = sha256(`${attempt.scope}\n${attempt.key}`)
      while (running.has(id)) await Promise.allSettled([running.get(id)])
      const turn = once(db, id, attempt, work)
      running.set(id, turn)
      try {
        return await turn
      } finally {
        running.delete(id)
      }
    },
    prune: () =>
      db.write(async (tx) => {
        const limit = isoTime(clock.nowMs() - KEPT_MS)
        await tx.q.deleteFrom('idempotency').where('createdAt', '<', limit).execute()
      }),
  }
}

async function once(
  db: Db,
  id: string,
  attempt: Attempt,
  work: () => Promise<SentAnswer>,
): Promise<SentAnswer & { replayed: boolean }> {
  const requestHash = macBy(attempt.key, attempt.body) // a plain hash would let passwords in bodies be guessed quickly
  const row = await db.read.selectFrom('idempotency').selectAll().where('id', '=', id).executeTakeFirst()
  if (row !== undefined) {
    if (row.requestHash !== requestHash) {
      throw new PanelError(
        'IDEMPOTENCY_KEY_REUSED',
        'This Idempotency-Key was used for another request; take a fresh one',
      )
    }
    if (row.response === null || row.status === null) {
      throw new PanelError(
        'CONFLICT',
        'This request was carried out already, but its answer was lost; look at the result',
      )
    }
    return { status: row.status, ...parseJson(Kept, openBy(attempt.key, row.response)), replayed: true }
  }
  let written = false
  const first = async (tx: Tx): Promise<void> => {
    const row = { id, requestHash, response: null, status: null, createdAt: tx.now }
    await tx.q.insertInto('idempotency').values(row).execute()
    tx.onCommit(() => {
      written = true
    })
  }
  const keep = async (answer: SentAnswer): Promise<void> => {
    if (!written) return
    const { status, cookies } = answer
    const kept: z.input<typeof Kept> = { payload: answer.payload.toString(), cookies: [...cookies] }
    const sealed = { response: sealBy(attempt.key, JSON.stringify(kept)), status }
    await db.write(async (tx) => {
      await tx.q.updateTable('idempotency').set(sealed).where('id', '=', id).execute()
    })
  }
  let answer: SentAnswer
  try {
    answer = await db.withFirst(first, work)
  } catch (error) {
    // A refusal that has written something (a counted sign-in) is as final as a success.
    if (error instanceof PanelError) await keep(attempt.refusal(error))
    throw error
  }
  await keep(answer)
  return { ...answer, replayed: false }
}
