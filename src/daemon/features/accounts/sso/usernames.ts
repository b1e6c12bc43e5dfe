import { sql } from 'kysely'
import { newSecret } from '../../../core/secrets.ts'
import type { Tx } from '../../../db/db.ts'

const LONGEST = 32
const SHORTEST = 3

/** A user name that is free: the preferred one as far as it is valid, with a number where it is taken. */
export async function freeUsername(tx: Tx, preferred: readonly (string | null)[]): Promise<string> {
  const name =
    preferred.map((candidate) => cleaned(candidate ?? '')).find((candidate) => candidate.length >= SHORTEST) ?? 'person'
  const base = name.slice(0, LONGEST - 5)
  const rows = await tx.q
    .selectFrom('user')
    .select('username')
    .where(sql<boolean>`username like ${`${base.replaceAll('_', '\\_')}%`} escape '\\'`)
    .limit(10_000)
    .execute()
  const taken = new Set(rows.map(({ username }) => username.toLowerCase()))
  const all = [name.slice(0, LONGEST), ...Array.from({ length: 9998 }, (_, i) => `${base}-${i + 2}`)]
  return all.find((name) => !taken.has(name.toLowerCase())) ?? `${base.slice(0, 16)}-${newSecret().slice(0, 15)}`
}

function cleaned(candidate: string): string {
  const plain = candidate.split('@')[0]?.normalize('NFKD').replace(/\p{M}/gu, '') ?? ''
  return plain.replace(/[^A-Za-z0-9_-]+/g, '-').replace(/^-+|-+$/g, '')
}
