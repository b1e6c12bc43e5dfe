import { parentPort, workerData } from 'node:worker_threads'
import { RE2JS } from 're2js'

// The thread in which lines of files meet an expression: neither can hold up the agent. It is terminated when it takes too long.

/** What the thread is started with. */
export interface SearchJob {
  readonly pattern: string
  readonly ignoreCase: boolean
}

/** What it answers to lines: the place of the first one that matches; `null` for none. `invalid`: the expression is none of RE2. */
export type SearchAnswer = { readonly found: number | null } | { readonly invalid: string }

const { pattern, ignoreCase } = workerData as SearchJob // what the agent starts it with
const expression = compiled()

parentPort?.on('message', (lines: readonly string[]) => parentPort?.postMessage(look(lines)))

function compiled(): RE2JS | string {
  try {
    return RE2JS.compile(pattern, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0)
  } catch (error) {
    return error instanceof Error ? error.message : 'is no valid expression'
  }
}

function look(lines: readonly string[]): SearchAnswer {
  if (typeof expression === 'string') return { invalid: expression }
  const found = lines.findIndex((line) => expression.matcher(line).find())
  return { found: found < 0 ? null : found }
}
