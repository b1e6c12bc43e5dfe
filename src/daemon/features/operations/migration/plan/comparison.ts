import type { PlannedStep } from './draft.ts'
import type { BuiltPlan } from './plan.ts'

/** Actions that a comparison has in place of those that bring files. */
const COMPARES_FILES = 'compare_files'

/**
 * Turns a plan into one that brings nothing: what is to be brought counts as a difference, and the files of servers that are here are
 * compared. `ofJob`: the migration that has brought them; `left`: what it has left out, with the reasons.
 */
export function comparing(
  { plan, steps }: BuiltPlan,
  { ofJob, left }: { readonly ofJob: string; readonly left: ReadonlyMap<string, string> },
): BuiltPlan {
  const compared: PlannedStep[] = []
  for (const step of steps) {
    const { action, skipped } = step
    if (action === 'write_report') compared.push({ ...step, follows: compared.map(({ id }) => id) })
    else if (action.startsWith('import_')) {
      const needs = { needs: [], follows: [] }
      const reason = skipped ?? left.get(step.id)
      if (reason !== undefined) compared.push({ ...step, ...needs, skipped: reason })
      else compared.push({ ...step, ...needs, failed: { code: 'DIFFERENT', text: differenceOf(step) } })
    } else if (action === 'transfer_files') {
      const input = { ...step.input, ofJob }
      compared.push({ ...step, action: COMPARES_FILES, needs: [], follows: [], input })
    }
  }
  return { plan, steps: compared }
}

function differenceOf({ targetId }: PlannedStep): string {
  return targetId === null
    ? 'It is on the source and not here'
    : 'It is not on the source as it was when it was brought'
}
