/** What the person at the terminal did: a key (a character, or a name such as `enter`, `pageup`, `f5`) or a paste. */
export type Input =
  | { readonly kind: 'key'; readonly name: string; readonly ctrl: boolean; readonly alt: boolean }
  | { readonly kind: 'paste'; readonly text: string }

const ESC = '\u001B'
const PASTE_START = `${ESC}[200~`
const PASTE_END = `${ESC}[201~`

/** Turns the bytes of a terminal into keys. Feed it chunks; call `flush` a moment after the last one. */
export interface KeyReader {
  push(chunk: string): Input[]
  /** Whether an Escape waits that may be a key of its own or the beginning of a sequence. */
  readonly waiting: boolean
  /** Takes what waits for the key Escape. */
  flush(): Input[]
}

/** A reader of keys and bracketed pastes. */
export function createKeyReader(): KeyReader {
  let rest = ''
  let paste: string | undefined
  const drain = (last: boolean): Input[] => {
    const inputs: Input[] = []
    for (;;) {
      if (paste !== undefined) {
        const end = rest.indexOf(PASTE_END)
        if (end < 0) {
          const keep = partialEnd(rest)
          paste += rest.slice(0, rest.length - keep)
          rest = rest.slice(rest.length - keep)
          return inputs
        }
        inputs.push({ kind: 'paste', text: paste + rest.slice(0, end) })
        rest = rest.slice(end + PASTE_END.length)
        paste = undefined
      } else if (rest.startsWith(PASTE_START)) {
        paste = ''
        rest = rest.slice(PASTE_START.length)
      } else if (rest === '') {
        return inputs
      } else {
        const taken = takeKey(rest, last)
        if (taken === undefined) return inputs
        rest = rest.slice(taken.length)
        if (taken.key !== undefined) inputs.push(taken.key)
      }
    }
  }
  return {
    push: (chunk) => {
      rest += chunk
      return drain(false)
    },
    get waiting() {
      return rest !== '' && paste === undefined
    },
    flush: () => drain(true),
  }
}

/** How many characters at the end may be the beginning of the mark that ends a paste. */
function partialEnd(text: string): number {
  for (let length = Math.min(PASTE_END.length - 1, text.length); length > 0; length -= 1) {
    if (PASTE_END.startsWith(text.slice(-length))) return length
  }
  return 0
}

interface Taken {
  readonly length: number
  readonly key: Input | undefined
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals send keys as control sequences
const SEQUENCE = /^\u001B(?:\[([\d;]*)([A-Za-z~])|O([A-Za-z])|\[\[([A-E]))/
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals send keys as control sequences
const BEGUN = /^\u001B(?:\[[\d;?<>=]*|O|\[\[)$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals send keys as control sequences
const UNKNOWN = /^\u001B\[[\d;?<>=]*[\x20-\x7E]/

/** The first key of a text; `undefined` when more bytes are needed to know it. */
function takeKey(text: string, last: boolean): Taken | undefined {
  if (!text.startsWith(ESC)) return takeCharacter(text, false)
  if (text.length === 1) return last ? { length: 1, key: key('esc') } : undefined
  const sequence = SEQUENCE.exec(text)
  if (sequence !== null) {
    const [all, parameters = '', final = '', ss3 = '', linux = ''] = sequence
    return { length: all.length, key: sequenceKey(parameters, final || ss3 || linux, linux !== '') }
  }
  if (BEGUN.test(text) && !last) return undefined
  if (text[1] === ESC) return { length: 1, key: key('esc') }
  const unknown = UNKNOWN.exec(text)
  if (unknown !== null) return { length: unknown[0].length, key: undefined }
  const next = takeCharacter(text.slice(1), true)
  return { length: 1 + next.length, key: next.key }
}

const FINALS: Readonly<Record<string, string>> = {
  A: 'up', B: 'down', C: 'right', D: 'left', H: 'home', F: 'end', P: 'f1', Q: 'f2', R: 'f3', S: 'f4', Z: 'backtab', M: 'enter',
} // biome-ignore format: a table
const NUMBERS: Readonly<Record<string, string>> = {
  1: 'home', 2: 'insert', 3: 'delete', 4: 'end', 5: 'pageup', 6: 'pagedown', 7: 'home', 8: 'end', 11: 'f1', 12: 'f2', 13: 'f3', 14: 'f4',
  15: 'f5', 17: 'f6', 18: 'f7', 19: 'f8', 20: 'f9', 21: 'f10', 23: 'f11', 24: 'f12',
} // biome-ignore format: a table

function sequenceKey(parameters: string, final: string, linux: boolean): Input | undefined {
  const [number = '', modifier = '1'] = parameters.split(';')
  const name = linux ? `f${'ABCDE'.indexOf(final) + 1}` : final === '~' ? NUMBERS[number] : FINALS[final]
  if (name === undefined) return undefined
  const bits = Number(modifier) - 1
  return { kind: 'key', name, ctrl: (bits & 4) !== 0, alt: (bits & 2) !== 0 }
}

const CONTROLS: Readonly<Record<number, string>> = {
  8: 'backspace',
  9: 'tab',
  10: 'enter',
  13: 'enter',
  127: 'backspace',
}

function takeCharacter(text: string, alt: boolean): Taken {
  const code = text.codePointAt(0) ?? 0
  const length = code > 0xffff ? 2 : 1
  const named = CONTROLS[code]
  if (named !== undefined) return { length, key: { kind: 'key', name: named, ctrl: false, alt } }
  if (code === 0) return { length, key: { kind: 'key', name: 'space', ctrl: true, alt } }
  if (code < 32)
    return { length, key: { kind: 'key', name: String.fromCharCode(code + 64).toLowerCase(), ctrl: true, alt } }
  return { length, key: { kind: 'key', name: text.slice(0, length), ctrl: false, alt } }
}

function key(name: string): Input {
  return { kind: 'key', name, ctrl: false, alt: false }
}

/** Reads keys as people write them, one or several in a row with commas: `ctrl-]`, `^]`, `ctrl-p,ctrl-q`, `f10`. */
export function readKeyNames(text: string): { name: string; ctrl: boolean }[] {
  return text.split(',').map((part) => {
    const found = /^(?:ctrl[-+]|\^|C-)(.+)$/i.exec(part.trim())
    return { name: (found?.[1] ?? part.trim()).toLowerCase(), ctrl: found !== null }
  })
}

/** A key as the handlers take it: `ctrl-u`, `alt-b`, `pageup`, `a`. */
export function keyName(input: Extract<Input, { kind: 'key' }>): string {
  return `${input.ctrl ? 'ctrl-' : ''}${input.alt ? 'alt-' : ''}${input.name}`
}
