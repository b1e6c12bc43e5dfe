/** What stands where a secret was. */
export const MASKED = '********'

/** Longer texts are cut: what is not looked at is not kept either. */
export const MOST_TEXT = 64 * 1024

const SECRET_NAME =
  /pass(?:word|wd|phrase)|secret|token|api[_-]?key|(?:private|access|encryption)[_-]?key|credential|authorization|cookie/i
/** What only names a row (`apiKeyId`). */
const ROW_NAME = /(?:Id|_id)$/
/** Deeper than anything of ours; what a client sends may be a circle or bottomless. */
const MOST_DEPTH = 8

/**
 * Texts that are secrets by their look, with what of them may be seen. Each expression begins at a character that it cannot
 * pass over twice, so that its time grows with the text and no faster; what has no such beginning is scanned below.
 */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  // Our own tokens: the part before the secret names a row and is none.
  [/\b(pak|pnk|pst)_[0-9a-z]{1,26}_[\w-]+/g, `$1_${MASKED}`],
  [/\b(pak|pnk|pst)_[\w-]{20,}/g, `$1_${MASKED}`],
  [/\b(bearer|basic)\s+[\w.~+/=-]{6,}/gi, `$1 ${MASKED}`],
  // The password of a URL.
  [/(?<=[a-z0-9+.-])(:\/\/[^\s/:@]*):[^\s/@]+@/gi, `$1:${MASKED}@`],
]

/** The text without what looks like a secret: tokens, keys, passwords in URLs, values behind names that mark a secret. */
export function maskText(text: string): string {
  const bounded = text.length <= MOST_TEXT ? text : `${text.slice(0, MOST_TEXT - 1)}…`
  const masked = SECRETS.reduce((so, [pattern, shown]) => so.replace(pattern, shown), maskKeyBlocks(bounded))
  return maskNamedValues(maskJwts(masked))
}

/**
 * A JSON value with the values of such names masked; with `texts` also what looks like a secret inside of texts. What is
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

/** All texts and numbers masked. What stays shows whether there was a secret: `{ before: null, after: '********' }`. */
function hidden(value: unknown, depth: number): unknown {
  if (value === null || value === undefined || typeof value === 'boolean') return value
  if (typeof value !== 'object' || depth > MOST_DEPTH) return MASKED
  if (Array.isArray(value)) return value.map((item) => hidden(item, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, hidden(item, depth + 1)]))
}

/** Where a private key begins and ends; the words between the dashes hold no dash, so that no two of them overlap. */
const KEY_BEGIN = /-----BEGIN [A-Z ]{0,60}-----/g
const KEY_WORDS = 'PRIVATE KEY-----'

/** Private keys in PEM form, one without an end up to the end of the text. */
function maskKeyBlocks(text: string): string {
  let shown = ''
  let at = 0
  for (const begin of text.matchAll(KEY_BEGIN)) {
    if (begin.index < at || !begin[0].endsWith(KEY_WORDS)) continue
    shown += `${text.slice(at, begin.index)}${MASKED}`
    at = endOfKey(text, begin.index + begin[0].length)
  }
  return shown + text.slice(at)
}

function endOfKey(text: string, from: number): number {
  const ends = /-----END [A-Z ]{0,60}-----/g
  ends.lastIndex = from
  for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
    if (end[0].endsWith(KEY_WORDS)) return end.index + end[0].length
  }
  return text.length
}

/** Signed tokens: three parts between dots, the first of which is the beginning of an object in base64url. */
function maskJwts(text: string): string {
  return text.replace(/[\w.-]+/g, (run) => (run.includes('eyJ') ? maskJwtsOfRun(run) : run))
}

function maskJwtsOfRun(run: string): string {
  const parts = run.split('.')
  const shown: string[] = []
  for (let at = 0; at < parts.length; at += 1) {
    const part = parts[at] ?? ''
    const begin = part.search(/\beyJ[\w-]/)
    const isToken = begin >= 0 && at + 2 < parts.length && parts[at + 1] !== ''
    shown.push(isToken ? `${part.slice(0, begin)}${MASKED}` : part)
    if (isToken) at += 2
  }
  return shown.join('.')
}

/** The values behind names that mark a secret. Every word is looked at once, and what stands behind it belongs to no other word. */
function maskNamedValues(text: string): string {
  const words = /[\w-]+/g
  // What stands behind a name: `: value`, `="value"`, `':'value'`.
  const values = /(["']?\s*[:=]\s*)(?:"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|[^\s,;&}]+)/y
  let shown = ''
  let at = 0
  for (let word = words.exec(text); word !== null; word = words.exec(text)) {
    if (!SECRET_NAME.test(word[0])) continue
    values.lastIndex = words.lastIndex
    const value = values.exec(text)
    if (value === null) continue
    shown += `${text.slice(at, words.lastIndex)}${value[1]}${MASKED}`
    at = values.lastIndex
    words.lastIndex = at
  }
  return shown + text.slice(at)
}
