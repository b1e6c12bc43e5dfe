const ANY_PLACEHOLDER = /\{\{[^{}]+\}\}/
const PLACEHOLDER = /\{\{([^{}]+)\}\}/y
/** The beginning of a here-document whose end is named by one word, bare or quoted as a whole. */
const HERE_DOCUMENT =
  /<<(-?)[ \t]*(?:'([A-Za-z0-9_.-]+)'|"([A-Za-z0-9_.-]+)"|\\([A-Za-z0-9_.-]+)|([A-Za-z0-9_.-]+))(?=[\s;&|<>()]|$)/y
const CASE = /case(?=\s)/y
/** `NAME | split`, or the name of another filter. */
const FILTERED = /^([^|]*)\|\s*(\w{1,20})\s*$/
/** Characters that make a word outside of quotes a pattern for file names. */
const FILE_PATTERN = /[*?]|\[[^\s[\]]/y
/** What a shell that is handed a line stands behind: `sh -c '…'`, `eval '…'`, `trap '…'`. */
const LINE_FOLLOWS = /(?:\s-[a-z]{0,3}c|\b(?:eval|trap))[ \t]{1,9}$/
const WORD_BEGINS = /^[\s;&|()]?$/

/** A startup line with values whose place in it cannot be known for certain; the message is the end of a sentence about it. */
export class StartupLineProblem extends Error {
  override readonly name = 'StartupLineProblem'
}

const CASE_IN_SUBSTITUTION = 'must not use case inside $( ) beside {{…}}: use if, or move the case out of $( )'
const BRACKETS = 'must have a blank between the brackets of $( ( … ) … ): $(( begins arithmetic'
const DOLLAR_QUOTE = "must not use $'…' beside {{…}}, which shells read in different ways: use '…' or printf"
const DELIMITER = 'must name the end of a here-document by one plain word, as in <<EOF'
const QUOTED_DOCUMENT = "must not have {{…}} in a here-document whose end is quoted, as in <<'EOF': write <<EOF"
const FILTER = 'has a placeholder with a filter that does not exist: {{NAME | split}} is the only one'
const PATTERN_BESIDE_SPLIT =
  'must not use patterns for file names (* ? [) beside {{… | split}}, which switches them off'
const UNENDED_DOCUMENT = 'has a here-document whose end cannot be found: write its end alone on a line'

/** The variable that a placeholder's name stands for; `undefined` when there is none of that name. */
type VariableOf = (name: string) => string | undefined

/** Where a placeholder stands: among words, inside double quotes (or a here-document), or in arithmetic. */
export type Place = 'words' | 'quotes' | 'arithmetic'

/** Something in the text of a line. */
interface Found {
  readonly at: number
  readonly length: number
  readonly place: Place
  /** Inside `$( )` or backquotes. */
  readonly substituted: boolean
}

/** What a startup line holds outside of single quotes and here-documents. */
export interface StartupLine {
  readonly placeholders: readonly (Found & { readonly name: string })[]
  readonly escapedQuotes: readonly Found[]
  /** Whether some word is a pattern for file names. */
  readonly hasFilePattern: boolean
  /** Whether a placeholder stands in single quotes that no shell is said to read as a line of its own. */
  readonly hasQuotedPlaceholder: boolean
}

interface Frame {
  readonly place: Place
  /** What ends it. */
  readonly end: string
  /** Open brackets of its own that come before. */
  depth: number
}

/** Reads where things stand in a startup line. Throws a {@link StartupLineProblem} for one that cannot be followed. */
export function readStartupLine(text: string): StartupLine {
  const scanner = new Scanner(text, () => 'VALUE')
  scanner.scan()
  return scanner.line
}

/**
 * Turns the `{{NAME}}` of a startup line into variables of the shell, so that each value is one word (or part of one) as it
 * is: never code, never split at blanks, never a pattern for file names. Among words the variable is put into quotes;
 * inside quotes it stands as it is. What is in single quotes is often a line for another shell, and is treated as one.
 * `{{NAME | split}}` among words is split at blanks and vanishes when it is empty; patterns for file names are off in such a line.
 * A line that cannot be followed for certain is refused with a {@link StartupLineProblem}: a value in the wrong place would be split.
 */
export function shellLine(text: string, variableOf: VariableOf): string {
  if (!text.includes('{{')) return text
  const scanner = new Scanner(text, variableOf)
  const line = scanner.scan()
  if (!scanner.splits) return line
  if (scanner.line.hasFilePattern) throw new StartupLineProblem(PATTERN_BESIDE_SPLIT)
  return `set -f; ${line}`
}

/** Why a startup line is refused, as the end of a sentence about it; `undefined`: it is not. */
export function startupLineProblem(text: string): string | undefined {
  try {
    shellLine(text, () => 'VALUE')
    return undefined
  } catch (error) {
    if (error instanceof StartupLineProblem) return error.message
    throw error
  }
}

interface HereDocument {
  readonly end: string
  /** Tabs before its lines do not count. */
  readonly tabs: boolean
  readonly isQuoted: boolean
}

class Scanner {
  readonly #text: string
  readonly #variableOf: VariableOf
  readonly #frames: Frame[]
  readonly #documents: HereDocument[] = []
  readonly #placeholders: (Found & { readonly name: string })[] = []
  readonly #escapedQuotes: Found[] = []
  #hasFilePattern = false
  #hasQuotedPlaceholder = false
  #splits = false
  #at = 0
  #out = ''

  constructor(text: string, variableOf: VariableOf, place: Place = 'words') {
    this.#text = text
    this.#variableOf = variableOf
    this.#frames = [{ place, end: '', depth: 0 }]
  }

  /** Whether something was begun that has not ended. */
  get isOpen(): boolean {
    return this.#frames.length > 1
  }

  /** Whether a value is left to be split. */
  get splits(): boolean {
    return this.#splits
  }

  get line(): StartupLine {
    return {
      placeholders: this.#placeholders,
      escapedQuotes: this.#escapedQuotes,
      hasFilePattern: this.#hasFilePattern,
      hasQuotedPlaceholder: this.#hasQuotedPlaceholder,
    }
  }

  scan(): string {
    while (this.#at < this.#text.length) {
      if (this.#placeholder()) continue
      if (this.#text[this.#at] === '\\') this.#escape()
      else if (!this.#ends() && !this.#begins() && !(this.#frame.place === 'words' && this.#amongWords())) this.#copy(1)
    }
    if (this.#documents.length > 0) throw new StartupLineProblem(UNENDED_DOCUMENT)
    return this.#out
  }

  get #frame(): Frame {
    return this.#frames.at(-1) ?? { place: 'words', end: '', depth: 0 }
  }

  #placeholder(): boolean {
    const { place } = this.#frame
    PLACEHOLDER.lastIndex = this.#at
    const match = PLACEHOLDER.exec(this.#text)
    if (match === null) return false
    const [whole, content = ''] = match
    const [, name = content, filter] = FILTERED.exec(content) ?? []
    if (filter !== undefined && filter !== 'split') throw new StartupLineProblem(FILTER)
    this.#placeholders.push({ ...this.#found(whole.length), name: name.trim() })
    const variable = this.#variableOf(name.trim())
    const splits = filter !== undefined && place === 'words'
    if (variable !== undefined) this.#out += place === 'words' && !splits ? `"\${${variable}}"` : `\${${variable}}`
    this.#splits ||= splits
    this.#at += whole.length
    return true
  }

  #found(length: number): Found {
    const substituted = this.#frames.some(({ end }) => end === ')' || end === '`')
    return { at: this.#at, length, place: this.#frame.place, substituted }
  }

  #escape(): void {
    if (this.#text[this.#at + 1] === '"') this.#escapedQuotes.push(this.#found(2))
    this.#copy(2)
  }

  /** The end of what was begun last. */
  #ends(): boolean {
    const frame = this.#frame
    const open = frame.end.startsWith(')') ? '(' : ''
    if (open !== '' && this.#text[this.#at] === open) frame.depth++
    if (frame.depth > 0 && this.#text[this.#at] === ')') {
      frame.depth--
      this.#copy(1)
      return true
    }
    if (frame.end === '' || !this.#text.startsWith(frame.end, this.#at)) {
      if (frame.end === '))' && this.#text[this.#at] === ')') throw new StartupLineProblem(BRACKETS)
      return false
    }
    this.#frames.pop()
    this.#copy(frame.end.length)
    return true
  }

  /** What has an end of its own: quotes, `$(…)`, `$((…))`, `${…}`, backquotes. */
  #begins(): boolean {
    const { place } = this.#frame
    const begin = (start: string, inside: Place, end: string): boolean => {
      if (!this.#text.startsWith(start, this.#at)) return false
      this.#copy(start.length)
      this.#frames.push({ place: inside, end, depth: 0 })
      return true
    }
    return (
      begin('$((', 'arithmetic', '))') ||
      begin('$(', 'words', ')') ||
      begin('${', place, '}') ||
      begin('`', 'words', '`') ||
      (place === 'words' && begin('"', 'quotes', '"'))
    )
  }

  /** What means something only outside of quotes: single quotes, comments, here-documents. */
  #amongWords(): boolean {
    const char = this.#text[this.#at]
    this.#hasFilePattern ||= this.#beginsFilePattern()
    if (char === "'") {
      const end = this.#indexOf("'", this.#at + 1)
      const quoted = this.#text.slice(this.#at + 1, end)
      this.#hasQuotedPlaceholder ||= ANY_PLACEHOLDER.test(quoted) && !LINE_FOLLOWS.test(this.#text.slice(0, this.#at))
      this.#out += `'${shellLine(quoted, this.#variableOf)}`
      this.#at = end
      this.#copy(1)
    } else if (char === '$' && this.#text[this.#at + 1] === "'") {
      throw new StartupLineProblem(DOLLAR_QUOTE)
    } else if (this.#frame.end === '}') {
      return false // no command: nothing else means anything here
    } else if (char === '#' && this.#beginsWord) {
      this.#copy(this.#indexOf('\n', this.#at) - this.#at)
    } else if (char === 'c' && this.#beginsWord && this.#frame.end === ')' && this.#isCase()) {
      // The `)` of its patterns would be taken for the end of the substitution.
      throw new StartupLineProblem(CASE_IN_SUBSTITUTION)
    } else if (char === '\n' && this.#documents.length > 0) {
      this.#copy(1)
      for (const document of this.#documents.splice(0)) this.#hereDocument(document)
    } else return this.#text.startsWith('<<', this.#at) && this.#beginsDocument()
    return true
  }

  /** `$?` and `$*` are variables, and `[ … ]` is a command. */
  #beginsFilePattern(): boolean {
    FILE_PATTERN.lastIndex = this.#at
    return this.#frame.end !== '}' && this.#text[this.#at - 1] !== '$' && FILE_PATTERN.test(this.#text)
  }

  get #beginsWord(): boolean {
    return WORD_BEGINS.test(this.#text.charAt(this.#at - 1))
  }

  #isCase(): boolean {
    CASE.lastIndex = this.#at
    return CASE.test(this.#text)
  }

  #beginsDocument(): true {
    HERE_DOCUMENT.lastIndex = this.#at
    const match = HERE_DOCUMENT.exec(this.#text)
    if (match !== null) {
      const [whole, dash, single, double, escaped, bare] = match
      const quoted = single ?? double ?? escaped
      this.#documents.push({ end: quoted ?? bare ?? '', tabs: dash === '-', isQuoted: quoted !== undefined })
      this.#copy(whole.length)
    } else if (this.#text.startsWith('<<<', this.#at)) this.#copy(3)
    else throw new StartupLineProblem(DELIMITER)
    return true
  }

  #hereDocument({ end, tabs, isQuoted }: HereDocument): void {
    const begin = this.#at
    for (let at = begin; at < this.#text.length; ) {
      const lineEnd = this.#indexOf('\n', at)
      const line = this.#text.slice(at, lineEnd)
      if ((tabs ? line.replace(/^\t+/, '') : line) === end) {
        this.#out += this.#body(this.#text.slice(begin, at), isQuoted)
        this.#at = at
        this.#copy(lineEnd + 1 - at)
        return
      }
      at = lineEnd + 1
    }
    throw new StartupLineProblem(UNENDED_DOCUMENT)
  }

  /** What stands in a here-document is as in double quotes; where its end is quoted nothing is filled in. */
  #body(text: string, isQuoted: boolean): string {
    if (isQuoted) {
      if (ANY_PLACEHOLDER.test(text)) throw new StartupLineProblem(QUOTED_DOCUMENT)
      return text
    }
    const inner = new Scanner(text, this.#variableOf, 'quotes')
    const out = inner.scan()
    if (inner.isOpen || text.endsWith('\\\n')) throw new StartupLineProblem(UNENDED_DOCUMENT)
    return out
  }

  #indexOf(what: string, from: number): number {
    const index = this.#text.indexOf(what, from)
    return index < 0 ? this.#text.length : index
  }

  #copy(characters: number): void {
    this.#out += this.#text.slice(this.#at, this.#at + characters)
    this.#at += characters
  }
}
