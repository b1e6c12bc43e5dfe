import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { Db } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import type { Mailer } from '../mail/mailer.ts'
import { requestOf } from './bodies.ts'
import { type DeliveryRow, sealedUnder } from './delivery-rows.ts'
import { noticeOf } from './notice.ts'
import { Payload } from './payload.ts'
import type { Outcome, Sender } from './sender.ts'
import { formatFor } from './target-url.ts'
import { findWebhook, SEALED } from './webhook-rows.ts'

/** What messages are sent by. */
export interface Transport {
  readonly db: Db
  readonly clock: Clock
  readonly vault: Vault
  readonly mailer: Mailer
  readonly sender: Sender
}

const SealedTarget = z.object({ url: z.string(), secret: z.string() })
const FAILED = { ok: false, durationMs: 0, status: null, response: null, final: false, retryAfterMs: null } as const

/** Tries once to send the message. Rejects only when `signal` ends it; every failure is an outcome. */
export async function attempt(transport: Transport, row: DeliveryRow, signal: AbortSignal): Promise<Outcome> {
  const payload = parseJson(Payload, row.payload)
  if (row.channel === 'email') return mail(transport, { to: row.target, payload }, signal)
  const endpoint = await endpointOf(transport, row)
  if (typeof endpoint === 'string') return { ...FAILED, error: endpoint, final: true }
  return transport.sender.post(requestOf({ id: row.id, payload }, endpoint, transport.clock.nowMs()), signal)
}

/** Where it goes, or why nowhere. */
async function endpointOf({ db, vault }: Transport, row: DeliveryRow) {
  try {
    if (row.webhookId === null) {
      const { url, secret } = parseJson(SealedTarget, vault.open(sealedUnder(row.id), row.sealedTarget ?? ''))
      return { url, secret, format: formatFor(url) }
    }
    const webhook = await findWebhook(db.read, row.webhookId)
    if (webhook === undefined) return 'the webhook is gone'
    const { id, sealedUrl, sealedSecret, format } = webhook
    const [url, secret] = [vault.open(SEALED.url(id), sealedUrl), vault.open(SEALED.secret(id), sealedSecret)]
    return { url, secret, format }
  } catch {
    // Which text does not open does not belong in the log of messages; what to do does.
    return 'its URL and secret do not open with the present PANEL_CREDENTIAL_KEY; set them again'
  }
}

async function mail(
  { mailer, clock }: Transport,
  { to, payload }: { readonly to: string; readonly payload: Payload },
  signal: AbortSignal,
): Promise<Outcome> {
  const begun = clock.monotonicMs()
  const took = (): number => Math.round(clock.monotonicMs() - begun)
  const { title, text } = noticeOf(payload)
  try {
    await mailer.send({ to, subject: title, text: `${text}\n\n${payload.timestamp}\n` }, signal)
    return { ...FAILED, ok: true, durationMs: took(), error: null }
  } catch (error) {
    signal.throwIfAborted()
    const known = error instanceof PanelError
    // The server has said that there is no such recipient: it will say so again.
    const final = known && error.meta['reason'] === 'recipient'
    return { ...FAILED, durationMs: took(), error: known ? error.message : 'The mail was not sent', final }
  }
}
