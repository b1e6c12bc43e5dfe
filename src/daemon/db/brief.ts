import type { Connection, Runner } from './sqlite/connection.ts'
import { ONLY_READS } from './sqlite/lease.ts'
import type { Step } from './sqlite/script-statements.ts'

/** The statements of a brief transaction: what it reads is read at once, what it changes is kept for its end. */
export interface BriefRunner extends Runner {
  readonly steps: readonly Step[]
  /** Whether it has asked for what only a transaction of several statements can give. */
  isOther(): boolean
}

/** Over the connection that is going to run them. */
export function briefRunner(writer: Pick<Connection, 'all' | 'onStatement'>): BriefRunner {
  const steps: Step[] = []
  let isOther = false
  const refuse = (): never => {
    isOther = true
    throw new Error('a brief transaction reads first, and asks for nothing of what it has changed')
  }
  return {
    steps,
    isOther: () => isOther,
    // What it has changed is not there yet, so nothing is read behind it.
    all: async (sql, parameters) =>
      steps.length > 0 || !ONLY_READS.test(sql) ? refuse() : await writer.all(sql, parameters),
    run: async () => refuse(),
    change: async (sql, parameters, expected) => {
      writer.onStatement?.(sql, parameters) // from now on nobody takes what it changes from what is kept
      steps.push({ sql, parameters, expected })
      return true
    },
  }
}

/** The longest time that is not tried, in transactions. */
const MOST_PASSED = 64

/** Whether it is worth trying to carry out transactions of one kind as brief ones: those that turn out not to be are run twice. */
export class BriefTries {
  #pass = 0
  #passing = 0

  isDue(): boolean {
    if (this.#passing === 0) return true
    this.#passing -= 1
    return false
  }

  held(): void {
    this.#pass = 0
  }

  /** After each failure it is passed over for twice as long. */
  failed(): void {
    this.#pass = Math.min(MOST_PASSED, Math.max(1, this.#pass * 2))
    this.#passing = this.#pass
  }
}
