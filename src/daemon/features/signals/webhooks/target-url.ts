import { isIP } from 'node:net'
import type { WebhookFormat } from '../../../../shared/api/webhooks.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import { isReachable } from '../../../../shared/platform/public-address.ts'

/** Why requests cannot go to this URL, as the end of a sentence; `undefined` when they may. A name is looked up when it is sent to. */
export function targetProblem(text: string, allowed: readonly string[]): string | undefined {
  if (!URL.canParse(text)) return 'must be a URL'
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must begin with https:// or http://'
  if (url.username !== '' || url.password !== '') return 'must not hold a user name or password'
  const host = hostOf(url)
  const address = host === 'localhost' || host.endsWith('.localhost') ? '127.0.0.1' : host
  if (isIP(address) === 0 || isReachable(address, allowed)) return undefined
  return `points at ${host}, which is a private address; webhooks.allowedRanges can allow it`
}

/** The host of a URL, an IPv6 address without brackets. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '')
}

/** The shape that the host of this URL takes. */
export function formatFor(text: string): WebhookFormat {
  const { hostname, pathname } = new URL(text)
  if (hostname === 'hooks.slack.com') return 'slack'
  return /(^|\.)discord(app)?\.com$/.test(hostname) && pathname.startsWith('/api/') ? 'discord' : 'generic'
}

/**
 * The URL as it may be shown and logged. Whoever has a URL of Discord or Slack can post there: of those only the host. Others
 * have their token in the query or in the path, where it is recognised by its looks.
 */
export function shownUrl(text: string, format: WebhookFormat = 'generic'): string {
  const url = new URL(text)
  if (format !== 'generic' || formatFor(text) !== 'generic') return `${url.origin}/${SECRET_MASK}`
  const path = url.pathname.split('/').map((part) => (LIKE_A_TOKEN.test(part) ? SECRET_MASK : part))
  return `${url.origin}${path.join('/')}${url.search === '' ? '' : `?${SECRET_MASK}`}`
}

/** Long, without a dot, with letters and digits: no name that people give. */
const LIKE_A_TOKEN = /^(?=.*\d)(?=.*[A-Za-z])[^.]{20,}$/
