import type { Batch, Tx } from './db.ts'
import type { BoundStatement } from './sqlite/connection.ts'

/** One row of a batch, beside what writes the whole of it. */
export interface Collected {
  readonly batch: object
  readonly row: unknown
  write(tx: Pick<Tx, 'q' | 'onCommit'>, rows: readonly unknown[]): Promise<void>
  soon(tx: Pick<Tx, 'onCommit'>, rows: readonly unknown[]): readonly BoundStatement[] | undefined
}

/** A row of a batch. The batch gets rows of its own kind alone: `R` of the one is that of the other. */
export function collectedBy<R>(batch: Batch<R>, row: R): Collected {
  return {
    batch,
    row,
    write: (tx, rows) => batch.write(tx, rows as readonly R[]),
    soon: (tx, rows) => batch.soon?.(tx, rows as readonly R[]),
  }
}

/** Writes what was collected, each batch in one go. */
export async function writeBatches(tx: Pick<Tx, 'q' | 'onCommit'>, collected: readonly Collected[]): Promise<void> {
  for (const batch of batchesOf(collected)) await batch[0].write(tx, rowsIn(batch))
}

/** The statements that write it without asking anything; `undefined` when a batch has none. */
export function soonOf(
  tx: Pick<Tx, 'onCommit'>,
  collected: readonly Collected[],
): readonly BoundStatement[] | undefined {
  const each = batchesOf(collected).map((batch) => batch[0].soon(tx, rowsIn(batch)))
  return each.includes(undefined) ? undefined : each.flatMap((statements) => statements ?? [])
}

/** What was collected for each batch, in the order of the batches' first rows. */
function batchesOf(collected: readonly Collected[]): [Collected, ...Collected[]][] {
  const batches = new Map<object, [Collected, ...Collected[]]>()
  for (const one of collected) {
    const rows = batches.get(one.batch)
    if (rows === undefined) batches.set(one.batch, [one])
    else rows.push(one)
  }
  return [...batches.values()]
}

function rowsIn(batch: readonly Collected[]): unknown[] {
  return batch.map(({ row }) => row)
}
