import type { Bus, NewEvent } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'

/** Lets whoever watches a server know what becomes of a backup of it. */
export async function announce(tx: Tx, { bus }: { readonly bus: Bus }, event: NewEvent): Promise<void> {
  await bus.append(tx, event)
}
