/**
 * What the person at the terminal did: a key (a character, or a name such as `enter`, `pageup`, `f5`), a paste, or a turn of
 * the mouse wheel by so many notches, upwards below zero.
 */
export type Input =
  | { readonly kind: 'key'; readonly name: string; readonly ctrl: boolean; readonly alt: boolean }
  | { readonly kind: 'paste'; readonly text: string }
  | { readonly kind: 'wheel'; readonly notches: number }

/** A key alone. */
export type Key = Extract<Input, { kind: 'key' }>

const ESC = '\u001B'
const PASTE_START = `${ESC}[200~`
const PASTE_END = `${ESC}[201~`

/** Names what Ink reads from the terminal. Call `flush` a moment after the last sequence. */
export interface KeyReader {
  /** Takes one sequence, or a run of characters, as Ink has split them. */
  push(sequence: string): Input[]
  /** Whether an Escape waits that may be a key of its own or the beginning of a sequence that comes in two pieces. */
  readonly waiting: boolean
  /** Takes what waits for the key Escape. */
  flush(): Input[]
}

/** A reader of keys, bracketed pastes and the wheel. */
export function createKeyReader(): KeyReader {
  let begun = ''
  let paste: string | undefined
  const take = (text: string): Input[] => {
    if (paste !== undefined) return takePaste(text)
    if (text === '') return []
    if (!text.startsWith(ESC)) return [...text].map((character) => characterKey(character, false))
    if (text.startsWith(PASTE_START)) {
      paste = ''
      return takePaste(text.slice(PASTE_START.length))
    }
    if (BEGUN.test(text)) {
      begun = text
      return []
    }
    const { length, input } = readSequence(text)
    return [...(input === undefined ? [] : [input]), ...take(text.slice(length))]
  }
  const takePaste = (text: string): Input[] => {
    const whole = `${paste ?? ''}${text}`
    const end = whole.indexOf(PASTE_END)
    paste = end < 0 ? whole : undefined
    if (end < 0) return []
    return [{ kind: 'paste', text: whole.slice(0, end) }, ...take(whole.slice(end + PASTE_END.length))]
  }
  return {
    push: (sequence) => {
      const before = begun
      begun = ''
      // An Escape that another key follows in a piece of its own is no Alt.
      if (before === ESC && !GOES_ON.test(sequence)) return [named('esc'), ...take(sequence)]
      return take(before + sequence)
    },
    get waiting() {
      return begun !== ''
    },
    flush: () => {
      const before = begun
      begun = ''
      return before === '' ? [] : [named('esc'), ...take(before.slice(ESC.length))]
    },
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals send keys as control sequences
const BEGUN = /^\u001B(?:\[[\d;?<>=]*|O|\[\[)?$/
const GOES_ON = /^[[O]/
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals send keys as control sequences
const SEQUENCE = /^\u001B(?:\[([\d;]*)([A-Za-z~])|O([A-Za-z])|\[\[([A-E]))/
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals send keys as control sequences
const MOUSE = /^\u001B\[<(\d{1,3});\d{1,5};\d{1,5}([Mm])/
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals send keys as control sequences
const UNKNOWN = /^\u001B\[[\d;?<>=]*[\x20-\x7E]/

interface Read {
  readonly length: number
  readonly input: Input | undefined
}

/** The first key of a text that begins with an Escape and something behind it. */
function readSequence(text: string): Read {
  const mouse = MOUSE.exec(text)
  if (mouse !== null) return { length: mouse[0].length, input: wheel(Number(mouse[1])) }
  const sequence = SEQUENCE.exec(text)
  if (sequence !== null) {
    const [all, parameters = '', final = '', ss3 = '', linux = ''] = sequence
    return { length: all.length, input: sequenceKey(parameters, final || ss3 || linux, linux !== '') }
  }
  if (text[1] === ESC) return { length: 1, input: named('esc') }
  const unknown = UNKNOWN.exec(text)
  if (unknown !== null) return { length: unknown[0].length, input: undefined }
  const character = String.fromCodePoint(text.codePointAt(1) ?? 0)
  return { length: 1 + character.length, input: characterKey(character, true) }
}

/** Buttons 64 and 65 are the wheel; clicks and the other axis are not asked for anything. */
function wheel(button: number): Input | undefined {
  const turned = button & ~(4 | 8 | 16) // Shift, Alt and Ctrl
  if (turned === 64) return { kind: 'wheel', notches: -1 }
  return turned === 65 ? { kind: 'wheel', notches: 1 } : undefined
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

function characterKey(character: string, alt: boolean): Input {
  const code = character.codePointAt(0) ?? 0
  const control = CONTROLS[code]
  if (control !== undefined) return { kind: 'key', name: control, ctrl: false, alt }
  if (code === 0) return { kind: 'key', name: 'space', ctrl: true, alt }
  if (code < 32) return { kind: 'key', name: String.fromCharCode(code + 64).toLowerCase(), ctrl: true, alt }
  return { kind: 'key', name: character, ctrl: false, alt }
}

function named(name: string): Input {
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
export function keyName(input: Key): string {
  return `${input.ctrl ? 'ctrl-' : ''}${input.alt ? 'alt-' : ''}${input.name}`
}
