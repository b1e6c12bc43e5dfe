import * as api from '../../../../shared/api/webhooks.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { grants, type Permission } from '../../../../shared/kernel/permissions.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { subscribedEvents, WEBHOOK_EVENTS } from '../../../../shared/kernel/webhook-events.ts'
import { changes } from '../../../access/audit.ts'
import { type OperationDeps, operationsOver } from '../../../access/operation.ts'
import type { Holder } from '../../../access/permit.ts'
import { newSecret, type Vault } from '../../../core/secrets.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'
import { giveUpWaiting, waitingEvents } from './delivery-rows.ts'
import type { Outbox } from './outbox.ts'
import { formatFor, shownUrl, targetProblem } from './target-url.ts'
import { findWebhook, SEALED, toWebhook, type WebhookRow } from './webhook-rows.ts'

/** What writing a webhook needs. */
export interface WriteDeps extends OperationDeps {
  readonly clock: Clock
  readonly vault: Vault
  readonly settings: Settings
  readonly outbox: Outbox
}

export const GONE = 'There is no such webhook'

type Edit = Input<typeof api.updateWebhook>['body']

const operation = operationsOver<WriteDeps>()

/** Makes a webhook; the answer has the secret when the panel has made it. */
export const createWebhook = operation(api.createWebhook, async ({ tx, deps, userId, holder }, { body }) => {
  const { vault, clock } = deps
  checkUrl(deps, body.url)
  checkRights(holder, body.events)
  const id = newId('whk', clock)
  const secret = body.secret ?? `whsec_${newSecret()}`
  const format = body.format === 'generic' ? formatFor(body.url) : body.format
  const row: WebhookRow = {
    id,
    name: body.name,
    description: body.description ?? null,
    shownUrl: shownUrl(body.url, format),
    sealedUrl: vault.seal(SEALED.url(id), body.url),
    sealedSecret: vault.seal(SEALED.secret(id), secret),
    format,
    events: JSON.stringify(body.events),
    enabled: body.enabled ? 1 : 0,
    disabledReason: null,
    failingSince: null,
    failures: 0,
    lastSuccessAt: null,
    lastFailureAt: null,
    lastError: null,
    createdBy: userId,
    createdAt: tx.now,
    updatedAt: tx.now,
  }
  await tx.q.insertInto('webhook').values(row).execute()
  const webhook = toWebhook(row)
  const { name, description, url, events, enabled } = webhook
  const details = { name, description, url, format, events, enabled }
  return {
    answer: { ...webhook, secret: body.secret === undefined ? secret : null },
    audit: { resourceId: id, details },
    events: [{ type: 'webhook_created', data: { webhookId: id, webhookName: name, createdBy: userId } }],
  }
})

export const updateWebhook = operation(
  api.updateWebhook,
  async ({ tx, deps, userId, holder, fail }, { params: { webhookId: id }, body }) => {
    const before = (await findWebhook(tx.q, id)) ?? fail('WEBHOOK_NOT_FOUND', GONE)
    const shown = toWebhook(before)
    const url = body.url === undefined || body.url === shown.url ? undefined : body.url
    if (url !== undefined) checkUrl(deps, url)
    if (body.secret !== undefined && body.rotateSecret === true)
      throw fieldError('body.rotateSecret', 'cannot be given together with a secret')
    const events = body.events ?? shown.events
    const made = body.rotateSecret === true ? `whsec_${newSecret()}` : null
    const secret = made ?? body.secret
    // Whoever decides where it goes or what it reports must be allowed to read that.
    const decides = [url, body.events, secret].some((value) => value !== undefined) || body.enabled === true
    if (decides) checkRights(holder, events)
    // What waits goes there too, of whatever it was sent before.
    if (url !== undefined || secret !== undefined) checkRights(holder, await waitingEvents(tx.q, id))
    const row = changedRow(deps.vault, before, { body, url, secret })
    const after = toWebhook(row)
    const named = changes(namedFields(shown), namedFields(after))
    // A URL of Discord or Slack shows nothing that has changed; a secret is never shown.
    const unseen = [...(url === undefined ? [] : ['url']), ...(secret === undefined ? [] : ['secret'])]
    if (named === undefined && unseen.length === 0) return { answer: { ...shown, secret: null } }
    await store(tx, row)
    if (before.enabled === 1 && row.enabled === 0) await giveUpWaiting(tx, id, 'the webhook was switched off')
    tx.onCommit(() => deps.outbox.resume(id))
    const details = { ...named, ...(unseen.length === 0 ? {} : { unseen }) }
    return {
      answer: { ...after, updatedAt: tx.now, secret: made },
      audit: { resourceId: id, details },
      events: [{ type: 'webhook_updated', data: { webhookId: id, webhookName: row.name, updatedBy: userId } }],
    }
  },
)

/** Refuses somebody who may not read all that these events report. */
function checkRights(holder: Holder, patterns: readonly string[]): void {
  const needed = new Set<Permission>(subscribedEvents(patterns).map((event) => WEBHOOK_EVENTS[event]))
  const missing = [...needed].filter((permission) => !grants(holder.permissions, permission))
  if (missing.length === 0) return
  const sentence = `Subscribing to these events needs the permission ${missing.join(' and ')}`
  throw new PanelError('PERMISSION_DENIED', sentence, { meta: { missing } })
}

function checkUrl({ settings }: WriteDeps, url: string): void {
  const problem = targetProblem(url, settings.get('webhooks.allowedRanges'))
  if (problem !== undefined) throw fieldError('body.url', problem)
}

function changedRow(
  vault: Vault,
  before: WebhookRow,
  { body, url, secret }: { body: Edit; url: string | undefined; secret: string | undefined },
): WebhookRow {
  const { id } = before
  const format = body.format ?? before.format
  const target = url ?? (format === before.format ? undefined : vault.open(SEALED.url(id), before.sealedUrl))
  const enabled = body.enabled ?? before.enabled === 1
  const anew = (enabled && before.enabled === 0) || url !== undefined
  return {
    ...before,
    name: body.name ?? before.name,
    description: body.description === undefined ? before.description : body.description,
    shownUrl: target === undefined ? before.shownUrl : shownUrl(target, format),
    sealedUrl: url === undefined ? before.sealedUrl : vault.seal(SEALED.url(id), url),
    sealedSecret: secret === undefined ? before.sealedSecret : vault.seal(SEALED.secret(id), secret),
    format,
    events: JSON.stringify(body.events ?? toWebhook(before).events),
    enabled: enabled ? 1 : 0,
    disabledReason: enabled ? null : before.disabledReason,
    // Failures of another place, or of another time, say nothing about this one.
    ...(anew ? { failingSince: null, failures: 0, lastError: null } : {}),
  }
}

async function store(tx: Tx, { id, createdAt: _, ...row }: WebhookRow): Promise<void> {
  await tx.q
    .updateTable('webhook')
    .set({ ...row, updatedAt: tx.now })
    .where('id', '=', id)
    .execute()
}

function namedFields({ name, description, url, format, events, enabled }: ReturnType<typeof toWebhook>) {
  return { name, description, url, format, events, enabled }
}
