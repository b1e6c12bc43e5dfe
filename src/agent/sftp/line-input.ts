import { StringDecoder } from 'node:string_decoder'
import { oneLine } from '../../shared/kernel/terminal-text.ts'

const MOST_CHARS = 4000
const CLEAR = '\r\u001b[K'
/** Keys that send more than a character, such as arrows: nothing here understands them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is left out
const SEQUENCE = /\u001b(?:\[[0-9;?]{0,16}[@-~]|O.|.)/g

interface LineInputParts {
  /** The client shows nothing of what is typed by itself. */
  readonly echoes: boolean
  readonly typed: (line: string) => void
  /** Ctrl-C, or Ctrl-D in an empty line. */
  readonly left: () => void
}

/** One line of input below what is printed: characters, backspace, Ctrl-U, Ctrl-W. */
export class LineInput {
  readonly #parts: LineInputParts
  readonly #decoder = new StringDecoder('utf8')
  #line = ''
  #wasReturn = false

  constructor(parts: LineInputParts) {
    this.#parts = parts
  }

  /** Takes what was typed; answers what the terminal is to show of it. */
  take(bytes: Buffer): string {
    const { echoes, typed, left } = this.#parts
    const before = this.#line
    let isSent = false
    for (const char of this.#decoder.write(bytes).replace(SEQUENCE, '')) {
      const isSecond = char === '\n' && this.#wasReturn
      this.#wasReturn = char === '\r'
      if (isSecond) continue
      if (char === '\r' || char === '\n') {
        const line = this.#line
        this.#line = ''
        isSent = true
        typed(line)
      } else if (echoes && (char === '\u0003' || (char === '\u0004' && this.#line === ''))) {
        left()
        break
      } else if (char === '\u007f' || char === '\b') this.#line = [...this.#line].slice(0, -1).join('')
      else if (char === '\u0015') this.#line = ''
      else if (char === '\u0017') {
        const words = this.#line.trimEnd()
        this.#line = words.slice(0, words.lastIndexOf(' ') + 1)
      } else if (char >= ' ' && this.#line.length < MOST_CHARS) this.#line += char
    }
    if (!echoes || (!isSent && this.#line === before)) return ''
    return `${CLEAR}${this.#shown()}`
  }

  /** A text that is printed above the line; `isLast`: nothing is typed any more. */
  around(text: string, isLast = false): string {
    if (!this.#parts.echoes) return text
    if (isLast) return `${CLEAR}${text}`
    return text === '' ? '' : `${CLEAR}${text}${this.#shown()}`
  }

  #shown(): string {
    return oneLine(this.#line)
  }
}
