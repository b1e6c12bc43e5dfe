import { type OperationDeps, PANEL, recordFact } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { giveUpWaiting } from './delivery-rows.ts'
import type { Outcome } from './sender.ts'
import { findWebhook } from './webhook-rows.ts'

/** A webhook is switched off when every attempt has failed for so long, and so many have. */
const FAILING_MS = 24 * 3_600_000
const FAILURES = 20

/** Writes down how a webhook does, and switches off one that has failed for long. */
export async function noteOutcome(
  tx: Tx,
  deps: Pick<OperationDeps, 'bus' | 'audit'>,
  webhookId: string,
  { ok, error }: Outcome,
): Promise<void> {
  const row = await findWebhook(tx.q, webhookId)
  if (row === undefined) return
  const update = tx.q.updateTable('webhook').where('id', '=', webhookId)
  if (ok) return void (await update.set({ failingSince: null, failures: 0, lastSuccessAt: tx.now }).execute())
  const failingSince = row.failingSince ?? tx.now
  const failures = row.failures + 1
  await update.set({ failingSince, failures, lastFailureAt: tx.now, lastError: error }).execute()
  if (row.enabled === 0 || failures < FAILURES || Date.parse(tx.now) - Date.parse(failingSince) < FAILING_MS) return
  await update.set({ enabled: 0, disabledReason: 'failing', updatedAt: tx.now }).execute()
  await giveUpWaiting(tx, webhookId, 'the webhook was switched off after it had failed for long')
  const details = { enabled: { before: true, after: false }, failingSince, failures }
  const data = { webhookId, webhookName: row.name, updatedBy: null, change: 'disabled_failing' }
  await recordFact(
    tx,
    { deps, principal: PANEL },
    {
      audit: { action: 'webhook.disable', resource: 'webhook', resourceId: webhookId, details },
      events: [{ type: 'webhook_updated', data }],
    },
  )
}
