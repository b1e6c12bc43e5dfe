import type { Edit } from '../model/editor.ts'

/** The readline motions and cuts by key; `undefined` when the key is none. */
export function editKey(key: string): Edit | undefined {
  return EDITS[key]
}

const EDITS: Readonly<Record<string, Edit>> = {
  left: 'left',
  'ctrl-b': 'left',
  right: 'right',
  'ctrl-f': 'right',
  home: 'home',
  'ctrl-a': 'home',
  end: 'end',
  'ctrl-e': 'end',
  'alt-b': 'wordLeft',
  'ctrl-left': 'wordLeft',
  'alt-f': 'wordRight',
  'ctrl-right': 'wordRight',
  backspace: 'backspace',
  delete: 'delete',
  'ctrl-w': 'cutWord',
  'alt-backspace': 'cutWord',
  'alt-d': 'cutWordRight',
  'ctrl-u': 'cutBefore',
  'ctrl-k': 'cutAfter',
  'ctrl-y': 'yank',
}
