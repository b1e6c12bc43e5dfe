import { stripVTControlCharacters } from 'node:util'

/** Rows as aligned columns, two spaces apart, without borders: easy to read, to cut and to paste. */
export function table(header: readonly string[] | undefined, rows: readonly (readonly string[])[]): string {
  const all = header === undefined ? rows : [header, ...rows]
  const taken = all.map((row) => row.map(displayWidth))
  const widths: number[] = []
  for (const cells of taken)
    cells.forEach((width, i) => {
      widths[i] = Math.max(widths[i] ?? 0, width)
    })
  return all.map((row, at) => `${line(row, taken[at] ?? [], widths)}\n`).join('')
}

/** One thing as lines of `title  value`. */
export function sheet(pairs: readonly (readonly [string, string])[]): string {
  return table(undefined, pairs)
}

function line(row: readonly string[], taken: readonly number[], widths: readonly number[]): string {
  return row
    .map((cell, i) => (i === row.length - 1 ? cell : cell + ' '.repeat((widths[i] ?? 0) - (taken[i] ?? 0))))
    .join('  ')
    .trimEnd()
}

/** How many cells of a terminal a text takes: none for colours and combining marks, two for wide characters. */
export function displayWidth(text: string): number {
  if (/^[\u0020-\u007e]*$/.test(text)) return text.length
  let width = 0
  for (const char of stripVTControlCharacters(text)) width += charWidth(char)
  return width
}

function charWidth(char: string): number {
  if (char >= ' ' && char <= '~') return 1
  if (/^(?:\p{M}|[\u200b-\u200d])$/u.test(char)) return 0
  return WIDE.test(char) ? 2 : 1
}

const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]$/u
