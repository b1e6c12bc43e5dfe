import { createHmac } from 'node:crypto'
import type { WebhookFormat } from '../../../../shared/api/webhooks.ts'
import { type Notice, noticeOf } from './notice.ts'
import type { Payload } from './payload.ts'
import type { OutRequest } from './sender.ts'

const USER_AGENT = 'panel-webhooks/1'
const COLOURS: Readonly<Record<Notice['tone'], number>> = {
  info: 0x64748b,
  warning: 0xf59e0b,
  critical: 0xdc2626,
  good: 0x16a34a,
}
const MARKS: Readonly<Record<Notice['tone'], string>> = {
  info: ':information_source:',
  warning: ':warning:',
  critical: ':rotating_light:',
  good: ':white_check_mark:',
}

/** Where a message goes and how it is signed. */
export interface Endpoint {
  readonly url: string
  readonly secret: string
  readonly format: WebhookFormat
}

/**
 * The request for a message. `X-Webhook-Signature` is the HMAC-SHA256, in hex, of the timestamp header, a dot and the body
 * as it is sent; `X-Webhook-Id` stays the same over attempts, so that a receiver can recognise a repetition.
 */
export function requestOf(
  message: { readonly id: string; readonly payload: Payload },
  { url, secret, format }: Endpoint,
  nowMs: number,
): OutRequest {
  const body = JSON.stringify(BODIES[format](message.id, message.payload))
  const timestamp = String(Math.floor(nowMs / 1000))
  const headers = {
    'content-type': 'application/json',
    'user-agent': USER_AGENT,
    'x-webhook-event': message.payload.event,
    'x-webhook-id': message.id,
    'x-webhook-timestamp': timestamp,
    'x-webhook-signature': sign(secret, timestamp, body),
  }
  return { url, headers, body }
}

function sign(secret: string, timestamp: string, body: string): string {
  return createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
}

const BODIES: Readonly<Record<WebhookFormat, (id: string, payload: Payload) => unknown>> = {
  generic: (id, payload) => ({ id, ...payload }),
  discord: (_, payload) => {
    const { title, text, tone } = noticeOf(payload)
    const { timestamp, event } = payload
    const embed = { title: cut(title, 256), description: cut(text, 4000), color: COLOURS[tone], timestamp }
    // Names that people chose must not call up everybody.
    return { embeds: [{ ...embed, footer: { text: event } }], allowed_mentions: { parse: [] } }
  },
  slack: (_, payload) => {
    const { title, text, tone } = noticeOf(payload)
    const headline = `${MARKS[tone]} *${escapeSlack(cut(title, 256))}*`
    return { text: text === '' ? headline : `${headline}\n${escapeSlack(cut(text, 3000))}` }
  },
}

function escapeSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`
}
