/**
 * The known name that a mistyped one most likely means; `undefined` when none is near. Dots part the levels of a name: one that
 * only lacks its section, or stands in another one, is near too.
 */
export function nearestName(typed: string, known: readonly string[]): string | undefined {
  const word = typed.toLowerCase().slice(0, MOST)
  const rated = known.map((name) => ({ name, distance: distanceOf(word, name.toLowerCase()) }))
  const [best] = rated.sort((a, b) => a.distance - b.distance)
  return best !== undefined && best.distance <= NEAR ? best.name : undefined
}

/** Longer words are no slips of the pen; the comparison takes the square of the length. */
const MOST = 60
const NEAR = 2
/** What another section costs, so that a slip in the right one wins. */
const ELSEWHERE = 0.5

function distanceOf(typed: string, name: string): number {
  const leaf = (text: string): string => text.slice(text.lastIndexOf('.') + 1)
  return Math.min(slips(typed, name), slips(leaf(typed), leaf(name)) + ELSEWHERE)
}

/** A word of which half is another one is no slip. */
function slips(a: string, b: string): number {
  const found = edits(a, b)
  return found * 2 < Math.max(a.length, b.length) ? found : MOST
}

/** Letters to insert, remove, replace or swap with a neighbour (optimal string alignment). */
function edits(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  for (let i = 1; i <= a.length; i++) {
    const [above = [], beforeThat = []] = [rows[i - 1], rows[i - 2]]
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? (beforeThat[j - 2] ?? MOST) + 1 : MOST
      row.push(
        Math.min((above[j] ?? MOST) + 1, (row[j - 1] ?? MOST) + 1, (above[j - 1] ?? MOST) + (same ? 0 : 1), swapped),
      )
    }
    rows.push(row)
  }
  return rows.at(-1)?.[b.length] ?? MOST
}
