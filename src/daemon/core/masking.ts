/** What stands where a secret was. */
export const MASKED = '********'

const SECRET_NAME = /password|secret|token|apikey|api_key|privatekey|credential|authorization|cookie/i

/** Texts that are secrets by their look, with what of them may be seen. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  // Our own tokens: the part before the secret names a row and is none.
  [/\b(pak|pnk|pst)_[0-9a-z]{1,26}_[\w-]+/g, `$1_${MASKED}`],
  [/\b(pak|pnk|pst)_[\w-]{20,}/g, `$1_${MASKED}`],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, MASKED],
  [/\beyJ[\w-]+\.[\w-]+\.[\w-]*/g, MASKED],
  [/\b(bearer|basic)\s+[\w.~+/=-]{6,}/gi, `$1 ${MASKED}`],
  [/([a-z][a-z0-9+.-]*:\/\/[^\s/:@]*):[^\s/@]+@/gi, `$1:${MASKED}@`],
  [
    /(["']?[\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization|cookie|credential)[\w-]*["']?\s*[:=]\s*)(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;&}]+)/gi,
    `$1${MASKED}`,
  ],
]

/** The text without what looks like a secret: tokens, keys, passwords in URLs, values behind telling names. */
export function maskText(text: string): string {
  return SECRETS.reduce((masked, [pattern, shown]) => masked.replace(pattern, shown), text)
}

/** A JSON value with the values of telling names masked; with `texts` also what looks like a secret inside of texts. */
export function maskSecrets(value: unknown, texts = false, depth = 0): unknown {
  if (typeof value === 'string') return texts ? maskText(value) : value
  if (typeof value !== 'object' || value === null || depth > 8) return value
  if (Array.isArray(value)) return value.map((item) => maskSecrets(item, texts, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      SECRET_NAME.test(key) ? MASKED : maskSecrets(item, texts, depth + 1),
    ]),
  )
}
