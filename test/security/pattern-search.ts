import { createContext, Script } from 'node:vm'

/** An input that is made of a repeated part. */
export interface Attack {
  readonly prefix: string
  readonly pump: string
  readonly suffix: string
}

/** How hard the search looks. */
export interface Effort {
  /** Inputs made from the expression itself. */
  readonly derived: number
  /** Changes that are tried on the slowest of them. */
  readonly climbs: number
}

/** An input is looked at in this length first: what is not linear is a hundred times slower than the rest there already. */
const SCREENED = 12_000
const GIVEN_UP_MS = 400
/** What takes this long in the first length ends the search: it is worse than all that is linear. */
const FOUND_MS = 40

/** The text of an attack in a length. */
export function attackText({ prefix, pump, suffix }: Attack, length: number): string {
  const left = Math.max(0, length - prefix.length - suffix.length)
  return `${prefix}${pump.repeat(Math.ceil(left / pump.length)).slice(0, left)}${suffix}`
}

/** The slowest input for an expression that is found: from its own parts at first, then by climbing from the slowest ones. */
export function worstAttack(pattern: RegExp, effort: Effort): Attack {
  const random = seeded(pattern.source)
  const alphabet = [...new Set(atomsOf(pattern).flat())]
  const tried: { readonly attack: Attack; readonly ms: number }[] = []
  /** Whether to go on. */
  const attempt = (attack: Attack): boolean => {
    const ms = timeOf(pattern, attackText(attack, SCREENED))
    tried.push({ attack, ms })
    tried.sort((a, b) => b.ms - a.ms)
    return ms < FOUND_MS
  }
  const slowest = (place: number): Attack => tried[place]?.attack ?? { prefix: '', pump: 'a', suffix: '' }
  if (!derivedAttacks(pattern, effort.derived, random).every(attempt)) return slowest(0)
  for (let step = 0; step < effort.climbs; step++) {
    if (!attempt(changed(slowest(step % 3), alphabet, random))) break
  }
  return slowest(0)
}

/** Milliseconds of CPU that an expression needs for a text; at least `GIVEN_UP_MS` when it is ended before. */
export function timeOf(pattern: RegExp, text: string): number {
  CONTEXT['pattern'] = pattern
  CONTEXT['text'] = text
  const script = pattern.global ? REPLACE : TEST
  // The time-out is one of the clock: on a busy machine it may be over before there was much to do.
  for (let timeout = GIVEN_UP_MS; ; timeout *= 4) {
    let isEnded = false
    const ms = cpuMs(() => {
      try {
        script.runInContext(VM, { timeout })
      } catch {
        isEnded = true // it was still looking
      }
    })
    if (!isEnded) return ms
    if (ms > GIVEN_UP_MS / 2 || timeout > GIVEN_UP_MS * 64) return Math.max(ms, GIVEN_UP_MS)
  }
}

/** Milliseconds of CPU that some work takes, which a busy machine does not make longer. */
export function cpuMs(work: () => void): number {
  const begun = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(begun)
  return (user + system) / 1000
}

const CONTEXT: Record<string, unknown> = {}
const VM = createContext(CONTEXT)
const TEST = new Script('pattern.lastIndex = 0; pattern.test(text)')
const REPLACE = new Script("text.replace(pattern, '')")

/** Windows of the expression's atoms, repeated, behind what leads to them and before what ends a match. */
function derivedAttacks(pattern: RegExp, most: number, random: () => number): Attack[] {
  const atoms = atomsOf(pattern)
  const sample = atoms.map(([first = '']) => first)
  const pumps = new Map<string, number>()
  const add = (pump: string, at: number): void => {
    if (pump !== '' && !pumps.has(pump)) pumps.set(pump, at)
  }
  for (const [at, choices] of atoms.entries()) for (const choice of choices) add(choice, at)
  for (const { at, word } of wordsOf(pattern, atoms)) add(word, at)
  for (const length of [2, 3, 4, 6, 8]) {
    for (let at = 0; at + length <= atoms.length; at++) add(sample.slice(at, at + length).join(''), at)
  }
  add(sample.join(''), 0)
  const attacks = [...pumps].flatMap(([pump, at]) => {
    const lead = sample.slice(0, at).join('')
    return [
      { prefix: '', pump, suffix: '\u0000' },
      { prefix: lead, pump, suffix: '\u0000' },
      { prefix: lead, pump, suffix: sample.slice(at + pump.length).join('') },
      { prefix: '', pump, suffix: '' },
    ]
  })
  if (attacks.length <= most) return attacks
  // The first ones are single atoms and words; of the longer windows some are drawn.
  const kept = attacks.slice(0, Math.ceil(most / 2))
  while (kept.length < most) {
    const drawn = attacks[Math.floor(random() * attacks.length)]
    if (drawn !== undefined) kept.push(drawn)
  }
  return kept
}

function changed({ prefix, pump, suffix }: Attack, alphabet: readonly string[], random: () => number): Attack {
  const drawn = (): string => alphabet[Math.floor(random() * alphabet.length)] ?? 'a'
  const at = Math.floor(random() * (pump.length + 1))
  const kind = Math.floor(random() * 5)
  if (kind === 0) return { prefix, pump: pump.slice(0, at) + drawn() + pump.slice(at), suffix }
  if (kind === 1 && pump.length > 1) return { prefix, pump: pump.slice(0, at) + pump.slice(at + 1) || pump, suffix }
  if (kind === 2) return { prefix: prefix + drawn(), pump, suffix }
  if (kind === 3) return { prefix, pump, suffix: drawn() + suffix }
  return { prefix: '', pump: pump + drawn(), suffix: '\u0001' }
}

/** Characters that each single-character part of an expression matches, in their order. */
function atomsOf({ source, flags }: RegExp): string[][] {
  const mode = flags.replace(/[gymsd]/g, '')
  return [...source.matchAll(PARTS)].flatMap(([part]) => {
    if (/^(?:\\[bB1-9]|[()|?*+^$]|\{\d*,?\d*\}|\(\?(?:[:=!]|<[=!]))$/.test(part)) return []
    const one = new RegExp(`^(?:${part === '{' || part === '}' ? `\\${part}` : part})$`, mode)
    const fitting = CANDIDATES.filter((char) => one.test(char))
    // The first, one from the middle, the last: a class often holds several kinds.
    return [[fitting[0], fitting[Math.floor(fitting.length / 2)], fitting.at(-1)].flatMap((char) => char ?? [])]
  })
}

const PARTS =
  /\[\^?(?:\\.|[^\]\\])*\]|\\(?:u\{[^}]*\}|u[\dA-Fa-f]{4}|x[\dA-Fa-f]{2}|[pP]\{[^}]*\}|c[A-Z]|.)|\(\?(?:[:=!]|<[=!])|\{\d*,?\d*\}|[^\\[]/g
const CANDIDATES = [
  ...'aA0 _-.:/"\'@=+~,;!#$%&()*<>?[\\]^`{|}',
  ...'bcdefghijklmnopqrstuvwxyzBCDEFGHIJKLMNOPQRSTUVWXYZ123456789',
  ...'\t\n\r\u0000\u0001\u0007\u001b\u007f\u0085\u009b\u009c\u009d\u200e\u2028\u202e\u2066é\u0301ß中😀\ufe0f🇩',
]

/** Runs of plain letters in the source: `token` of `(?:secret|token)`. */
function wordsOf({ source }: RegExp, atoms: readonly string[][]): { at: number; word: string }[] {
  const sample = atoms.map(([first = '']) => first).join('')
  return [...source.matchAll(/(?<!\\)[A-Za-z]{3,}/g)].map(([word]) => ({ at: Math.max(0, sample.indexOf(word)), word }))
}

/** Chance that is the same each time for the same expression. */
function seeded(text: string): () => number {
  let state = [...text].reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) % 2_147_483_647, 7)
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}
