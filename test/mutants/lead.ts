import type { Mutant } from './mutant.ts'

/** Mistakes in how soon and how often things happen. */
export const MUTANTS: readonly Mutant[] = [
  {
    title: 'a refused key is tried again every minute for ever',
    topic: 'reconnecting',
    file: 'src/agent/link/backoff.ts',
    find: 'REVOKED_FIRST_MS * 2 ** this.#revoked++',
    replace: 'REVOKED_FIRST_MS * 2 ** this.#revoked',
    seenBy: ['test/agent/backoff.test.ts'],
  },
]
