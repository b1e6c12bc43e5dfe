import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import { newSecret, secretMatches, sha256 } from '../../../core/secrets.ts'
import type { Db, Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { challengeOf } from './flows.ts'

/** How long a program has to use the code that its browser brings. */
const CODE_SECONDS = 120

/** An account at a provider that is about to be linked. */
export const Linking = z.object({
  providerId: z.string(),
  issuer: z.string(),
  subject: z.string(),
  email: z.string().nullable(),
  scopes: z.array(z.string()),
})
export type Linking = z.infer<typeof Linking>

/** What a code stands for. */
export interface CodeMeaning {
  readonly userId: string
  readonly linking: Linking | null
}

/** Makes a code for whoever knows the verifier behind the challenge; it is stored hashed. */
export async function makeCode(tx: Tx, meaning: CodeMeaning, codeChallenge: string): Promise<string> {
  await tx.q.deleteFrom('signInCode').where('expiresAt', '<=', tx.now).execute()
  const code = newSecret()
  await tx.q
    .insertInto('signInCode')
    .values({
      codeHash: sha256(code),
      userId: meaning.userId,
      linking: meaning.linking === null ? null : JSON.stringify(meaning.linking),
      codeChallenge,
      expiresAt: isoTime(Date.parse(tx.now) + CODE_SECONDS * 1000),
      createdAt: tx.now,
    })
    .execute()
  return code
}

/** Uses a code up, also when the verifier is wrong: a code that somebody else has seen is worth nothing any more. */
export async function takeCode(
  db: Db,
  { code, codeVerifier }: { code: string; codeVerifier: string },
): Promise<CodeMeaning> {
  const row = await db.write((tx) =>
    tx.q
      .deleteFrom('signInCode')
      .where('codeHash', '=', sha256(code))
      .where('expiresAt', '>', tx.now)
      .returningAll()
      .executeTakeFirst(),
  )
  if (row === undefined || !secretMatches(challengeOf(codeVerifier), sha256(row.codeChallenge))) throw codeInvalid()
  return { userId: row.userId, linking: row.linking === null ? null : parseJson(Linking, row.linking) }
}

/** The refusal of a code that is unknown, used, too old, or not this program's. */
export function codeInvalid(): PanelError {
  return new PanelError('TOKEN_INVALID', 'The code is not valid: it works once, for two minutes. Begin again')
}
