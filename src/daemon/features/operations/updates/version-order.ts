/** Whether `one` comes after `other` by Semantic Versioning; a text that is no version comes after nothing. */
export function isNewer(one: string, other: string): boolean {
  const [a, b] = [partsOf(one), partsOf(other)]
  if (a === undefined || b === undefined) return false
  for (const [place, number] of a.numbers.entries()) {
    const difference = number - (b.numbers[place] ?? 0)
    if (difference !== 0) return difference > 0
  }
  // A version without a pre-release comes after all of its pre-releases.
  if (a.before === undefined || b.before === undefined) return a.before === undefined && b.before !== undefined
  return comparePreReleases(a.before, b.before) > 0
}

/** The version that a text names, without a leading `v` and without build data; `undefined`: it names none. */
export function versionIn(text: string): string | undefined {
  return /^v?(\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[0-9A-Za-z.-]{1,60})?)(?:\+[0-9A-Za-z.-]{1,60})?$/.exec(text.trim())?.[1]
}

function partsOf(text: string): { numbers: readonly number[]; before: readonly string[] | undefined } | undefined {
  const version = versionIn(text)
  if (version === undefined) return undefined
  const dash = version.indexOf('-')
  const main = dash < 0 ? version : version.slice(0, dash)
  return { numbers: main.split('.').map(Number), before: dash < 0 ? undefined : version.slice(dash + 1).split('.') }
}

/** Numbers by value and below words; of two with the same beginning the longer comes after. */
function comparePreReleases(a: readonly string[], b: readonly string[]): number {
  for (const [place, one] of a.entries()) {
    const other = b[place]
    if (other === undefined) return 1
    if (one === other) continue
    const [isNumber, otherIsNumber] = [/^\d+$/.test(one), /^\d+$/.test(other)]
    if (isNumber && otherIsNumber) return Number(one) - Number(other)
    if (isNumber !== otherIsNumber) return isNumber ? -1 : 1
    return one < other ? -1 : 1
  }
  return a.length - b.length
}
