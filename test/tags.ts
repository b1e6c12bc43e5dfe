/** The tags of tests. `long` keeps a test out of `npm test`, which has to stay below eight minutes on two cores. */
export const TAGS = [
  { name: 'long', description: 'takes seconds of processor time, or is one more case of what a quick test shows' },
]
