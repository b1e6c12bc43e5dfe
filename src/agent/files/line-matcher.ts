import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { MOST_PATTERN_STEPS, patternSteps } from '../../shared/kernel/pattern-steps.ts'
import { folderAbove } from '../../shared/platform/program-folder.ts'
import { AgentFailure } from '../failure.ts'
import type { SearchAnswer, SearchJob } from './search-thread.ts'

const THREAD = join('src', 'agent', 'files', 'search-thread.js')
const MEMORY = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 8 } as const
/** The lines of one piece of a file. */
const PIECE_MS = 3000
const FIELD = { field: 'text' }

/** Looks for the first of some lines that has a text, or that an expression fits. */
export interface LineMatcher {
  first(lines: readonly string[]): Promise<number | undefined>
  close(): Promise<void>
}

/** A matcher for a text as it stands. */
export function textMatcher(text: string, ignoreCase: boolean): LineMatcher {
  const wanted = ignoreCase ? text.toLowerCase() : text
  return {
    first: async (lines) => {
      const found = lines.findIndex((line) => (ignoreCase ? line.toLowerCase() : line).includes(wanted))
      return found < 0 ? undefined : found
    },
    close: async () => {},
  }
}

/** A matcher for an expression of RE2, in a thread of its own. Rejects with BAD_REQUEST for one that is too large, invalid or slow. */
export function patternMatcher(pattern: string, ignoreCase: boolean): LineMatcher {
  if (patternSteps(pattern) > MOST_PATTERN_STEPS) throw refused(`has more than ${MOST_PATTERN_STEPS} steps`)
  const folder = folderAbove(import.meta.dirname, THREAD)
  if (folder === undefined) throw new Error(`the program has no ${THREAD}; build it again`)
  const job: SearchJob = { pattern, ignoreCase }
  const options = { workerData: job, env: {}, resourceLimits: MEMORY, execArgv: [] }
  const worker = new Worker(join(folder, THREAD), options)
  worker.on('error', () => {}) // seen by whoever waits for an answer
  return {
    first: async (lines) => {
      worker.postMessage(lines)
      const [answer] = (await once(worker, 'message', { signal: AbortSignal.timeout(PIECE_MS) }).catch(
        (cause: unknown) => {
          const isLate = cause instanceof Error && cause.name === 'AbortError'
          throw refused(isLate ? 'takes too long to match; make it simpler' : 'takes too much memory', cause)
        },
      )) as [SearchAnswer]
      if ('invalid' in answer) throw refused(`is no expression of RE2: ${answer.invalid.slice(0, 200)}`)
      return answer.found ?? undefined
    },
    close: async () => void (await worker.terminate()),
  }
}

function refused(reason: string, cause?: unknown): AgentFailure {
  return new AgentFailure('PATH_INVALID', reason, { ...FIELD, cause })
}
