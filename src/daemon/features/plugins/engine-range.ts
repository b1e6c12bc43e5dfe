type Version = readonly [number, number, number]

const COMPARATOR = /^(>=|<=|>|<|=|\^|~)?(\d+)\.(\d+)\.(\d+)$/

/** Whether the text is a range of versions: comparators such as `>=0.1.0 <1.0.0`, `^0.1.0`, `~0.1.0`, `0.1.0`, or `*`. */
export function isRange(text: string): boolean {
  const parts = partsOf(text)
  return parts.length > 0 && (text.trim() === '*' || parts.every((part) => COMPARATOR.test(part)))
}

/** Whether a version is in the range; what stands behind `-` or `+` in it does not count. */
export function inRange(version: string, range: string): boolean {
  if (range.trim() === '*') return true
  const match = /^(\d+)\.(\d+)\.(\d+)/.exec(version)
  if (match === null) return false
  const [, ...numbers] = match
  return partsOf(range).every((part) => fits(versionOf(numbers), part))
}

function partsOf(range: string): string[] {
  return range.split(/\s+/).filter((part) => part !== '')
}

function fits(version: Version, part: string): boolean {
  const [, sign = '=', ...numbers] = COMPARATOR.exec(part) ?? []
  const bound = versionOf(numbers)
  const order = compare(version, bound)
  switch (sign) {
    case '>=':
      return order >= 0
    case '<=':
      return order <= 0
    case '>':
      return order > 0
    case '<':
      return order < 0
    case '^':
      return order >= 0 && compare(version, nextBreaking(bound)) < 0
    case '~':
      return order >= 0 && compare(version, [bound[0], bound[1] + 1, 0]) < 0
    default:
      return order === 0
  }
}

/** The first number that is not zero says what a version keeps to. */
function nextBreaking([major, minor, patch]: Version): Version {
  if (major > 0) return [major + 1, 0, 0]
  return minor > 0 ? [0, minor + 1, 0] : [0, 0, patch + 1]
}

function compare(left: Version, right: Version): number {
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2]
}

function versionOf([major, minor, patch]: readonly string[]): Version {
  return [Number(major), Number(minor), Number(patch)]
}
