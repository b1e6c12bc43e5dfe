/** A statement that has no end within so much is none of ours. */
const MOST_CHARS = 64 * 1024 * 1024

/** What the rules of quoting are. */
export type SqlFlavour = 'mysql' | 'postgresql'

/**
 * The statements of a text, as they come: split at `;` outside of quotes and comments, or at what a line `DELIMITER x` says (MySQL). Throws
 * where a statement is too long, or the text ends in the middle of a quote.
 */
export async function* statements(text: AsyncIterable<string>, flavour: SqlFlavour): AsyncGenerator<string> {
  let rest = ''
  let delimiter = ';'
  const next = (isLast: boolean): string | undefined => {
    const found = cut(rest, { delimiter, flavour, isLast })
    if (found === undefined) return undefined
    rest = rest.slice(found.after)
    if (found.delimiter !== undefined) delimiter = found.delimiter
    return found.statement
  }
  for await (const piece of text) {
    rest += piece
    for (let statement = next(false); statement !== undefined; statement = next(false))
      if (statement !== '') yield statement
    if (rest.length > MOST_CHARS) throw new Error('a statement of the dump is longer than 64 MiB')
  }
  for (let statement = next(true); statement !== undefined; statement = next(true))
    if (statement !== '') yield statement
  if (withoutComments(rest) !== '') throw new Error('the dump ends in the middle of a statement')
}

interface Cut {
  readonly statement: string
  /** Where the text goes on. */
  readonly after: number
  readonly delimiter?: string
}

function cut(
  text: string,
  {
    delimiter,
    flavour,
    isLast,
  }: { readonly delimiter: string; readonly flavour: SqlFlavour; readonly isLast: boolean },
): Cut | undefined {
  const start = text.search(/\S/)
  if (start === -1) return undefined
  if (flavour === 'mysql' && /^DELIMITER[ \t]/.test(text.slice(start, start + 10))) {
    const end = text.indexOf('\n', start)
    if (end === -1) return undefined
    return { statement: '', after: end + 1, delimiter: text.slice(start + 10, end).trim() || ';' }
  }
  for (let at = start; at < text.length; ) {
    if (text.startsWith(delimiter, at)) {
      return { statement: text.slice(start, at).trim(), after: at + delimiter.length }
    }
    const past = pastQuote(text, at, flavour)
    if (past === undefined) return undefined
    // What may go on in the next piece is looked at when that is there.
    if (!isLast && past >= text.length - 1) return undefined
    at = past
  }
  return undefined
}

/** Behind the quote or comment that begins here, or the next character; `undefined`: its end is not there. */
function pastQuote(text: string, at: number, flavour: SqlFlavour): number | undefined {
  const char = text[at]
  if (char === "'" || char === '"' || (char === '`' && flavour === 'mysql')) {
    const escapes = flavour === 'mysql' && char !== '`'
    for (let end = at + 1; end < text.length; end++) {
      if (escapes && text[end] === '\\') end += 1
      else if (text[end] === char) return end + 1
    }
    return undefined
  }
  if (beginsComment(text, at, flavour)) {
    const end = text.indexOf('\n', at)
    return end === -1 ? undefined : end + 1
  }
  if (char === '/' && text[at + 1] === '*') {
    const end = text.indexOf('*/', at + 2)
    return end === -1 ? undefined : end + 2
  }
  if (char === '$' && flavour === 'postgresql') {
    const tag = /^\$(?:[A-Za-z_][A-Za-z0-9_]{0,62})?\$/.exec(text.slice(at, at + 65))?.[0]
    if (tag === undefined) return at + 1
    const end = text.indexOf(tag, at + tag.length)
    return end === -1 ? undefined : end + tag.length
  }
  return at + 1
}

/** Of MySQL two dashes are one only before a blank: `5--3` is a sum. */
function beginsComment(text: string, at: number, flavour: SqlFlavour): boolean {
  if (text[at] === '#') return flavour === 'mysql'
  if (text[at] !== '-' || text[at + 1] !== '-') return false
  return flavour === 'postgresql' || text[at + 2] === undefined || (text[at + 2] ?? '') <= ' '
}

function withoutComments(text: string): string {
  return text.replace(/--[^\n]*(?:\n|$)/g, '').trim()
}
