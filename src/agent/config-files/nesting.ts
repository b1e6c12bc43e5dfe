import { ConfigFileProblem, MOST_CONFIG_DEPTH } from './config-file-problem.ts'

/**
 * Refuses a text whose brackets are open too deep, before a parser that goes into them by recursion sees it. Counts those in texts and
 * comments too: no file of a game has so many there.
 */
export function refuseDeepBrackets(text: string): void {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === '[' || char === '{') refuse(++depth)
    else if ((char === ']' || char === '}') && depth > 0) depth--
  }
}

/** The same for the elements of XML. */
export function refuseDeepElements(text: string): void {
  let depth = 0
  for (let at = text.indexOf('<'); at !== -1; at = text.indexOf('<', at + 1)) {
    const next = text[at + 1] ?? ''
    if (next === '/') depth = Math.max(0, depth - 1)
    else if (next !== '!' && next !== '?') {
      const end = text.indexOf('>', at)
      if (end === -1) return // no element; the parser says so
      if (text[end - 1] !== '/') refuse(++depth)
      at = end
    }
  }
}

function refuse(depth: number): void {
  if (depth > MOST_CONFIG_DEPTH) throw new ConfigFileProblem('is nested too deep')
}
