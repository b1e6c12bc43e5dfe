import { pathText } from '../../shared/kernel/path-text.ts'
import { FILE_LIMITS, type FileProblem } from '../../shared/protocol/file-operations.ts'
import { jsonBytes } from './list.ts'

/** Half of what an answer may have. */
const MOST_BYTES = FILE_LIMITS.answerBytes / 2
const MOST_REASON = 300

/** What was left out of an operation and why: the first ones as they are, the others by their number. */
export class Problems {
  readonly #listed: FileProblem[] = []
  #count = 0
  #bytes = 0
  readonly #once = new Set<string>()

  /** `path` beyond what can be shown is counted alone. */
  add(path: string | Buffer | undefined, reason: string): void {
    this.#count++
    if (path === undefined || this.#listed.length >= FILE_LIMITS.problems) return
    const problem = { path: typeof path === 'string' ? path : pathText(path), reason: reason.slice(0, MOST_REASON) }
    this.#bytes += jsonBytes(problem.path) + jsonBytes(problem.reason)
    if (this.#bytes < MOST_BYTES) this.#listed.push(problem)
  }

  /** The same, of which one says enough. */
  addOnce(path: string, reason: string): void {
    if (this.#once.has(reason)) return
    this.#once.add(reason)
    this.add(path, reason)
  }

  /** As an answer has them. */
  get answer(): { readonly problems: FileProblem[]; readonly problemCount: number } {
    return { problems: [...this.#listed], problemCount: this.#count }
  }
}
