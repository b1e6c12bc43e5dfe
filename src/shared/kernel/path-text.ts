/**
 * Names of files are bytes and need not be UTF-8. As text, each byte that is no part of a valid UTF-8 sequence is the lone surrogate
 * U+DC00 + byte (U+DC80 to U+DCFF), as Python's `surrogateescape` has it: JSON keeps it as `\udcff`, a URL as `%FF`, and a terminal
 * shows `\xff`. Both ways lose nothing: each sequence of bytes has one text, and {@link pathBytes} takes no other text for it.
 */

const ESCAPE = 0xdc00
const LOWEST = 0xdc80
const HIGHEST = 0xdcff

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const encoder = new TextEncoder()

/** The text of a name or path that is given as bytes. */
export function pathText(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes)
  } catch {
    return escapedText(bytes) // not UTF-8 as a whole
  }
}

/** The bytes that a text stands for; `undefined` for a text that no bytes have: another surrogate, or escaped bytes that are UTF-8. */
export function pathBytes(text: string): Uint8Array | undefined {
  if (text.isWellFormed()) return encoder.encode(text)
  const parts: number[] = []
  for (const char of text) {
    const code = char.charCodeAt(0)
    if (char.length === 1 && code >= LOWEST && code <= HIGHEST) parts.push(code - ESCAPE)
    else if (char.isWellFormed()) parts.push(...encoder.encode(char))
    else return undefined
  }
  const bytes = Uint8Array.from(parts)
  return pathText(bytes) === text ? bytes : undefined
}

/** The text for a part of a URL: as `encodeURIComponent`, with an escaped byte as `%FF`. Surrogates of no byte become U+FFFD. */
export function percentEncoded(text: string): string {
  if (text.isWellFormed()) return encodeURIComponent(text)
  let encoded = ''
  for (const char of text) {
    const code = char.charCodeAt(0)
    const isByte = char.length === 1 && code >= LOWEST && code <= HIGHEST
    encoded += isByte
      ? `%${(code - ESCAPE).toString(16).toUpperCase()}`
      : encodeURIComponent(char.isWellFormed() ? char : '\ufffd')
  }
  return encoded
}

/** The text of a part of a URL, with bytes that are no UTF-8 escaped. What is no percent-encoding stays as it stands. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    const bytes = [...encoder.encode(text)]
    const decoded: number[] = []
    for (let at = 0; at < bytes.length; at++) {
      const hex = bytes[at] === PERCENT ? Number.parseInt(hexAt(bytes, at), 16) : Number.NaN
      decoded.push(Number.isNaN(hex) ? (bytes[at] ?? 0) : hex)
      if (!Number.isNaN(hex)) at += 2
    }
    return pathText(Uint8Array.from(decoded))
  }
}

const PERCENT = 0x25

function hexAt(bytes: readonly number[], at: number): string {
  const digits = String.fromCharCode(bytes[at + 1] ?? 0, bytes[at + 2] ?? 0)
  return /^[\da-f]{2}$/i.test(digits) ? digits : ''
}

/** Valid sequences as text, and every byte between them escaped. */
function escapedText(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceAt(bytes, at)
    if (length === 0) text += String.fromCharCode(ESCAPE + (bytes[at++] ?? 0))
    else {
      text += strict.decode(bytes.subarray(at, at + length))
      at += length
    }
  }
  return text
}

/** How many bytes the valid UTF-8 sequence at this place has; 0 when there is none. */
function sequenceAt(bytes: Uint8Array, at: number): number {
  const first = bytes[at] ?? 0
  const length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0
  if (length < 2) return length
  try {
    strict.decode(bytes.subarray(at, at + length))
    return at + length <= bytes.length ? length : 0
  } catch {
    return 0
  }
}
