import { DocumentProblem, isObject, readDocument } from '../../src/shared/templates/document.ts'
import { exportEgg } from '../../src/shared/templates/egg-export.ts'
import { EggProblem, importEgg } from '../../src/shared/templates/egg-import.ts'

/** What came of one document. */
export type Outcome = 'imported' | 'refused as an egg' | 'refused as a document'

type Random = (below: number) => number

/** The same numbers for the same seed. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0 || 1
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return state % below
  }
}

/** Reads, imports and exports a document; anything but the two named refusals is thrown on. */
export function tried(text: string): Outcome {
  try {
    const { template, document } = importEgg(readDocument(text).value)
    exportEgg({ template, egg: document, exportedAt: '' })
    return 'imported'
  } catch (error) {
    if (error instanceof DocumentProblem) return 'refused as a document'
    if (error instanceof EggProblem) return 'refused as an egg'
    throw error
  }
}

/**
 * The same with its cost in milliseconds of processor time. What seems dear is tried again: the garbage of those before is collected while
 * any one is read.
 */
export function timed(text: string): { readonly outcome: Outcome; readonly ms: number } {
  let ms = Number.POSITIVE_INFINITY
  for (let attempt = 1; ; attempt++) {
    const before = process.cpuUsage()
    const outcome = tried(text)
    const { user, system } = process.cpuUsage(before)
    ms = Math.min(ms, (user + system) / 1000)
    if (ms < MOST_MS || attempt === 3) return { outcome, ms }
  }
}

/** What no egg may cost. */
export const MOST_MS = 100

/** An egg with one to four things wrong with it: in its text, or in what it says. */
export function mutated(text: string, random: Random): string {
  let out = text
  for (let i = random(4); i >= 0; i--) out = random(3) === 0 ? brokenText(out, random) : brokenValue(out, random)
  return out
}

const PIECES = [
  '{', '}', '[', ']', '"', "'", '\\', ':', '- ', '\n', '\t', '&a ', '*a', '!!x ', '? ', '|\n', '>-\n', '%YAML 9\n', '---\n', '#',
  '\0', '\uFEFF', '\u2028', '{{', '}}', '$(', '`', '<<EOF\n', "$'", '\ud800', '{{A | split}}', '[['.repeat(500), '- '.repeat(300),
] // biome-ignore format: a list of pieces

function brokenText(text: string, random: Random): string {
  const at = random(text.length + 1)
  const length = random(40)
  switch (random(5)) {
    case 0:
      return text.slice(0, at)
    case 1:
      return text.slice(0, at) + text.slice(at + length)
    case 2:
      return text.slice(0, at) + text.slice(at, at + length).repeat(1 + random(50)) + text.slice(at)
    case 3:
      return text.slice(0, at) + String.fromCharCode(random(0x300)) + text.slice(at + 1)
    default:
      return text.slice(0, at) + PIECES[random(PIECES.length)] + text.slice(at)
  }
}

const ODD: readonly (() => unknown)[] = [
  () => null,
  () => true,
  () => -1.5e300,
  () => '',
  () => [],
  () => ({}),
  () => 'x'.repeat(100_000),
  () => '\0',
  () => '{{'.repeat(2000),
  () => '$('.repeat(2000),
  () => '"$('.repeat(1000),
  () => `${'`"'.repeat(1500)}{{A}}`,
  () => '<<A\n'.repeat(800),
  () => '[ '.repeat(1500),
  () => 'regex:/(a+)+$/|regex:/(x{1,1000}){1,1000}/',
  () => `regex:${'(a|b)*'.repeat(300)}`,
  () => `required|regex:/${'|/|'.repeat(1500)}`,
  () => Array.from({ length: 600 }, () => 'regex:/^a{1,900}$/'),
  () => Object.fromEntries(Array.from({ length: 800 }, (_, i) => [`k${i}`, { parser: 'yaml', find: { a: '{{b}}' } }])),
  () =>
    Array.from({ length: 300 }, (_, i) => ({
      env_variable: `V${i}`,
      default_value: 'a'.repeat(4000),
      rules: ['regex:/^(a?){900}$/'],
    })),
  () => JSON.stringify({ done: Array.from({ length: 500 }, () => 'regex:(a{1,900}){1,900}') }),
  () => ({ toString: 1, constructor: { prototype: [] }, length: -1 }),
  () => `{"a":${'['.repeat(1000)}`,
]

/** A value somewhere in the document becomes another; a document that cannot be read is changed as a text. */
function brokenValue(text: string, random: Random): string {
  let value: unknown
  try {
    value = structuredClone(readDocument(text).value)
  } catch {
    return brokenText(text, random)
  }
  let holder: unknown = value
  for (let depth = random(5); depth >= 0 && typeof holder === 'object' && holder !== null; depth--) {
    const keys: string[] = Object.keys(holder)
    const key = keys[random(Math.max(1, keys.length))] ?? 'x'
    const inner: unknown = isObject(holder) || Array.isArray(holder) ? Reflect.get(holder, key) : undefined
    if (depth === 0 || typeof inner !== 'object' || inner === null) {
      if (random(6) === 0) Reflect.deleteProperty(holder, key)
      else Reflect.set(holder, random(8) === 0 ? `${key}x` : key, ODD[random(ODD.length)]?.())
      break
    }
    holder = inner
  }
  return JSON.stringify(value)
}
