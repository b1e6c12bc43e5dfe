import { pad } from './cells.ts'

const KEYS: readonly (readonly [string, string])[] = [
  ['Ctrl-]  q', 'detach; the game keeps running'],
  ['Esc  /  i Enter', 'to the log keys / back to typing'],
  ['PgUp PgDn', 'scroll; at the top loads an older page'],
  ['Ctrl-U Ctrl-D', 'half a page'],
  ['g  G  f', 'top, bottom and follow, follow on/off'],
  ['/  n  N', 'search backwards (regex, smart case), older, newer'],
  ['&', 'show matching lines only (! inverts, Esc clears)'],
  ['l', 'level: all, INFO+, WARN+, ERROR'],
  ['t  w  c', 'timestamps, wrap, colours; ← → scroll sideways'],
  ['v  y', 'select lines, copy'],
  ["m  '", 'bookmark, next bookmark'],
  ['h', 'load the gap on the screen, else an older page'],
  ['e F6', 'export what is shown to a file'],
  ['p F5', 'start, stop, restart, kill'],
  ['↑ ↓  Ctrl-R  Tab', 'history, search in it, complete'],
  ['Ctrl-L', 'draw again'],
  ['Ctrl-C', 'clears the line; twice in a second detaches'],
]

/** The list of keys in place of the log. */
export function helpRows(width: number, height: number): string[] {
  const rows = ['Keys', ...KEYS.map(([keys, what]) => ` ${pad(keys, 17)} ${what}`)]
  return rows.slice(0, height).map((row) => pad(row, width))
}
