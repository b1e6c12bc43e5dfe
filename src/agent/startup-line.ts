const PLACEHOLDER = /\{\{([^{}]+)\}\}/y
const HERE_DOCUMENT = /<<(-?)[ \t]*(["'\\]?)([A-Za-z0-9_.-]+)["']?/y

/** The variable that a placeholder's name stands for; `undefined` when there is none of that name. */
type VariableOf = (name: string) => string | undefined

/** Where a placeholder stands: among words, inside double quotes (or a here-document), or in arithmetic. */
type Place = 'words' | 'quotes' | 'arithmetic'

interface Frame {
  readonly place: Place
  /** What ends it. */
  readonly end: string
  /** Open brackets of its own that come before. */
  depth: number
}

/**
 * Turns the `{{NAME}}` of a startup line into variables of the shell, so that each value is one word (or part of one) as it
 * is: never code, never split at blanks, never a pattern for file names. Among words the variable is put into quotes;
 * inside quotes it stands as it is. What is in single quotes is often a line for another shell, and is treated as one.
 */
export function shellLine(text: string, variableOf: VariableOf): string {
  return new Scanner(text, variableOf).scan()
}

class Scanner {
  readonly #text: string
  readonly #variableOf: VariableOf
  readonly #frames: Frame[] = [{ place: 'words', end: '', depth: 0 }]
  readonly #documents: { end: string; tabs: boolean }[] = []
  #at = 0
  #out = ''

  constructor(text: string, variableOf: VariableOf) {
    this.#text = text
    this.#variableOf = variableOf
  }

  scan(): string {
    while (this.#at < this.#text.length) {
      if (this.#placeholder()) continue
      if (this.#text[this.#at] === '\\') this.#copy(2)
      else if (!this.#ends() && !this.#begins() && !(this.#frame.place === 'words' && this.#amongWords())) this.#copy(1)
    }
    return this.#out
  }

  get #frame(): Frame {
    return this.#frames.at(-1) ?? { place: 'words', end: '', depth: 0 }
  }

  #placeholder(place: Place = this.#frame.place): boolean {
    PLACEHOLDER.lastIndex = this.#at
    const match = PLACEHOLDER.exec(this.#text)
    if (match === null) return false
    const variable = this.#variableOf((match[1] ?? '').trim())
    if (variable !== undefined) this.#out += place === 'words' ? `"\${${variable}}"` : `\${${variable}}`
    this.#at += match[0].length
    return true
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
    if (frame.end === '' || !this.#text.startsWith(frame.end, this.#at)) return false
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
    if (char === "'") {
      const end = this.#indexOf("'", this.#at + 1)
      this.#out += `'${shellLine(this.#text.slice(this.#at + 1, end), this.#variableOf)}`
      this.#at = end
      this.#copy(1)
    } else if (char === '#' && /(^|[\s;&|()])$/.test(this.#text.slice(0, this.#at).slice(-1))) {
      this.#copy(this.#indexOf('\n', this.#at) - this.#at)
    } else if (char === '\n' && this.#documents.length > 0) {
      this.#copy(1)
      for (const document of this.#documents.splice(0)) this.#hereDocument(document)
    } else return this.#beginsDocument()
    return true
  }

  #beginsDocument(): boolean {
    HERE_DOCUMENT.lastIndex = this.#at
    const match = HERE_DOCUMENT.exec(this.#text)
    if (match === null) return false
    this.#documents.push({ end: match[3] ?? '', tabs: match[1] === '-' })
    this.#copy(match[0].length)
    return true
  }

  #hereDocument({ end, tabs }: { end: string; tabs: boolean }): void {
    while (this.#at < this.#text.length) {
      const lineEnd = this.#indexOf('\n', this.#at)
      const line = this.#text.slice(this.#at, lineEnd)
      while (this.#at < lineEnd) if (!this.#placeholder('quotes')) this.#copy(1)
      this.#copy(1)
      if ((tabs ? line.replace(/^\t+/, '') : line) === end) return
    }
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
