import { parseDuration } from '../../shared/kernel/clock.ts'
import { usage } from './failure.ts'

/** The values of one invocation, by the long names of options and the names of arguments. */
export class Args {
  readonly #options: ReadonlyMap<string, unknown>
  readonly #words: ReadonlyMap<string, readonly string[]>
  readonly #shadowed: ReadonlyMap<string, unknown>

  /** `shadowed`: the global flags whose names are also those of the command's own options; `undefined` when not given. */
  constructor(
    options: ReadonlyMap<string, unknown>,
    words: ReadonlyMap<string, readonly string[]>,
    shadowed: ReadonlyMap<string, unknown> = new Map(),
  ) {
    this.#options = options
    this.#words = words
    this.#shadowed = shadowed
  }

  /** The one word of an argument; an absent optional one is `undefined`. */
  word(name: string): string | undefined {
    return this.#words.get(name)?.[0]
  }

  /** The word of a required argument. */
  required(name: string): string {
    const word = this.word(name)
    if (word === undefined) throw usage(`missing required argument '${name}'`)
    return word
  }

  /** All words of an argument that takes many. */
  words(name: string): readonly string[] {
    return this.#words.get(name) ?? []
  }

  /** The text of an option. */
  text(name: string): string | undefined {
    const value = this.#options.get(name)
    return typeof value === 'string' ? value : undefined
  }

  /** The text of a global flag, also when the command has an option of its own by that name. */
  globalText(name: string): string | undefined {
    if (!this.#shadowed.has(name)) return this.text(name)
    const value = this.#shadowed.get(name)
    return typeof value === 'string' ? value : undefined
  }

  /** The values of an option that may be repeated. */
  list(name: string): readonly string[] {
    const value = this.#options.get(name)
    return Array.isArray(value) ? value.map(String) : typeof value === 'string' ? [value] : []
  }

  /** Whether a switch is given. */
  flag(name: string): boolean {
    const value = this.#options.get(name)
    return value !== undefined && value !== false
  }

  /** true by `--x`, false by `--no-x`, `undefined` when neither is given. */
  choice(name: string): boolean | undefined {
    const value = this.#options.get(name)
    return typeof value === 'boolean' ? value : undefined
  }

  /** A whole number of at least `min`. */
  integer(name: string, min = 0): number | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    if (!/^\d{1,15}$/.test(text) || Number(text) < min) {
      throw usage(`--${name} must be a whole number of at least ${min}, not '${text}'`)
    }
    return Number(text)
  }

  /** A duration in milliseconds: `90`, `30s`, `10m`, `1h30m`. */
  duration(name: string): number | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const ms = parseDuration(text)
    if (ms === undefined) throw usage(`--${name} must be a duration such as 30s, 10m or 1h30m, not '${text}'`)
    return ms
  }
}
