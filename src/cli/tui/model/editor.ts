/** A line being typed; `cursor` is an offset into the text, `killed` what the last cut took. */
export interface Editor {
  readonly text: string
  readonly cursor: number
  readonly killed: string
}

export const EMPTY_EDITOR: Editor = { text: '', cursor: 0, killed: '' }

/** An editor with this text and the cursor behind it. */
export function editorWith(text: string, before: Editor = EMPTY_EDITOR): Editor {
  return { ...before, text, cursor: text.length }
}

/** Types a text at the cursor; control characters are left out. */
export function insert(editor: Editor, typed: string): Editor {
  const text = typed.replace(/\p{Cc}/gu, '')
  return {
    ...editor,
    text: editor.text.slice(0, editor.cursor) + text + editor.text.slice(editor.cursor),
    cursor: editor.cursor + text.length,
  }
}

/** The readline motions and cuts. */
export type Edit =
  | 'left'
  | 'right'
  | 'home'
  | 'end'
  | 'wordLeft'
  | 'wordRight'
  | 'backspace'
  | 'delete'
  | 'cutWord'
  | 'cutWordRight'
  | 'cutBefore'
  | 'cutAfter'
  | 'yank'

/** Carries out one motion or cut. */
export function edit(editor: Editor, what: Edit): Editor {
  const { text, cursor } = editor
  switch (what) {
    case 'home':
      return { ...editor, cursor: 0 }
    case 'end':
      return { ...editor, cursor: text.length }
    case 'left':
      return { ...editor, cursor: previous(text, cursor) }
    case 'right':
      return { ...editor, cursor: following(text, cursor) }
    case 'wordLeft':
      return { ...editor, cursor: wordStart(text, cursor) }
    case 'wordRight':
      return { ...editor, cursor: wordEnd(text, cursor) }
    case 'backspace':
      return { ...cut(editor, previous(text, cursor), cursor), killed: editor.killed }
    case 'delete':
      return { ...cut(editor, cursor, following(text, cursor)), killed: editor.killed }
    case 'cutWord':
      return cut(editor, spaceBefore(text, cursor), cursor)
    case 'cutWordRight':
      return cut(editor, cursor, wordEnd(text, cursor))
    case 'cutBefore':
      return cut(editor, 0, cursor)
    case 'cutAfter':
      return cut(editor, cursor, text.length)
    case 'yank':
      return insert(editor, editor.killed)
  }
}

function cut(editor: Editor, from: number, to: number): Editor {
  const killed = editor.text.slice(from, to)
  return {
    text: editor.text.slice(0, from) + editor.text.slice(to),
    cursor: from,
    killed: killed === '' ? editor.killed : killed,
  }
}

const segmenter = new Intl.Segmenter(undefined, { granularity: 'grapheme' })

/** Longer than any character as a reader sees it; the time of a segmenter grows with the square of the text. */
const NEAR = 64

function previous(text: string, cursor: number): number {
  const from = Math.max(0, cursor - NEAR)
  let last = 0
  for (const { index } of segmenter.segment(text.slice(from, cursor))) last = index
  return from + last
}

function following(text: string, cursor: number): number {
  for (const { segment } of segmenter.segment(text.slice(cursor, cursor + NEAR))) return cursor + segment.length
  return cursor
}

function wordStart(text: string, cursor: number): number {
  return backOver(
    text,
    backOver(text, cursor, (char) => !WORD.test(char)),
    (char) => WORD.test(char),
  )
}

const WORD = /[\p{L}\p{N}_]/u

/** Where the characters before `cursor` that fit begin. */
function backOver(text: string, cursor: number, fits: (char: string) => boolean): number {
  let at = cursor
  while (at > 0) {
    const low = text.charCodeAt(at - 1)
    const width = at > 1 && low >= 0xdc00 && low <= 0xdfff ? 2 : 1
    if (!fits(text.slice(at - width, at))) break
    at -= width
  }
  return at
}

function wordEnd(text: string, cursor: number): number {
  const found = /^[^\p{L}\p{N}_]*[\p{L}\p{N}_]*/u.exec(text.slice(cursor))
  return cursor + (found?.[0].length ?? 0)
}

function spaceBefore(text: string, cursor: number): number {
  return backOver(text, backOver(text, cursor, isSpace), (char) => !isSpace(char))
}

function isSpace(char: string): boolean {
  return char.trim() === ''
}
