import { RE2JS } from 're2js'
import { MOST_PATTERN_STEPS, patternSteps } from '../kernel/pattern-steps.ts'

/** An expression that cannot be used; the message is a sentence part, as in `has more than 1000 steps`. */
export class PatternProblem extends Error {
  override readonly name = 'PatternProblem'
}

/** An expression of RE2's syntax, compiled; its time grows with its steps times the length of the text. */
export interface BoundedPattern {
  readonly steps: number
  find(text: string): boolean
}

/** Compiles an expression of somebody else's. Throws a PatternProblem, before it compiles one that is too large. */
export function compileBounded(pattern: string, flags = 0): BoundedPattern {
  const steps = patternSteps(pattern)
  if (steps > MOST_PATTERN_STEPS) {
    throw new PatternProblem(
      `repeats too much: it has about ${steps} steps, ${MOST_PATTERN_STEPS} are allowed; use + or * instead of a count`,
    )
  }
  let compiled: RE2JS
  try {
    compiled = RE2JS.compile(pattern, flags)
  } catch (error) {
    throw new PatternProblem(`is no regular expression of RE2: ${error instanceof Error ? error.message : error}`)
  }
  return { steps, find: (text) => compiled.matcher(text).find() }
}

/** What compiling one step costs, in characters that a step could look at meanwhile. */
const COMPILING = 150
/** About a tenth of a second. */
const MOST_WORK = 2_000_000

/** How much the expressions of one request may do together. */
export class PatternBudget {
  #left = MOST_WORK

  /** Whether an expression of so many steps may be compiled and look at so much text; counts it when it may. */
  take(steps: number, characters = 0): boolean {
    const work = (steps + 10) * (COMPILING + characters)
    if (work > this.#left) return false
    this.#left -= work
    return true
  }
}
