import { randomBytes } from 'node:crypto'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { sha256 } from '../../../core/secrets.ts'
import type { Queries, Tx } from '../../../db/db.ts'

const CODES = 10
/** Letters and digits that are not mistaken for each other; 32 of them, 16 in a code: 80 random bits. */
const ALPHABET = '123456789abcdefghjkmnpqrstuvwxyz'

/** The second factor of an account; `confirmedAt` null: begun, and not yet asked for. */
export interface SecondFactor {
  readonly secret: string
  readonly confirmedAt: IsoTime | null
  readonly lastStep: number
}

/** Whether a sign-in of this account asks for a second factor. */
export async function hasTwoFactor(q: Queries, userId: string): Promise<boolean> {
  return typeof (await findTwoFactor(q, userId))?.confirmedAt === 'string'
}

export async function findTwoFactor(q: Queries, userId: string): Promise<SecondFactor | undefined> {
  return q
    .selectFrom('twoFactor')
    .select(['secret', 'confirmedAt', 'lastStep'])
    .where('userId', '=', userId)
    .executeTakeFirst()
}

/** Begins, or begins again; `false` when the account has a second factor already. */
export async function beginTwoFactor(tx: Tx, userId: string, secret: string): Promise<boolean> {
  if (await hasTwoFactor(tx.q, userId)) return false
  const values = { secret, confirmedAt: null, lastStep: 0, createdAt: tx.now }
  await tx.q
    .insertInto('twoFactor')
    .values({ userId, ...values })
    .onConflict((conflict) => conflict.column('userId').doUpdateSet(values))
    .execute()
  return true
}

/** Takes the time step of a code; `false` when it or a later one was taken before: a code works once. */
export async function takeStep(tx: Tx, userId: string, step: number): Promise<boolean> {
  const row = await tx.q
    .updateTable('twoFactor')
    .set((eb) => ({ lastStep: step, confirmedAt: eb.fn.coalesce('confirmedAt', eb.val(tx.now)) }))
    .where('userId', '=', userId)
    .where('lastStep', '<', step)
    .executeTakeFirst()
  return row.numUpdatedRows > 0n
}

/** Ends the second factor with its recovery codes; whether there was one, confirmed or not. */
export async function endTwoFactor(q: Queries, userId: string): Promise<boolean> {
  await q.deleteFrom('recoveryCode').where('userId', '=', userId).execute()
  const row = await q.deleteFrom('twoFactor').where('userId', '=', userId).executeTakeFirst()
  return row.numDeletedRows > 0n
}

/** Fresh recovery codes in the place of all others; they are stored hashed. */
export async function renewCodes(q: Queries, userId: string): Promise<string[]> {
  const codes = Array.from({ length: CODES }, newCode)
  await q.deleteFrom('recoveryCode').where('userId', '=', userId).execute()
  await q
    .insertInto('recoveryCode')
    .values(codes.map((code) => ({ userId, codeHash: hashOf(code) })))
    .execute()
  return codes
}

export async function codesLeft(q: Queries, userId: string): Promise<number> {
  const { left } = await q
    .selectFrom('recoveryCode')
    .select((eb) => eb.fn.countAll<number>().as('left'))
    .where('userId', '=', userId)
    .executeTakeFirstOrThrow()
  return Number(left)
}

/** Uses a recovery code up; `false` when there is no such code (any longer). */
export async function takeCode(q: Queries, userId: string, code: string): Promise<boolean> {
  const row = await q
    .deleteFrom('recoveryCode')
    .where('userId', '=', userId)
    .where('codeHash', '=', hashOf(code))
    .executeTakeFirst()
  return row.numDeletedRows > 0n
}

function newCode(): string {
  const letters = [...randomBytes(16)].map((byte) => ALPHABET[byte % 32]).join('')
  return letters.replace(/(.{4})(?=.)/g, '$1-')
}

/** Case, blanks and dashes are how people copy a code, not the code. */
function hashOf(code: string): string {
  return sha256(code.toLowerCase().replace(/[\s-]/g, ''))
}
