/** A mistake that `npm run mutants` plants in a copy of the source, and the tests that have to fail because of it. */
export interface Mutant {
  /** What is wrong once it is planted, as a sentence without a full stop. */
  readonly title: string
  /** The rule that it breaks, in a word or two; mutants of one topic are listed together. */
  readonly topic: string
  /** The file, from the root of the repository. */
  readonly file: string
  /** A text that stands exactly once in the file. */
  readonly find: string
  /** What takes its place. */
  readonly replace: string
  /** Test files of `npm test`, one of which has to fail. */
  readonly seenBy: readonly [string, ...string[]]
}
