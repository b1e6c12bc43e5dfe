import { ConfigFileProblem } from './config-file-problem.ts'

/** One step of a path into a document: a name, a place in a list, or everything at that level. */
export type Step = string | number | typeof EVERY

/** `*`: each child. */
export const EVERY = Symbol('every')

const MOST_STEPS = 32
const PART = /^([^[\]]*)((?:\[\d{1,6}\])*)$/

/** The steps of a dotted path, as in `servers.*.address` or `listeners[0].host`. Throws a {@link ConfigFileProblem}. */
export function stepsOf(key: string): Step[] {
  const steps = key.split('.').flatMap((part): Step[] => {
    if (part === '*') return [EVERY]
    const [, name = '', places = ''] = PART.exec(part) ?? []
    if (name === '' && places === '') throw new ConfigFileProblem(`has no place ${key}`)
    const numbers = places.split(/[[\]]+/).filter((text) => text !== '')
    return [...(name === '' ? [] : [name]), ...numbers.map(Number)]
  })
  if (steps.length > MOST_STEPS || steps.includes('__proto__')) throw new ConfigFileProblem(`has no place ${key}`)
  return steps
}
