import type { IsoTime } from '../../shared/kernel/time.ts'

/** What is dated so much ahead was dated by a clock that has been set back since. */
const AHEAD_MS = 3_600_000

/**
 * Things in the order in which they were made, the newest first, of those that are given by their date, the newest first. What a clock has
 * dated that was ahead comes last: else it would count as the newest until the clock reaches it.
 */
export function newestFirst<T extends { readonly createdAt: IsoTime }>(dated: readonly T[], nowMs: number): T[] {
  const isAhead = ({ createdAt }: T): boolean => Date.parse(createdAt) > nowMs + AHEAD_MS
  return [...dated.filter((one) => !isAhead(one)), ...dated.filter(isAhead)]
}
