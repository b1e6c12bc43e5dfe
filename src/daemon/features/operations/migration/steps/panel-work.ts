import type { WorkOver } from '../../../../access/operation.ts'
import type { Tx } from '../../../../db/db.ts'

/** Work of the panel itself: what it records is written by whoever makes it, under their own name. */
export function panelWork<D>(tx: Tx, deps: D): WorkOver<D> {
  const holder = { userId: '', permissions: new Set(['*'] as const), scope: null }
  return { tx, deps, caller: undefined, userId: null, holder, record: () => Promise.resolve() }
}
