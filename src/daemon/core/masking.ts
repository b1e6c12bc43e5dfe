/** What stands where a secret was. */
export const MASKED = '********'

const SECRET_NAME =
  /pass(?:word|wd|phrase)|secret|token|api[_-]?key|(?:private|access|encryption)[_-]?key|credential|authorization|cookie/i
/** What only names a row (`apiKeyId`). */
const ROW_NAME = /(?:Id|_id)$/
/** Deeper than anything of ours; what a client sends may be a circle or bottomless. */
const MOST_DEPTH = 8

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
    /(["']?[\w-]*(?:pass(?:word|wd|phrase)|secret|token|(?:api|private|access|encryption)[_-]?key|authorization|cookie|credential)[\w-]*["']?\s*[:=]\s*)(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;&}]+)/gi,
    `$1${MASKED}`,
  ],
]

/** The text without what looks like a secret: tokens, keys, passwords in URLs, values behind telling names. */
export function maskText(text: string): string {
  return SECRETS.reduce((masked, [pattern, shown]) => masked.replace(pattern, shown), text)
}

/**
 * A JSON value with the values of telling names masked; with `texts` also what looks like a secret inside of texts. What is
 * nested too deep to be looked at is masked as a whole.
 */
export function maskSecrets(value: unknown, texts = false, depth = 0): unknown {
  if (typeof value === 'string') return texts ? maskText(value) : value
  if (typeof value !== 'object' || value === null) return value
  if (depth > MOST_DEPTH) return MASKED
  if (Array.isArray(value)) return value.map((item) => maskSecrets(item, texts, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      SECRET_NAME.test(key) && !ROW_NAME.test(key) ? hidden(item, depth + 1) : maskSecrets(item, texts, depth + 1),
    ]),
  )
}

/** All texts and numbers masked. What stays tells whether there was a secret: `{ before: null, after: '********' }`. */
function hidden(value: unknown, depth: number): unknown {
  if (value === null || value === undefined || typeof value === 'boolean') return value
  if (typeof value !== 'object' || depth > MOST_DEPTH) return MASKED
  if (Array.isArray(value)) return value.map((item) => hidden(item, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, hidden(item, depth + 1)]))
}
