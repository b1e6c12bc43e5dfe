import type { Tx } from './db.ts'
import type { Lease } from './sqlite/lease.ts'
import { queriesOver } from './sqlite/queries.ts'

/** One row that is left to the end of a commit, of a batch, beside what writes the whole of that. */
export interface Collected {
  readonly batch: object
  readonly row: unknown
  write(tx: Pick<Tx, 'q' | 'onCommit'>, rows: readonly unknown[]): Promise<void>
}

/** Writes what was left to the end of a commit: each batch in one go, whoever has left its rows. Answers with what that has failed. */
export async function writeCollected(
  all: readonly Collected[],
  lease: Lease,
  hooks: (() => void)[],
): Promise<{ readonly error: unknown } | undefined> {
  const batches = new Map<object, Collected[]>()
  for (const one of all) {
    const rows = batches.get(one.batch)
    if (rows === undefined) batches.set(one.batch, [one])
    else rows.push(one)
  }
  if (batches.size === 0) return undefined
  const tx = { q: queriesOver(lease.source), onCommit: (hook: () => void) => void hooks.push(hook) }
  let failure: { readonly error: unknown } | undefined
  try {
    for (const collected of batches.values()) {
      await collected[0]?.write(
        tx,
        collected.map(({ row }) => row),
      )
    }
  } catch (error) {
    failure = { error }
  }
  await lease.end()
  return lease.failure() ?? failure
}
