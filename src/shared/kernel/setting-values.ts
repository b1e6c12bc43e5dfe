import { z } from 'zod'

/** What a secret looks like in answers; sent back it means "as it is". */
export const SECRET_MASK = '********'

/** A BCP-47 language tag, in its canonical form: `pt-br` becomes `pt-BR`. */
export const LocaleTag = z
  .string()
  .max(35)
  .transform((text, context) => {
    const [tag] = canonical(text)
    if (tag !== undefined) return tag
    context.addIssue({ code: 'custom', message: 'must be a language tag such as en or pt-BR' })
    return z.NEVER
  })

/** A time zone of the IANA database, such as `UTC` or `Europe/Berlin`; letters in any case. */
export const TimeZone = z
  .string()
  .max(64)
  .transform((text, context) => {
    const zone = /^[A-Za-z][A-Za-z0-9_+/-]*$/.test(text) ? zoneOf(text) : undefined
    if (zone !== undefined) return zone
    context.addIssue({ code: 'custom', message: 'must be a time zone such as UTC or Europe/Berlin' })
    return z.NEVER
  })

/** `#rrggbb` */
export const Colour = z.string().regex(/^#[0-9a-f]{6}$/i, 'must be a colour such as #0d9488')

/** The address of a picture: http, https, or a path on this host. */
export const PictureUrl = z
  .string()
  .max(2000)
  .refine(
    (text) => /^\/(?!\/)[^\s\\]*$/.test(text) || (/^https?:\/\/[^\s\\]+$/i.test(text) && URL.canParse(text)),
    'must be an http or https URL, or a path that begins with /',
  )

/** The schemes of a page. */
export const ThemeName = z.enum(['light', 'dark', 'system'])

/** The theme of a fresh installation. */
export const THEME_DEFAULTS = {
  panelName: 'panel',
  logoUrl: null,
  faviconUrl: null,
  defaultTheme: 'dark',
  enabledThemes: ['light', 'dark'],
  customCss: null,
  primaryColor: '#0d9488',
  secondaryColor: '#64748b',
  accentColor: '#06b6d4',
} as const

const HOST_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/
const IPV6 = /^[0-9A-Fa-f:.]+$/

/** A host name, an IPv4 or an IPv6 address. */
export const HostName = z
  .string()
  .max(253)
  .refine(
    (text) => (HOST_NAME.test(text) && !/[_-]$/.test(text)) || (IPV6.test(text) && text.includes(':')),
    'must be a host name or an address',
  )

const CONTROL = /\p{Cc}/u
const PLAIN_ADDRESS = z.email().max(254)

/** Text of one line: header lines and protocol commands are made of it. */
export const OneLine = z.string().refine((text) => !CONTROL.test(text), 'must be a single line')

/** Holds a cron line; the daemon says whether it is one. */
export const CronLine = OneLine.trim().min(1).max(100)

/** A sender: `panel@example.org` or `Panel <panel@example.org>`. */
export const Sender = z
  .string()
  .max(320)
  .refine((text) => parseSender(text) !== undefined, 'must be an address, or a name and <address>')

/** The parts of a {@link Sender}; `undefined` for anything else. */
export function parseSender(text: string): { readonly name: string; readonly address: string } | undefined {
  if (CONTROL.test(text)) return undefined
  const whole = text.trim()
  const begin = whole.indexOf('<')
  const isNamed = begin >= 0 && whole.endsWith('>')
  const address = isNamed ? whole.slice(begin + 1, -1) : whole
  const name = isNamed ? unquoted(whole.slice(0, begin).trim()) : ''
  if (/["<>]/.test(name) || !PLAIN_ADDRESS.safeParse(address).success) return undefined
  return { name, address }
}

function unquoted(text: string): string {
  const isQuoted = text.length > 1 && text.startsWith('"') && text.endsWith('"')
  return (isQuoted ? text.slice(1, -1) : text).trim()
}

/** Where an identity provider describes itself: its issuer, or the whole address of its discovery document. */
export const DiscoveryUrl = z
  .string()
  .trim()
  .max(2000)
  .refine((text) => isProtectedUrl(text), 'must be an https URL; http is taken only on this machine')

/** A name that a provider knows this panel by. */
export const ClientId = OneLine.min(1).max(255)

/** Whether what goes there cannot be read on the way: https, or http that never leaves this machine. */
export function isProtectedUrl(text: string): boolean {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return false
  const { protocol, hostname, username, password } = new URL(text)
  if (username !== '' || password !== '') return false
  return protocol === 'https:' || isLoopbackHost(hostname.replace(/^\[|\]$/g, ''))
}

/** Whether only this machine can be meant. */
export function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host)
}

function canonical(tag: string): readonly string[] {
  try {
    return Intl.getCanonicalLocales(tag)
  } catch {
    return [] // a RangeError: it is no tag, which the caller says in its own words
  }
}

function zoneOf(text: string): string | undefined {
  try {
    const known = new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone
    // Aliases (Asia/Kolkata, Asia/Calcutta) stay as they were chosen.
    return known.toLowerCase() === text.toLowerCase() ? known : text
  } catch {
    return undefined // a RangeError: there is no such zone
  }
}
