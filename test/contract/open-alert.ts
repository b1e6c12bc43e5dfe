import { join } from 'node:path'
import { openDb } from '../../src/daemon/db/db.ts'
import { newId } from '../../src/shared/kernel/ids.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import type { TestPanel } from '../panel.ts'

/** Writes an open alert about a node, as a rule would: no request can make one. */
export async function openAlert(panel: TestPanel, ruleId: string): Promise<string> {
  const db = await openDb(join(panel.dataDir, 'db', 'panel.db'), systemClock)
  try {
    const id = newId('alert', systemClock)
    await db.write((tx) =>
      tx.q
        .insertInto('alert')
        .values({
          id,
          ruleId,
          userId: null,
          serverId: null,
          nodeId: panel.nodeId,
          // Of its own, so that several may be open.
          subjectId: id,
          metric: '',
          listed: 1,
          // The rounds of the rules end no alert of this type by themselves.
          type: 'custom',
          severity: 'critical',
          title: 'The node is offline',
          message: 'It has been away for long.',
          metadata: '{}',
          createdAt: tx.now,
          resolvedAt: null,
          resolvedBy: null,
        })
        .execute(),
    )
    return id
  } finally {
    await db.close()
  }
}
